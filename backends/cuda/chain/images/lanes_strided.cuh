// lanes_strided.cuh - the LeNet of strides, a lane an image. A step makes two rows of the first layer and what they
// complete in the others: first rows of the first and the third layer, then, as all threads have met, of the second and
// the last. Rows of outputs that are under way wait as sums in registers, so that a row of inputs is read once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "images/lanes.cuh"

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
        to[j % 2][k * At::kFirstPlane + in_pairs(j / 2 * 2)] = ptx::greater(sum[k][j], p.floor[0]);
  }
};

// A row of the second layer begins with a pair of rows of the first, and ends with the next pair.
struct Second : Weights<kStrided, 1, StridedPlaces> {
  using At = StridedPlaces;
  using W = Weights<kStrided, 1, At>;
  static constexpr int K = W::K, P = (At::kInner + 1) / 2, N = P * 2 + 2;
  float next[K][P];

  template <bool ends, bool begins>
  __device__ __forceinline__ void step(const Lanes &p, const Thread &t) {
    const float *from = shared_floats() + At::kFirst + t.half * in_pairs(At::kPeriod) + t.image * 2;
    const float *weights = W::of(t.block);
    const auto biases = W::biases(t.block);
    float waiting[K][P];
    const auto add_channel = [&](auto first) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float x[N], w[K * 8]; // both rows of taps that meet this row
        read_vectors(weights + i * (K * 8), w);
        read_pairs(from + i * At::kFirstRow, x);
        if (decltype(first)::value && i == 0) {
          if constexpr (ends) add_taps<4, 2>(waiting, x, w + K * 4, [&](int k, int j) { return next[k][j]; });
          if constexpr (begins) add_taps<4, 2>(next, x, w, biases);
        } else {
          if constexpr (begins) add_taps<4, 2>(next, x, w);
          if constexpr (ends) add_taps<4, 2>(waiting, x, w + K * 4);
        }
      }
      from += At::kFirstPlane, weights += W::kLine;
    };
    add_channel(std::true_type());
#pragma unroll 1
    for (int c = 1; c < kStrided.layer[1].in; ++c) add_channel(std::false_type());
    if constexpr (!ends) return;
    const int column = t.half * P + 1;
    float *const plane = shared_floats() + At::kSecond + t.block * (K * At::kSecondPlane) + t.image * 2;
    float *const to[] = {plane + in_pairs(column), plane + in_pairs(column + 1)};
#pragma unroll
    for (int k = 0; k < K; ++k)
#pragma unroll
      for (int j = 0; j < P; ++j)
        if (j < P - 1 || t.half == 0)
          to[j % 2][k * At::kSecondPlane + in_pairs(j / 2 * 2)] = ptx::greater(waiting[k][j], p.floor[1]);
  }
  __device__ __forceinline__ void step(const Lanes &p, const Thread &t, int pair) {
    if (pair == 0)
      step<false, true>(p, t);
    else if (pair == At::kPeriod - 1)
      step<true, false>(p, t);
    else
      step<true, true>(p, t);
  }
};

// Three rows of a layer of 3 x 3 taps under way, a channel each: the oldest is complete with the row that comes.
template <class W, int P>
struct Three {
  Sums<1, P> row[3];

  __device__ __forceinline__ void move_on(int block) {
#pragma unroll
    for (int j = 0; j < P; ++j) row[0][0][j] = row[1][0][j], row[1][0][j] = row[2][0][j];
    W::begin(row[2], block);
  }
  // Adds what `read(x)` has of one channel after the other; four channels' weights lie together.
  template <int N, class Read>
  __device__ __forceinline__ void add(int block, int channels, const Read &read) {
    const float *weights = W::of(block);
#pragma unroll 1
    for (int c = 0; c < channels; c += 4, weights += 4 * W::kLine) {
      float w[4 * W::kLine];
      read_vectors(weights, w);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float x[N];
        read(x);
#pragma unroll
        for (int r = 0; r < 3; ++r) add_taps<3, 1>(row[2 - r], x, w + i * W::kLine + r * 3);
      }
    }
  }
};

