// multiply_bf16.cu - products of few rows, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "vector/multiply.cuh"

namespace polyconv::cuda::tensor {

VectorLauncher vector_bf16(const VectorShape &shape, bool vectors) {
  return vector_launcher_of<__nv_bfloat16>(shape, vectors);
}

} // namespace polyconv::cuda::tensor
