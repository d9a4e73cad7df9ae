// kernels.cpp - the table behind kernels.hpp, and the kernels that are other kernels' adjoints.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels.hpp"

#include "cpu/adjoint/driver.hpp"

namespace polyconv::cpu {
namespace {

#define POLYCONV_KERNEL(name)
#define POLYCONV_ADJOINT(name) const sdk::Kernel kernel_##name##_data = adjoint_of<kernel_##name>(#name "_data");
#include "cpu/kernels.inc"
#undef POLYCONV_KERNEL
#undef POLYCONV_ADJOINT

} // namespace

std::vector<const sdk::Kernel *> kernels() {
  return {
#define POLYCONV_KERNEL(name) &kernel_##name,
#define POLYCONV_ADJOINT(name) &kernel_##name##_data,
#include "cpu/kernels.inc"
#undef POLYCONV_KERNEL
#undef POLYCONV_ADJOINT
  };
}

} // namespace polyconv::cpu
