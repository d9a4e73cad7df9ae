// backend.cpp - the backend "outside": its name, its kernels, where it can serve, and its threads.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>
#include <polyconv/sdk/parallel_std.hpp>

namespace outside {

using polyconv::sdk::Kernel;

#define POLYCONV_KERNEL(name) extern const Kernel kernel_##name;
#include "kernels.inc"
#undef POLYCONV_KERNEL

static std::vector<const Kernel *> kernels() {
  return {
#define POLYCONV_KERNEL(name) &kernel_##name,
#include "kernels.inc"
#undef POLYCONV_KERNEL
  };
}

// Plain C++ runs everywhere. A backend that needs more writes one sentence to `reason` and returns UNAVAILABLE.
static polyconv_status probe(char *, size_t) {
  return POLYCONV_SUCCESS;
}

} // namespace outside

std::unique_ptr<polyconv::sdk::Parallel> polyconv::sdk::make_parallel(const polyconv_policy &policy) {
  if (policy.parallel_for != nullptr) return std::make_unique<CallerParallel>(policy);
  return std::make_unique<StdParallel>(policy.threads);
}

POLYCONV_DEFINE_BACKEND({"outside", OUTSIDE_VERSION, "cpu", outside::kernels(), outside::probe})
