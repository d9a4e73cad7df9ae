// backend.cpp - the reference backend: the oracle. Plain loops, wider sums than anybody, every feature of the API in
// every type and direction; slow, and never chosen where another kernel accepts.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>
#include <polyconv/sdk/parallel_std.hpp>

namespace polyconv::reference {

#define POLYCONV_KERNEL(name) extern const sdk::Kernel kernel_##name;
#include "kernels.inc"
#undef POLYCONV_KERNEL

static std::vector<const sdk::Kernel *> kernels() {
  return {
#define POLYCONV_KERNEL(name) &kernel_##name,
#include "kernels.inc"
#undef POLYCONV_KERNEL
  };
}

static polyconv_status probe(char *, size_t) {
  return POLYCONV_SUCCESS; // plain C++: there is no machine that it does not run on
}

} // namespace polyconv::reference

std::unique_ptr<polyconv::sdk::Parallel> polyconv::sdk::make_parallel(const polyconv_policy &policy) {
  if (policy.parallel_for != nullptr) return std::make_unique<CallerParallel>(policy);
  return std::make_unique<StdParallel>(policy.threads);
}

POLYCONV_DEFINE_BACKEND({"reference", POLYCONV_BACKEND_VERSION, "cpu", polyconv::reference::kernels(),
                         polyconv::reference::probe})
