// pooled_instances.cu - instances of pooled.cuh, and their weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/instance.hpp"
#include "images/pooled.cuh"

namespace polyconv::cuda::pooled {
namespace {

constexpr int kThreads = 256;

// Rows of taps, pairs of taps, 8 channels out; two values a lane. Elements are copied as they are: any type of 16 bits.
__global__ void __launch_bounds__(kThreads)
    pack_pairs(const View<int64_t> weights, const uint16_t *raw, uint16_t *packed, int count, int blocks, int groups) {
  const auto i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= count) return;
  const int lane = i / 2 % few::kBlockWords, block = i / 2 / few::kBlockWords, q = block / groups % blocks;
  const int k = lane % 4 * 2 + i % 2, r = block / groups / blocks, out = block % groups * 8 + lane / 4;
  const int s = q * 2 + k / 4, c = k % 4;
  const bool there = out < weights.size[0] && c < weights.size[1] && s < weights.size[4];
  packed[i] = there ? raw[weights.at(out, c, 0, r, s)] : uint16_t{0};
}

} // namespace

Kernel find(int32_t type) {
  return type == POLYCONV_F16 ? fuse_pooled<__half, 7, 7> : fuse_pooled<__nv_bfloat16, 7, 7>;
}

void pack(const polyconv_layer &l, int layer, const void *raw, void *packed, cudaStream_t stream) {
  if (layer == 0) return few::pack(l, kShapes[0], raw, packed, stream);
  const int count = blocks_of(1) * few::kBlockWords * 2;
  pack_pairs<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const uint16_t *>(raw), static_cast<uint16_t *>(packed), count,
      (kShapes[1].columns + 1) / 2, kShapes[1].out / 8);
  check_launch("cuda-chain/tensor_pooled's packing");
}

} // namespace polyconv::cuda::pooled
