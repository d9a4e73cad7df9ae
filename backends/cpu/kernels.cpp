// kernels.cpp - the table behind kernels.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels.hpp"

namespace polyconv::cpu {

std::vector<const sdk::Kernel *> kernels() {
  return {
#define POLYCONV_KERNEL(name) &kernel_##name,
#include "cpu/kernels.inc"
#undef POLYCONV_KERNEL
  };
}

} // namespace polyconv::cpu
