// backend.cpp - a backend of one kernel: matrix, as the CPU backends have it, but on tiles in memory instead of AMX's,
// so that any machine tests all of it but the instructions themselves.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>
#include <polyconv/sdk/parallel_std.hpp>

namespace polyconv::cpu {
extern const sdk::Kernel kernel_matrix;
}

static polyconv_status probe(char *, size_t) {
  return POLYCONV_SUCCESS;
}

std::unique_ptr<polyconv::sdk::Parallel> polyconv::sdk::make_parallel(const polyconv_policy &policy) {
  if (policy.parallel_for != nullptr) return std::make_unique<CallerParallel>(policy);
  return std::make_unique<StdParallel>(policy.threads);
}

POLYCONV_DEFINE_BACKEND({"soft-tiles", "1", "cpu", {&polyconv::cpu::kernel_matrix}, probe})