// Row i of the second layer completes row i - 1. The halves have seven columns each, so they share one, which the left
// one leaves to the other.
struct Third : Weights<kStrided, 2, StridedPlaces> {
  using At = StridedPlaces;
  using W = Weights<kStrided, 2, At>;
  static constexpr int P = (At::kInner + 1) / 2;
  Three<W, P> sums;

  // Step `at` has row at - 1; step 0 completes the last row of the images before, and begins the first of these.
  __device__ __forceinline__ void step(const Lanes &p, const Thread &t, int at) {
    const int left = t.half * (P - 1);
    sums.move_on(t.block);
    if (at > 0) {
      const float *from = shared_floats() + At::kSecond + in_pairs(left) + t.image * 2;
      sums.template add<P + 3>(t.block, kStrided.layer[2].in, [&](float(&x)[P + 3]) {
        read_pairs(from, x);
        from += At::kSecondPlane;
      });
    } else {
#pragma unroll
      for (int j = 0; j < P; ++j)
        sums.row[2][0][j] += W::outside(t.block, 0), sums.row[0][0][j] += W::outside(t.block, 2);
    }
    float *const to = shared_floats() + At::kThird + t.block * At::kThirdPlane + left * kImages + t.image;
#pragma unroll
    for (int j = 0; j < P; ++j)
      if (j < P - 1 || t.half == 1) to[j * kImages] = ptx::greater(sums.row[0][0][j], p.floor[2]);
  }
};

// The same without padding: row i of the third layer completes row i - 2. A block has one channel and half of a
// row in two pieces; halves of a warp begin an odd number of columns apart.
struct Fourth : Weights<kStrided, 3, StridedPlaces> {
  using At = StridedPlaces;
  using W = Weights<kStrided, 3, At>;
  static constexpr int P = 3;
  Three<W, P> sums;

  // Step `at` has row at - 2; step 0 the last, of the images before. `round` is that of the images whose rows they are.
  __device__ __forceinline__ void step(const Lanes &p, const Thread &t, int at, int round) {
    if (at == 1) return;
    const int left = t.half * 3 + t.block / 4 * 6; // the first column
    sums.move_on(t.block % 4);
    const float *from = shared_floats() + At::kThird + left * kImages + t.image;
    sums.template add<P + 2>(t.block % 4, kStrided.layer[3].in, [&](float(&x)[P + 2]) {
      read<kImages>(from, x);
      from += At::kThirdPlane;
    });
    float *const to = result_of<At>(p, round, t.image, At::kResults);
    const int y = at == 0 ? At::kLast - 1 : at - 4;
    const int place = t.block % 4 * p.channel_step + (y * At::kLast + left) * p.pixel_step;
#pragma unroll
    for (int j = 0; j < P; ++j)
      if (y >= 0 && to != nullptr && left + j < At::kLast)
        to[place + j * p.pixel_step] = ptx::greater(sums.row[0][0][j], p.floor[3]);
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
  Input<At> input;
  input.fetch(p, 0, 0), input.fetch(p, 0, 2);
  const int blocks = static_cast<int>(gridDim.x),
            rounds = (p.groups - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
  int pair = 0, before = 0; // in this step; in the last: what the first makes of rows before it is nobody's
#pragma unroll 1
  for (int round = 0; round < rounds || pair < 2;) { // two more steps complete the last rows
    await_copies();
    __syncthreads();
    if (round < rounds) first.step(p, t, round * At::kSize, pair);
    third.step(p, t, before);
    __syncthreads();
    input.fetch(p, round, 2 * pair + 4);
    if (round < rounds) second.step(p, t, pair);
    fourth.step(p, t, before, pair < 2 ? round - 1 : round);
    before = pair;
    if (++pair == At::kPeriod) pair = 0, ++round;
  }
}

} // namespace polyconv::cuda::lanes
