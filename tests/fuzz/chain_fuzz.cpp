// chain_fuzz.cpp - any bytes as a chain of layers.
// SPDX-License-Identifier: Apache-2.0
#include "bench_file_fuzz.hpp"

#include "work/work.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return polyconv_fuzz::read_bench_file("chain.txt", data, size,
                                        [](const std::string &path) { polyconv::bench::load_chain(path); });
}
