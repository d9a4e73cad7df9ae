// first_f16.cu - the kernels of the Hopper product with channels first for f16.
// SPDX-License-Identifier: Apache-2.0
#include "first/first.cuh"

namespace polyconv::cuda::first {

FirstLauncher first_f16(int shape) {
  return first_launcher_of<__half>(shape);
}

} // namespace polyconv::cuda::first
