// pack.cu - the weights of mobile.hpp's chains, as warps read them.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "mobile/mobile.hpp"

namespace polyconv::cuda::mobile {
namespace {

constexpr int kThreads = 256;
constexpr int kFilterWords = kFilterBytes / 2, kFragmentWords = kFragmentBytes / 2;

// Nine taps of every channel, zeros behind them. Elements are copied as they are: any type of 16 bits.
__global__ void __launch_bounds__(kThreads)
    pack_taps(const View<int64_t> weights, const uint16_t *raw, uint16_t *packed, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t channel = i / kFilterWords, tap = i % kFilterWords;
    const bool there = channel < weights.size[0] && tap < 9;
    packed[i] = there ? raw[weights.at(channel, 0, 0, tap / 3, tap % 3)] : uint16_t{0};
  }
}

// The inverse of fragment_place.
__global__ void __launch_bounds__(kThreads)
    pack_matrix(const View<int64_t> weights, const uint16_t *raw, uint16_t *packed, int64_t count, int64_t in_groups,
                int64_t pairs) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t block = i / kFragmentWords, lane = i % kFragmentWords / 8, word = i % 8 / 2;
    const int64_t in = block / pairs % in_groups * 16 + lane % 4 * 2 + word % 2 * 8 + i % 2;
    const int64_t out = (block / pairs / in_groups * pairs + block % pairs) * 16 + word / 2 * 8 + lane / 4;
    const bool there = in < weights.size[1] && out < weights.size[0];
    packed[i] = there ? raw[weights.at(out, in, 0, 0, 0)] : uint16_t{0};
  }
}

} // namespace

int64_t filters_bytes(int64_t channels) {
  return ceil_div(channels, kGroup) * kGroup * kFilterBytes;
}

int64_t fragments_bytes(int64_t in, int64_t out, int64_t pairs) {
  return ceil_div(ceil_div(out, kGroup), pairs) * pairs * ceil_div(in, kGroup) * kFragmentBytes;
}

void pack_filters(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = filters_bytes(l.weights.size[0]) / 2;
  pack_taps<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const uint16_t *>(raw), static_cast<uint16_t *>(packed), count);
  check_launch("cuda-chain's packing of filters");
}

void pack_fragments(const polyconv_layer &l, int64_t pairs, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = fragments_bytes(l.weights.size[1], l.weights.size[0], pairs) / 2;
  pack_matrix<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const uint16_t *>(raw), static_cast<uint16_t *>(packed), count,
      ceil_div(l.weights.size[1], kGroup), pairs);
  check_launch("cuda-chain's packing of a matrix");
}

} // namespace polyconv::cuda::mobile
