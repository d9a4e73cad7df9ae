// lanes_instances.cu - the kernels of lanes.hpp, and their weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "images/lanes_pooled.cuh"
#include "images/lanes_strided.cuh"
#include "plan.hpp"

namespace polyconv::cuda::lanes {
namespace {

constexpr int kPackThreads = 256;

// A float of packed weights each; zeros where a line is filled up, and behind the lines of a block of one channel what
// its rows of taps sum to on zeros, which is NaN where one is infinite.
__global__ void __launch_bounds__(kPackThreads) pack_lines(const View<int32_t> weights, const Packing packing, int line,
                                                           int block, const float *raw, float *packed, int count) {
  const int i = static_cast<int>(blockIdx.x) * kPackThreads + static_cast<int>(threadIdx.x);
  if (i >= count) return;
  const int at = i % block / line, tap = i % block % line / packing.own, channels = weights.size[1];
  const int k = i / block * packing.own + i % block % line % packing.own, taps = weights.size[4];
  float v = 0;
  if (at < packing.lines && tap < packing.line_taps) {
    int r = packing.by_rows ? at / channels : tap / taps;
    if (taps == 4) r = tap / 4 % 2 * 2 + tap / 8; // rows 0 and 2 meet the same row of the input, and then 1 and 3
    v = raw[weights.at(k, at % channels, 0, r, tap % taps)];
  }
  const int r = i % block - packing.lines * line;
  if (packing.own == 1 && r >= 0 && r < taps)
    for (int c = 0; c < channels; ++c)
      for (int s = 0; s < taps; ++s) v += 0 * raw[weights.at(k, c, 0, r, s)];
  packed[i] = v;
}

} // namespace

Kernel kernel_of(const Net &net) {
  return &net == &kStrided ? fuse_strided : fuse_pooled;
}

int shared_bytes_of(const Net &net) {
  const int rows = &net == &kStrided ? StridedPlaces::kEnd : PooledPlaces::kEnd;
  return (rows + weights_before(net, net.layers)) * 4;
}

void pack(const Net &net, const polyconv_layer &l, int layer, const void *raw, void *packed, cudaStream_t stream) {
  const Packing packing = packing_of(net, layer);
  const int count = packed_floats(net, layer);
  pack_lines<<<blocks_for(count, kPackThreads), kPackThreads, 0, stream>>>(
      View<int32_t>(l.weights), packing, packing.line(), packing.block(), static_cast<const float *>(raw),
      static_cast<float *>(packed), count);
  check_launch("cuda-chain/lanes' packing");
}

} // namespace polyconv::cuda::lanes
