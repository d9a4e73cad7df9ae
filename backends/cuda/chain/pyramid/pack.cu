// pack.cu - weights as cuda-chain/pyramid reads them: blocks of a thread's output channels, in each of them
// [input channel][row][column][output channel], zeros beyond a group's last.
// SPDX-License-Identifier: Apache-2.0
#include "common/numbers.hpp"
#include "pyramid/pyramid.hpp"

namespace polyconv::cuda::chain {
namespace {

constexpr int kThreads = 256;

template <class Stored>
__global__ void __launch_bounds__(kThreads)
    pack(const View<int32_t> weights, const Stored *raw, float *packed, int32_t count, int32_t group_out, Shape shape) {
  const int32_t i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= count) return;
  int32_t rest = i / shape.row();
  const int32_t s = rest % weights.size[4];
  rest /= weights.size[4];
  const int32_t r = rest % weights.size[3];
  rest /= weights.size[3];
  const int32_t c = rest % weights.size[1], block = rest / weights.size[1];
  const int32_t blocks = (group_out + shape.channels - 1) / shape.channels, own = i % shape.row(); // blocks of a group
  const int32_t k = block % blocks * shape.channels + own;
  const bool exists = own < shape.channels && k < group_out && block / blocks * group_out + k < weights.size[0];
  packed[i] = exists ? value(raw[weights.at(block / blocks * group_out + k, c, 0, r, s)]) : 0.0f;
}

constexpr Shape kShapes[] = {
#define POLYCONV_SHAPE(size, stride, channels) {size, stride, channels},
#include "pyramid/shapes.inc"
#undef POLYCONV_SHAPE
};

} // namespace

// The unrolled shape if there is one, with the channels that leave the fewest idle.
Shape shape_of(const polyconv_layer &l, int channels) {
  const int64_t size = l.weights.size[3], stride = l.stride[1], group_out = l.weights.size[0] / l.groups;
  const bool square = l.weights.size[4] == size && l.stride[2] == stride && l.dilation[1] == 1 && l.dilation[2] == 1;
  Shape best = {0, 0, 4};
  double least = 0;
  for (const Shape &shape : kShapes) {
    const bool fits =
        shape.channels <= channels && (shape.size == 0 || (square && shape.size == size && shape.stride == stride));
    const double blocks = real(ceil_div(group_out, shape.channels));
    const double work = blocks * (shape.channels + 1.2) * (shape.size == 0 ? 1.5 : 1);
    if (fits && (least == 0 || work < least)) least = work, best = shape;
  }
  return best;
}

int64_t packed_bytes(const polyconv_layer &l, int channels) {
  const Shape shape = shape_of(l, channels);
  const int64_t group_out = l.weights.size[0] / l.groups, blocks = ceil_div(group_out, shape.channels);
  return ceil_div(l.groups * blocks * shape.row() * l.weights.size[1] * sdk::taps(l), 4) * 16;
}

void pack_weights(const polyconv_layer &l, int channels, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = packed_bytes(l, channels) / 4;
  const auto group_out = static_cast<int32_t>(l.weights.size[0] / l.groups);
  const auto go = [&](auto stored) {
    using Stored = decltype(stored);
    pack<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        View<int32_t>(l.weights), static_cast<const Stored *>(raw), static_cast<float *>(packed),
        static_cast<int32_t>(count), group_out, shape_of(l, channels));
  };
  switch (l.weights.type) {
    case POLYCONV_F16: go(__half{}); break;
    case POLYCONV_BF16: go(__nv_bfloat16{}); break;
    default: go(float{}); break;
  }
  check_launch("cuda-chain/pyramid's packing");
}

} // namespace polyconv::cuda::chain
