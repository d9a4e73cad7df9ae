// lanes.cuh - what the kernels of lanes.hpp share: sums of a row of outputs, weights, and input on its way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "at_least.cuh"
#include "common/async.cuh"
#include "lanes.hpp"

namespace polyconv::cuda::lanes {

using chain::at_least;

__device__ inline float *shared_floats() {
  extern __shared__ __align__(16) float floats[];
  return floats;
}

// A thread's place: its image, its half of the columns and its block of channels.
struct Thread {
  int image = static_cast<int>(threadIdx.x) % kImages, half = static_cast<int>(threadIdx.x) / kImages % 2;
  int block = static_cast<int>(threadIdx.x) / (2 * kImages);

  __device__ Thread() {}
};

template <int K, int P>
using Sums = float[K][P];

// S taps of a row, a weight for each of K channels.
template <int S, int Step, int K, int P, int N>
__device__ __forceinline__ void add_taps(Sums<K, P> &sum, const float (&x)[N], const float *weights) {
#pragma unroll
  for (int s = 0; s < S; ++s)
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; ++j) sum[k][j] = fmaf(x[j * Step + s], weights[s * K + k], sum[k][j]);
}

template <int Distance, int N>
__device__ __forceinline__ void read(const float *from, float (&x)[N]) {
#pragma unroll
  for (int j = 0; j < N; ++j) x[j] = from[j * Distance];
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
  template <int P>
  __device__ __forceinline__ static void begin(Sums<K, P> &sum, int block) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const float bias = shared_floats()[kBegin + kPacked + block * K + k];
#pragma unroll
      for (int j = 0; j < P; ++j) sum[k][j] = bias;
    }
  }
};

// So many rows of input on their way into the ring; `rows` counts those of all images of the block.
template <class At, int Rows>
__device__ __forceinline__ void fetch(const Lanes &p, int rows) {
  constexpr int size = At::kSize, pixels = Rows * size, images = kImages;
  const int group = static_cast<int>(blockIdx.x) + rows / size * static_cast<int>(gridDim.x);
  if (group >= p.groups) return;
  const float *const from = p.input + rows % size * size;
  float *const to = shared_floats() + rows % At::kInputRows * At::kInputRow + 2 * At::kPixel;
#pragma unroll 1
  for (int e = static_cast<int>(threadIdx.x); e < images * pixels; e += kThreads) {
    const int image = e / pixels, pixel = e % pixels;
    const int64_t of = min(group * images + image, p.batch - 1);
    copy_async<4>(to + pixel / size * At::kInputRow + pixel % size * At::kPixel + image,
                  from + of * (size * size) + pixel, true);
  }
}

// Where an image of the block's group has its result; NULL beyond the last image.
template <class At>
__device__ inline float *result_of(const Lanes &p, int round, int image, int results) {
  const int index = (static_cast<int>(blockIdx.x) + round * static_cast<int>(gridDim.x)) * kImages + image;
  return round >= 0 && index < p.batch ? p.result + static_cast<int64_t>(index) * results : nullptr;
}

} // namespace polyconv::cuda::lanes
