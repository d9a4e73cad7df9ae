// pyramid_pack.cu - weights as cuda-chain/pyramid reads them: blocks of a thread's output channels, in each of them
// [input channel][row][column][output channel], zeros beyond a group's last.
// SPDX-License-Identifier: Apache-2.0
#include "pyramid.hpp"

namespace polyconv::cuda::chain {
namespace {

constexpr int kThreads = 256;

template <class Stored>
__global__ void __launch_bounds__(kThreads)
    pack(const View<int32_t> weights, const Stored *raw, float *packed, int32_t count, int32_t group_out) {
  const int32_t i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x);
  if (i >= count) return;
  int32_t rest = i / kChannels;
  const int32_t s = rest % weights.size[4];
  rest /= weights.size[4];
  const int32_t r = rest % weights.size[3];
  rest /= weights.size[3];
  const int32_t c = rest % weights.size[1], block = rest / weights.size[1];
  const int32_t blocks = (group_out + kChannels - 1) / kChannels; // of a group
  const int32_t k = block % blocks * kChannels + i % kChannels;
  packed[i] = k < group_out ? value(raw[weights.at(block / blocks * group_out + k, c, 0, r, s)]) : 0.0f;
}

} // namespace

int64_t packed_bytes(const polyconv_layer &l) {
  const int64_t group_out = l.weights.size[0] / l.groups;
  return l.groups * ((group_out + kChannels - 1) / kChannels) * kChannels * l.weights.size[1] * sdk::taps(l) * 4;
}

void pack_weights(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = packed_bytes(l) / 4;
  const auto group_out = static_cast<int32_t>(l.weights.size[0] / l.groups);
  const auto go = [&](auto stored) {
    using Stored = decltype(stored);
    pack<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        View<int32_t>(l.weights), static_cast<const Stored *>(raw), static_cast<float *>(packed),
        static_cast<int32_t>(count), group_out);
  };
  switch (l.weights.type) {
    case POLYCONV_F16: go(__half{}); break;
    case POLYCONV_BF16: go(__nv_bfloat16{}); break;
    default: go(float{}); break;
  }
  check_launch("cuda-chain/pyramid's packing");
}

} // namespace polyconv::cuda::chain
