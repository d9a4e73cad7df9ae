// lanes_strided.cuh - the LeNet of strides, a lane an image. A step makes two rows of the first layer and what they
// complete in the others: first rows of the first and the third layer, then, as all threads have met, of the second and
// the last. Rows of outputs that are under way wait as sums in registers, so that a row of inputs is read once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lanes.cuh"

namespace polyconv::cuda::lanes {

// Where rows lie in shared memory, in floats: [row][channel][column][image]. What is read beside a row's last column is
// used by nobody, but it must not be what others write at that time.
struct StridedPlaces {
  static constexpr int kSize = 28, kInner = 13, kLast = 11;
  static constexpr int kPeriod = kSize / 2, kResults = kStrided.results(); // period: steps of an image
  // Two columns of padding before each row, and behind the last. kImages lie one further apart, so that pixels that
  // arrive side by side go to different banks.
  static constexpr int kPixel = kImages + 1, kInputRow = (kSize + 2) * kPixel, kInputRows = 6;
  // What lies around rows of input.
  static constexpr int kZeros = kInputRows * kInputRow + 2 * kPixel, kZeroFloats = (kSize / 4 + 4) * kPixel;
  // [row][channel][pair of columns][image][2]: halves of a warp, which begin 7 pairs apart, meet different banks.
  static constexpr int kFirstPlane = kSize * kImages, kFirstRow = kStrided.layer[0].out * kFirstPlane;
  // So are these, with a column of padding before each row, and behind the last.
  static constexpr int kSecondPlane = (kInner + 1) * kImages, kThirdPlane = kInner * kImages;
  static constexpr int kFirst = (kZeros + kZeroFloats + 3) / 4 * 4;
  static constexpr int kSecond = kFirst + 2 * kFirstRow + 2 * kImages;
  static constexpr int kThird = kSecond + kStrided.layer[1].out * kSecondPlane + 2 * kImages;
  static constexpr int kEnd = (kThird + kStrided.layer[2].out * kThirdPlane + kImages + 3) / 4 * 4;
};

// Two rows, each in halves by lane and quarters by block: 7 columns.
struct First : Weights<kStrided, 0, StridedPlaces> {
  using At = StridedPlaces;
  using W = Weights<kStrided, 0, At>;
  static constexpr int K = W::K, P = At::kSize / 4;

  // `rows` counts those of all images of the block before these.
  __device__ __forceinline__ void step(const Lanes &p, const Thread &t, int rows, int pair) const {
    const int row = t.block % 2, column = t.half * 2 * P + t.block / 2 % 2 * P;
    Sums<K, P> sum;
    sum_input<At, W>(sum, t, t.block / 4, rows, pair * 2 + row, column);
    float *const plane =
        shared_floats() + At::kFirst + row * At::kFirstRow + t.block / 4 * (K * At::kFirstPlane) + t.image * 2;
    float *const to[] = {plane + in_pairs(column), plane + in_pairs(column + 1)};
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; ++j)
        to[j % 2][k * At::kFirstPlane + in_pairs(j / 2 * 2)] = at_least(sum[k][j], p.floor[0]);
  }
};

// A row of the second layer begins with a pair of rows of the first, and ends with the next pair.
struct Second : Weights<kStrided, 1, StridedPlaces> {
  using At = StridedPlaces;
  using W = Weights<kStrided, 1, At>;
  static constexpr int K = W::K, P = (At::kInner + 1) / 2, N = P * 2 + 2;
  float waiting[K][P];

  template <bool ends, bool begins>
  __device__ __forceinline__ void step(const Lanes &p, const Thread &t) {
    const float *from = shared_floats() + At::kFirst + t.half * in_pairs(At::kPeriod) + t.image * 2;
    const float *weights = W::of(t.block);
    Sums<K, P> next;
    W::begin(next, t.block);
#pragma unroll 1
    for (int c = 0; c < kStrided.layer[1].in; ++c, from += At::kFirstPlane, weights += W::kLine)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float x[N], w[K * 8]; // both rows of taps that meet this row
        read_vectors(weights + i * (K * 8), w);
        read_pairs(from + i * At::kFirstRow, x);
        if constexpr (begins) add_taps<4, 2>(next, x, w);
        if constexpr (ends) add_taps<4, 2>(waiting, x, w + K * 4);
      }
    const int column = t.half * P + 1;
    float *const plane = shared_floats() + At::kSecond + t.block * (K * At::kSecondPlane) + t.image * 2;
    float *const to[] = {plane + in_pairs(column), plane + in_pairs(column + 1)};
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; ++j) {
        if (ends && (j < P - 1 || t.half == 0))
          to[j % 2][k * At::kSecondPlane + in_pairs(j / 2 * 2)] = at_least(waiting[k][j], p.floor[1]);
        waiting[k][j] = next[k][j];
      }
  }
};

// Three rows of the third layer are under way: row i of the second completes row i - 1. The halves have seven columns
// each, so they share one, which the left one leaves to the other.
struct Third : Weights<kStrided, 2, StridedPlaces> {
  using At = StridedPlaces;
  using W = Weights<kStrided, 2, At>;
  static constexpr int K = W::K, P = (At::kInner + 1) / 2;
  float waiting[2][K][P];

