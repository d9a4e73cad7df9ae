// backend.cpp - the threads backend: the shared CPU kernels under threads of our own.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>
#include <polyconv/sdk/parallel_std.hpp>

#include "cpu/kernels.hpp"

std::unique_ptr<polyconv::sdk::Parallel> polyconv::sdk::make_parallel(const polyconv_policy &policy) {
  if (policy.parallel_for != nullptr) return std::make_unique<CallerParallel>(policy);
  return std::make_unique<StdParallel>(policy.threads);
}

POLYCONV_DEFINE_BACKEND({"threads", POLYCONV_BACKEND_VERSION, "cpu", polyconv::cpu::kernels(), polyconv::cpu::probe})
