// first_bf16.cu - the kernels of the Hopper product with channels first for bf16.
// SPDX-License-Identifier: Apache-2.0
#include "first/first.cuh"

namespace polyconv::cuda::first {

FirstLauncher first_bf16(int shape) {
  return first_launcher_of<__nv_bfloat16>(shape);
}

} // namespace polyconv::cuda::first
