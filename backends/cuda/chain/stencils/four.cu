// four.cu - the kernels of cuda-chain/stencils for four filters.
// SPDX-License-Identifier: Apache-2.0
#include "stencils/stencils.cuh"

namespace polyconv::cuda::chain {

const StencilKernel *four_stencils(int &known) {
  static const StencilKernel kernels[] = {stencil_kernel<3, 3, 3, 3>(), stencil_kernel<5, 3, 3, 3>()};
  known = static_cast<int>(sizeof kernels / sizeof *kernels);
  return kernels;
}

} // namespace polyconv::cuda::chain
