// expect_fuzz.cpp - any bytes as a file of bars.
// SPDX-License-Identifier: Apache-2.0
#include "bench_file_fuzz.hpp"

#include "judge/expect.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return polyconv_fuzz::read_bench_file("expect.csv", data, size,
                                        [](const std::string &path) { polyconv::bench::load_expectations(path); });
}
