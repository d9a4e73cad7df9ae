// lanes_pooled.cuh - LeNet's two pooled layers on 28 x 28 pixels, a lane an image. Halves of a warp have the two rows
// that are pooled to one: pairs of columns meet in a thread, and rows by a shuffle. A step makes two pooled rows of the
// first layer, and then, as all threads have met, the pooled row of the second that they complete.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "images/lanes.cuh"

namespace polyconv::cuda::lanes {

// Where rows lie in shared memory, in floats: [row][channel][column][image].
struct PooledPlaces {
  static constexpr int kSize = 28, kBetween = 14, kOut = 10;
  static constexpr int kSteps = kBetween / 2, kResults = kPooled.results();
  // Two columns of padding before each row, and behind the last. kImages lie one further apart, so that pixels that
  // arrive side by side go to different banks.
  static constexpr int kPixel = kImages + 1, kInputRow = (kSize + 2) * kPixel, kInputRows = 8;
  // What lies around rows of input.
  static constexpr int kZeros = kInputRows * kInputRow + 2 * kPixel, kZeroFloats = (kSize / 2 + 4) * kPixel;
  // Pooled rows of the first layer, of which the second reads six, in pairs of columns; neighbours begin in different
  // banks.
  static constexpr int kPlane = kBetween * kImages, kRow = kPooled.layer[0].out * kPlane + 2 * kImages, kRows = 6;
  static constexpr int kFirst = (kZeros + kZeroFloats + 3) / 4 * 4;
  static constexpr int kEnd = kFirst + kRows * kRow;
};

// The maximum of a window of both halves' rows: NaN counts as greatest.
__device__ __forceinline__ float pooled(float left, float right) {
  const float own = ptx::greater(left, right);
  return ptx::greater(own, __shfl_xor_sync(0xffffffffu, own, kImages));
}

// A block has one of two pooled rows, half of the columns and half of the channels.
struct PooledFirst {
  using At = PooledPlaces;
  using W = Weights<kPooled, 0, At>;
  static constexpr int K = W::K, P = At::kSize / 2;

  // `step` of the round's steps; `rows` and `pooled_rows` count those of the images before.
  __device__ __forceinline__ static void run(const Lanes &p, const Thread &t, int rows, int pooled_rows, int step) {
    const int to_row = step * 2 + t.block % 2, left = t.block / 2 % 2 * P;
    Sums<K, P> sum;
    sum_input<At, W>(sum, t, t.block / 4, rows, to_row * 2 + t.half, left);
    float *const plane = shared_floats() + At::kFirst + (pooled_rows + to_row) % At::kRows * At::kRow +
                         t.block / 4 * (K * At::kPlane) + t.image * 2;
    float *const to[] = {plane + in_pairs(left / 2), plane + in_pairs(left / 2 + 1)};
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; j += 2) {
        const float v = pooled(sum[k][j], sum[k][j + 1]);
        if (t.half == 0) to[j / 2 % 2][k * At::kPlane + in_pairs(j / 4 * 2)] = ptx::greater(v, p.floor[0]);
      }
  }
};

struct PooledSecond {
  using At = PooledPlaces;
  using W = Weights<kPooled, 1, At>;
  static constexpr int K = W::K, P = At::kOut;

  // Pooled row `row` of the result; `to` is the image's result, NULL where it has none.
  __device__ __forceinline__ static void run(const Lanes &p, const Thread &t, int pooled_rows, int row, float *to) {
    Sums<K, P> sum;
    W::begin(sum, t.block);
    const float *weights = W::of(t.block);
#pragma unroll 1
    for (int r = 0; r < 5; ++r) {
      const float *from =
          shared_floats() + At::kFirst + (pooled_rows + row * 2 + t.half + r) % At::kRows * At::kRow + t.image * 2;
#pragma unroll 1
      for (int c = 0; c < kPooled.layer[1].in; ++c, from += At::kPlane, weights += W::kLine) {
        float x[P + 4], w[W::kLine];
        read_vectors(weights, w);
        read_pairs(from, x);
        add_taps<5, 1>(sum, x, w);
      }
    }
    constexpr int size = At::kOut / 2;
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; j += 2) {
        const float v = pooled(sum[k][j], sum[k][j + 1]);
        if (k % 2 == t.half && to != nullptr)
          to[(t.block * K + k) * p.channel_step + (row * size + j / 2) * p.pixel_step] = ptx::greater(v, p.floor[1]);
      }
  }
};

__global__ void __launch_bounds__(kThreads, kTogether) fuse_pooled(const __grid_constant__ Lanes p) {
  using At = PooledPlaces;
  using First = PooledFirst;
  using Second = PooledSecond;
  const Thread t;
  clear<At::kEnd>(); // the padding stays
  First::W::fill(p), Second::W::fill(p);
  __syncthreads(); // the padding is there
  Input<At> input;
  input.fetch(p, 0, 0), input.fetch(p, 0, 2), input.fetch(p, 0, 4);
  const int blocks = static_cast<int>(gridDim.x),
            rounds = (p.groups - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    float *const to = result_of<At>(p, round, t.image, At::kResults);
#pragma unroll 1
    for (int step = 0; step < At::kSteps; ++step) {
      await_copies();
      __syncthreads();
      First::run(p, t, round * At::kSize, round * At::kBetween, step);
      __syncthreads();
      // The next step's four rows; an image's first rows need two fewer before them.
      input.fetch(p, round, step * 4 + 6), input.fetch(p, round, step * 4 + 8);
      if (step >= 2) Second::run(p, t, round * At::kBetween, step - 2, to);
    }
  }
}

} // namespace polyconv::cuda::lanes
