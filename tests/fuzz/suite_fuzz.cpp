// suite_fuzz.cpp - any bytes as a suite of tokens.
// SPDX-License-Identifier: Apache-2.0
#include "bench_file_fuzz.hpp"

#include "work/suite.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return polyconv_fuzz::read_bench_file("suite.txt", data, size,
                                        [](const std::string &path) { polyconv::bench::load_suite(path, true); });
}