  // Step `at` has row at - 1; step 0 completes the last row of the images before, and begins the first of these.
  __device__ __forceinline__ void step(const Lanes &p, const Thread &t, int at) {
    const int left = t.half * (P - 1);
    Sums<K, P> next;
    W::begin(next, t.block);
    if (at > 0) {
      const float *from = shared_floats() + At::kSecond + in_pairs(left) + t.image * 2;
      const float *weights = W::of(t.block);
#pragma unroll 2
      for (int c = 0; c < kStrided.layer[2].in; ++c, from += At::kSecondPlane, weights += W::kLine) {
        float x[P + 3], w[W::kLine];
        read_vectors(weights, w);
        read_pairs(from, x);
        add_taps<3, 1>(next, x, w);
        add_taps<3, 1>(waiting[1], x, w + K * 3);
        add_taps<3, 1>(waiting[0], x, w + K * 6);
      }
    } else {
#pragma unroll
      for (int j = 0; j < P; ++j) next[0][j] += W::outside(t.block, 0), waiting[0][0][j] += W::outside(t.block, 2);
    }
    float *const to = shared_floats() + At::kThird + t.block * (K * At::kThirdPlane) + left * kImages + t.image;
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; ++j) {
        if (j < P - 1 || t.half == 1) to[k * At::kThirdPlane + j * kImages] = at_least(waiting[0][k][j], p.floor[2]);
        waiting[0][k][j] = waiting[1][k][j], waiting[1][k][j] = next[k][j];
      }
  }
};

// The same without padding: row i of the third layer completes row i - 2. A block has one channel and half of a
// row in two pieces; halves of a warp begin an odd number of columns apart.
struct Fourth : Weights<kStrided, 3, StridedPlaces> {
  using At = StridedPlaces;
  using W = Weights<kStrided, 3, At>;
  static constexpr int P = 3;
  float waiting[2][1][P];

  // Step `at` has row at - 2; step 0 the last, of the images before. `to` is the image's result, NULL where it has
  // none.
  __device__ __forceinline__ void step(const Lanes &p, const Thread &t, int at, float *to) {
    if (at == 1) return;
    const int left = t.half * 3 + t.block / 4 * 6; // the first column
    Sums<1, P> next;
    W::begin(next, t.block % 4);
    const float *from = shared_floats() + At::kThird + left * kImages + t.image, *weights = W::of(t.block % 4);
#pragma unroll 4
    for (int c = 0; c < kStrided.layer[3].in; ++c, from += At::kThirdPlane, weights += W::kLine) {
      float x[P + 2], w[W::kLine];
      read_vectors(weights, w);
      read<kImages>(from, x);
      add_taps<3, 1>(next, x, w);
      add_taps<3, 1>(waiting[1], x, w + 3);
      add_taps<3, 1>(waiting[0], x, w + 6);
    }
    const int y = at == 0 ? At::kLast - 1 : at - 4;
    const int place = t.block % 4 * p.channel_step + (y * At::kLast + left) * p.pixel_step;
#pragma unroll
    for (int j = 0; j < P; ++j) {
      if (y >= 0 && to != nullptr && left + j < At::kLast)
        to[place + j * p.pixel_step] = at_least(waiting[0][0][j], p.floor[3]);
      waiting[0][0][j] = waiting[1][0][j], waiting[1][0][j] = next[0][j];
    }
  }
};

__global__ void __launch_bounds__(kThreads, kTogether) fuse_strided(const __grid_constant__ Lanes p) {
  using At = StridedPlaces;
  const Thread t;
  clear<At::kEnd>(); // the padding stays
  First first;
  Second second;
  Third third;
  Fourth fourth;
  first.fill(p), second.fill(p), third.fill(p), fourth.fill(p);
  __syncthreads(); // the padding is there
  fetch<At>(p, 0, 0), fetch<At>(p, 0, 2);
  const int blocks = static_cast<int>(gridDim.x),
            rounds = (p.groups - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
  int pair = 0, before = -1; // in this step; in the last
#pragma unroll 1
  for (int round = 0; round < rounds || pair < 2;) { // two more steps complete the last rows
    await_copies();
    __syncthreads();
    if (round < rounds) first.step(p, t, round * At::kSize, pair);
    if (before >= 0) third.step(p, t, before);
    __syncthreads();
    fetch<At>(p, round, 2 * pair + 4);
    if (round < rounds) {
      if (pair == 0)
        second.template step<false, true>(p, t);
      else if (pair == At::kPeriod - 1)
        second.template step<true, false>(p, t);
      else
        second.template step<true, true>(p, t);
    }
    if (before >= 0) {
      const int of = pair < 2 ? round - 1 : round; // whose rows they are
      fourth.step(p, t, before, result_of<At>(p, of, t.image, At::kResults));
    }
    before = pair;
    if (++pair == At::kPeriod) pair = 0, ++round;
  }
}

} // namespace polyconv::cuda::lanes
