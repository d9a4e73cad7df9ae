// two.cu - the kernels of cuda-chain/stencils for two filters.
// SPDX-License-Identifier: Apache-2.0
#include "stencils/stencils.cuh"

namespace polyconv::cuda::chain {

const StencilKernel *two_stencils(int &known) {
  static const StencilKernel kernels[] = {stencil_kernel<3, 3>(), stencil_kernel<3, 5>(), stencil_kernel<5, 3>(),
                                          stencil_kernel<5, 5>(), stencil_kernel<7, 3>(), stencil_kernel<3, 7>(),
                                          stencil_kernel<7, 7>()};
  known = static_cast<int>(sizeof kernels / sizeof *kernels);
  return kernels;
}

} // namespace polyconv::cuda::chain
