// multiply_f16.cu - products of few rows, f16; and the packing of weights of 16 bits.
// SPDX-License-Identifier: Apache-2.0
#include "vector/multiply.cuh"

namespace polyconv::cuda::tensor {

VectorLauncher vector_f16(const VectorShape &shape, bool vectors) {
  return vector_launcher_of<__half>(shape, vectors);
}

void pack_vector_16(const polyconv_layer &l, const VectorLayer &v, const void *raw, void *packed, cudaStream_t stream) {
  launch_pack_vector<VectorOperand, uint16_t>(l, v, raw, packed, stream);
}

} // namespace polyconv::cuda::tensor
