// lanes.cuh - what the kernels of lanes.hpp share: sums of a row of outputs, weights, and input on its way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "common/ptx/async.cuh"
#include "common/ptx/numbers.cuh"
#include "images/lanes.hpp"

namespace polyconv::cuda::lanes {

__device__ inline float *shared_floats() {
  extern __shared__ __align__(16) float floats[];
  return floats;
}

template <int Floats>
__device__ __forceinline__ void clear() {
  static_assert(Floats % 4 == 0, "whole vectors");
  for (int i = static_cast<int>(threadIdx.x) * 4; i < Floats; i += kThreads * 4)
    *reinterpret_cast<float4 *>(shared_floats() + i) = make_float4(0, 0, 0, 0);
}

// A thread's place: its image, its half of the columns and its block of channels.
struct Thread {
  int image = static_cast<int>(threadIdx.x) % kImages, half = static_cast<int>(threadIdx.x) / kImages % 2;
  int block = static_cast<int>(threadIdx.x) / (2 * kImages);

  __device__ Thread() {}
};

template <int K, int P>
using Sums = float[K][P];

// S taps of a row, a weight for each of K channels, added to what `onto(k, j)` gives: other registers than the sums',
// which takes no instructions.
template <int S, int Step, int K, int P, int N, class Onto>
__device__ __forceinline__ void add_taps(Sums<K, P> &sum, const float (&x)[N], const float *weights, const Onto &onto) {
#pragma unroll
  for (int s = 0; s < S; ++s)
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; ++j)
        sum[k][j] = fmaf(x[j * Step + s], weights[s * K + k], s == 0 ? onto(k, j) : sum[k][j]);
}
template <int S, int Step, int K, int P, int N>
__device__ __forceinline__ void add_taps(Sums<K, P> &sum, const float (&x)[N], const float *weights) {
  add_taps<S, Step>(sum, x, weights, [&](int k, int j) { return sum[k][j]; });
}

// What sums begin with.
template <int K>
struct Biases {
  float of[K];
  __device__ __forceinline__ float operator()(int k, int) const { return of[k]; }
};

template <int Distance, int N>
__device__ __forceinline__ void read(const float *from, float (&x)[N]) {
#pragma unroll
  for (int j = 0; j < N; ++j) x[j] = from[j * Distance];
}

// From pairs of columns, each of all images.
template <int N>
__device__ __forceinline__ void read_pairs(const float *from, float (&x)[N]) {
  static_assert(N % 2 == 0, "whole pairs");
#pragma unroll
  for (int j = 0; j < N; j += 2) {
    const float2 v = *reinterpret_cast<const float2 *>(from + j * kImages);
    x[j] = v.x, x[j + 1] = v.y;
  }
}
// Where a column lies in such a row.
__device__ __forceinline__ int in_pairs(int column) {
  return column / 2 * (2 * kImages) + column % 2;
}

template <int N>
__device__ __forceinline__ void read_vectors(const float *from, float (&w)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const float4 v = *reinterpret_cast<const float4 *>(from + i);
    w[i] = v.x, w[i + 1] = v.y, w[i + 2] = v.z, w[i + 3] = v.w;
  }
}

// A layer's packed weights and biases in shared memory, behind those of the layers before it. `At` says where rows lie.
template <const Net &net, int Layer, class At>
struct Weights {
  static constexpr Packing packing = packing_of(net, Layer);
  static constexpr int K = packing.own, kLine = packing.line(), kBlock = packing.block();
  static constexpr int kPacked = packed_floats(net, Layer), kOut = net.layer[Layer].out;
  static constexpr int kBegin = At::kEnd + weights_before(net, Layer);

