// results_fuzz.cpp - any bytes as a file of results.
// SPDX-License-Identifier: Apache-2.0
#include "bench_file_fuzz.hpp"

#include "result/results.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return polyconv_fuzz::read_bench_file("results.jsonl", data, size,
                                        [](const std::string &path) { polyconv::bench::read_results(path); });
}
