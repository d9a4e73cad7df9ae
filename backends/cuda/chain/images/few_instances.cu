// few_instances.cu - instances of few.cuh, and their weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/instance.hpp"
#include "images/few.cuh"

namespace polyconv::cuda::few {
namespace {

constexpr int kThreads = 256;

// Blocks of 8 x 8 in the order in which warps ask for them: rows of taps, blocks of the reduction, 8 channels out. Two
// values a lane. Elements are copied as they are: any type of 16 bits.
__global__ void __launch_bounds__(kThreads)
    pack_blocks(const View<int64_t> weights, const Shape shape, const uint16_t *raw, uint16_t *packed, int count) {
  const auto i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= count) return;
  const int lane = i / 2 % kBlockWords, block = i / 2 / kBlockWords, groups = shape.out / 8;
  const int row_blocks = shape.in == 1 ? 1 : shape.columns * shape.in / 8, q = block / groups % row_blocks;
  const int k = lane % 4 * 2 + i % 2, r = block / groups / row_blocks, out = block % groups * 8 + lane / 4;
  const int per_tap = max(shape.in / 8, 1);
  const int s = shape.in == 1 ? k : q / per_tap, c = shape.in == 1 ? 0 : q % per_tap * 8 + k;
  const bool there = out < weights.size[0] && c < weights.size[1] && s < shape.columns;
  packed[i] = there ? raw[weights.at(out, c, 0, r, s)] : uint16_t{0};
}

} // namespace

Kernel find_strided(int32_t type) {
  return type == POLYCONV_F16 ? strided<__half>() : strided<__nv_bfloat16>();
}

void pack(const polyconv_layer &l, const Shape &shape, const void *raw, void *packed, cudaStream_t stream) {
  const auto count = static_cast<int>(packed_bytes(shape) / 2);
  pack_blocks<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), shape, static_cast<const uint16_t *>(raw), static_cast<uint16_t *>(packed), count);
  check_launch("cuda-chain/tensor_few's packing");
}

} // namespace polyconv::cuda::few