  // The biases, and the begin of the copy of the weights.
  __device__ static void fill(const Lanes &p) {
    const auto thread = static_cast<int>(threadIdx.x);
    for (int i = thread * 4; i < kPacked; i += kThreads * 4)
      copy_async<16>(shared_floats() + kBegin + i, p.weights[Layer] + i, true);
    if (thread < kOut) shared_floats()[kBegin + kPacked + thread] = p.bias[Layer] ? p.bias[Layer][thread] : -0.0f;
  }
  __device__ static const float *of(int block) { return shared_floats() + kBegin + block * kBlock; }
  __device__ __forceinline__ static Biases<K> biases(int block) {
    Biases<K> biases;
#pragma unroll
    for (int k = 0; k < K; ++k) biases.of[k] = shared_floats()[kBegin + kPacked + block * K + k];
    return biases;
  }
  template <int P>
  __device__ __forceinline__ static void begin(Sums<K, P> &sum, int block) {
    const Biases<K> bias = biases(block);
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; ++j) sum[k][j] = bias(k, j);
  }
  // What a row of taps sums to on zeros: the zeros around the layer's input are multiplied too.
  __device__ static float outside(int block, int r) {
    static_assert(K == 1, "one channel's is packed");
    return of(block)[packing.lines * kLine + r];
  }
};

// The sums of P columns of the first layer's row y from `column` on. `rows` counts those of all images of the block
// before these, and `block` is that of W's channels.
template <class At, class W, int P>
__device__ __forceinline__ void sum_input(Sums<W::K, P> &sum, const Thread &t, int block, int rows, int y, int column) {
  const float *const input = shared_floats() + column * At::kPixel + t.image, *weights = W::of(block);
  const auto biases = W::biases(block);
  int slot = (rows + y + At::kInputRows - 2) % At::kInputRows;
  const auto add_row = [&](int r, auto first) {
    const bool inside = static_cast<unsigned>(y + r) < At::kSize;
    float x[P + 4], w[W::kLine];
    read_vectors(weights, w);
    read<At::kPixel>(inside ? input + slot * At::kInputRow : shared_floats() + At::kZeros, x);
    if constexpr (decltype(first)::value)
      add_taps<5, 1>(sum, x, w, biases);
    else
      add_taps<5, 1>(sum, x, w);
    slot = slot + 1 == At::kInputRows ? 0 : slot + 1;
    weights += W::kLine;
  };
  add_row(-2, std::true_type());
#pragma unroll 1
  for (int r = -1; r <= 2; ++r) add_row(r, std::false_type());
}

// Input on its way into the ring, two rows at a time, one image after the other. They are side by side in memory, and a
// sixteenth of the block copies those of an image.
template <class At>
class Input {
 public:
  // From `row` on, of this round's images or the next one's; `slot_` is where they go.
  __device__ __forceinline__ void fetch(const Lanes &p, int round, int row) {
    constexpr int size = At::kSize, threads = kThreads / kImages, turn = At::kInputRows * At::kInputRow;
    if (row >= size) row -= size, ++round;
    const int group = static_cast<int>(blockIdx.x) + round * static_cast<int>(gridDim.x);
    if (group >= p.groups) return;
    const int image = static_cast<int>(threadIdx.x) / threads, first = static_cast<int>(threadIdx.x) % threads;
    const int64_t of = min(group * kImages + image, p.batch - 1);
    const float *const from = p.input + of * (size * size) + row * size + first;
    float *const to = shared_floats() + slot_ + ((first + 2) * At::kPixel + image);
#pragma unroll
    for (int i = 0; i < 2 * size; i += threads) {
      const bool second = i >= size || (i + threads > size && first >= size - i);
      if (i + threads <= 2 * size || first < 2 * size - i)
        copy_async<4>(to + i * At::kPixel + (second ? At::kInputRow - size * At::kPixel : 0), from + i, true);
    }
    slot_ = slot_ == turn - 2 * At::kInputRow ? 0 : slot_ + 2 * At::kInputRow;
  }

 private:
  int slot_ = 0;
};

// Where an image of the block's group has its result; NULL beyond the last image.
template <class At>
__device__ inline float *result_of(const Lanes &p, int round, int image, int results) {
  const int index = (static_cast<int>(blockIdx.x) + round * static_cast<int>(gridDim.x)) * kImages + image;
  return round >= 0 && index < p.batch ? p.result + static_cast<int64_t>(index) * results : nullptr;
}

} // namespace polyconv::cuda::lanes
