// three.cu - the kernels of cuda-chain/stencils for three filters.
// SPDX-License-Identifier: Apache-2.0
#include "stencils/stencils.cuh"

namespace polyconv::cuda::chain {

const StencilKernel *three_stencils(int &known) {
  static const StencilKernel kernels[] = {stencil_kernel<3, 3, 3>(), stencil_kernel<5, 3, 3>(),
                                          stencil_kernel<5, 5, 3>(), stencil_kernel<5, 5, 5>()};
  known = static_cast<int>(sizeof kernels / sizeof *kernels);
  return kernels;
}

} // namespace polyconv::cuda::chain
