// lenet.cuh - the kernel of lenet.hpp. One warp has the first layer's left columns, the other the right
// ones, and each has half of the second layer's channels; they go down the rows as in few.cuh. A lane's two rows
// of a matrix are pixels side by side, so that windows of 2 x 2 meet in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "images/lenet.hpp"
#include "images/pooled.cuh"

namespace polyconv::cuda::lenet {

using few::Finish;
using mobile::lane_of;
using pooled::larger;
using ptx::load_matrices;
using ptx::multiply_add;
using ptx::multiply_add_half;
using ptx::shared_address;

// ---------------------------------------------------------------- images in and out

// The next image on its way, in registers: 56 threads have a pair of pixels in every fourth row.
struct Coming {
  static constexpr int kRowWords = kSize / 2, kThreads = 4 * kRowWords, kWords = kSize / 4;
  uint32_t word[kWords];

  __device__ void fetch(const Chain &p, int thread, int64_t image) {
    if (thread >= kThreads) return;
    const auto *const from = static_cast<const uint16_t *>(p.input) + image * (kSize * kSize) + thread * 2;
    if (p.pairs) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) word[i] = *reinterpret_cast<const uint32_t *>(from + i * (kThreads * 2));
    } else {
#pragma unroll
      for (int i = 0; i < kWords; ++i) word[i] = from[i * (kThreads * 2)] | from[i * (kThreads * 2) + 1] << 16;
    }
  }
  __device__ void arrive(uint32_t memory, int thread) const {
    if (thread >= kThreads) return;
    const uint32_t to = memory + kInput + (thread / kRowWords + 2) * kInputRow + (thread % kRowWords + 1) * 4;
#pragma unroll
    for (int i = 0; i < kWords; ++i) ptx::store_word(to + i * (4 * kInputRow), word[i]);
  }
};

// ---------------------------------------------------------------- layers

// Where a column lies in a row of positions: what a matrix reads, eight positions two apart, lies in all banks.
__device__ inline int position_of(int column) {
  return (column ^ (column >> 3 & 1)) * kPosition;
}

// 16 columns of a half. A row of taps is a reduction of 8. Two pooled columns behind the last are written too: whoever
// reads them keeps nothing of what they give.
template <class T>
__device__ inline void first_layer(const Chain &p, uint32_t memory, uint32_t weights, uint32_t biases, int half) {
  constexpr int kRing = 7; // rows of windows: those of taps, and two on their way
  static_assert(kSize % (2 * kRing) == 0, "whole turns of the ring and pairs of rows");
  const int lane = lane_of(), t = lane % 4, column = half * 8 + lane / 4;                        // pooled
  const uint32_t mask = (2 * t < kTaps ? 0xffffu : 0u) | (2 * t + 1 < kTaps ? 0xffff0000u : 0u); // else Inf times 0
  const Finish<T> finish(p.layer[0], biases, 0);
  uint32_t b[kTaps], row[kRing][2], best = 0;
#pragma unroll
  for (int r = 0; r < kTaps; ++r) b[r] = ptx::load_settled(weights + (r * few::kBlockWords + lane) * 4);
  uint32_t from = memory + kInput + (column + t) * 4;
  const auto load = [&](uint32_t(&to)[2], int y) { // pixels from 2 column + 2 t on
    const uint32_t first = ptx::load_settled(from + y * kInputRow),
                   second = ptx::load_settled(from + y * kInputRow + 4);
    to[0] = first & mask, to[1] = __byte_perm(first, second, 0x5432) & mask;
  };
#pragma unroll
  for (int r = 0; r + 1 < kRing; ++r) load(row[r], r);
  uint32_t to = memory + kFrame + position_of(column) + t * 4;
#pragma unroll 1
  for (int turn = 0; turn < kSize / (2 * kRing); ++turn) {
#pragma unroll
    for (int i = 0; i < 2 * kRing; ++i) {
      load(row[(i + kRing - 1) % kRing], i + kRing - 1);
      float sum[4];
      ptx::multiply_onto<T>(sum, finish.begin, row[i % kRing][0], row[i % kRing][1], b[0]);
#pragma unroll
      for (int r = 1; r < kTaps; ++r)
        multiply_add_half(sum, row[(i + r) % kRing][0], row[(i + r) % kRing][1], b[r], T());
      const uint32_t v = larger<T>(pair_of(sum[0], sum[1], T()), pair_of(sum[2], sum[3], T()));
      if (i % 2 != 0) ptx::store_word(to + i / 2 * kFrameRow, finish.end(larger<T>(best, v)));
      best = v;
    }
    from += 2 * kRing * kInputRow, to += kRing * kFrameRow;
  }
}

// Where the windows of columns begin, for matrices of a row: each two taps of eight channels, and the last tap.
struct Windows {
  uint32_t at[3];

  __device__ explicit Windows(uint32_t memory) {
    const int lane = lane_of(), first = lane % 8 * 2 + lane / 8 % 2; // of a matrix's row
#pragma unroll
    for (int q = 0; q < 3; ++q) at[q] = memory + kFrame + position_of(first + 2 * q + (q < 2 ? lane / 16 : 0));
  }
  __device__ void load(uint32_t (&to)[10], int y) const {
    load_matrices(reinterpret_cast<uint32_t(&)[4]>(to[0]), at[0] + y * kFrameRow);
    load_matrices(reinterpret_cast<uint32_t(&)[4]>(to[4]), at[1] + y * kFrameRow);
    load_matrices(reinterpret_cast<uint32_t(&)[2]>(to[8]), at[2] + y * kFrameRow);
  }
};

// 8 channels of all columns. A row is added to the sums of all rows of outputs that it meets, which are five chains of
// matrix instructions.
template <class T>
__device__ inline void second_layer(const Chain &p, uint32_t memory, uint32_t weights, uint32_t biases, int half) {
  const Layer &l = p.layer[1];
  const int lane = lane_of(), channel = half * 8 + lane % 4 * 2, column = lane / 4; // of the result
  const Finish<T> finish(l, biases, half * 8);
  const Windows windows(memory);
  uint32_t b[kTaps][kTaps], row[2][10], best = 0;
  float sum[kTaps][4];
#pragma unroll
  for (int r = 0; r < kTaps; ++r)
#pragma unroll
    for (int s = 0; s < kTaps; ++s)
      b[r][s] = ptx::load_settled(weights + (((r * kTaps + s) * 2 + half) * few::kBlockWords + lane) * 4);
  uint32_t to = memory + kWaiting + (channel * p.channel_step + column * p.pixel_step) * 2;
  const uint32_t row_bytes = kOut * p.pixel_step * 2, next = p.channel_step * 2;
  const bool there[2] = {column < kOut && channel < l.results, column < kOut && channel + 1 < l.results};
  windows.load(row[0], 0);
#pragma unroll
  for (int y = 0; y < kBetween; ++y) {
    const uint32_t(&x)[10] = row[y % 2];
    if (y + 1 < kBetween) windows.load(row[(y + 1) % 2], y + 1);
#pragma unroll
    for (int q = 0; q < 3; ++q)
#pragma unroll
      for (int r = 0; r < kTaps; ++r) {
        if (y - r < 0 || y - r >= kSums) continue;
        float(&of)[4] = sum[(y - r) % kTaps];
        const auto &a = reinterpret_cast<const uint32_t(&)[4]>(x[q < 2 ? 4 * q : 0]);
        if (q + r == 0)
          ptx::multiply_onto<T>(of, finish.begin, a, b[0][0], b[0][1]);
        else if (q < 2)
          multiply_add(of, a, &b[r][2 * q], T());
        else
          multiply_add_half(of, x[8], x[9], b[r][4], T());
      }
    if (y + 1 < kTaps) continue;
    const float(&done)[4] = sum[(y + 1) % kTaps];
    const uint32_t v = larger<T>(pair_of(done[0], done[1], T()), pair_of(done[2], done[3], T()));
    if ((y + 1 - kTaps) % 2 != 0) {
      const uint32_t widest = finish.end(larger<T>(best, v));
      if (there[0]) ptx::store_element(to, widest & 0xffff);
      if (there[1]) ptx::store_element(to + next, widest >> 16);
      to += row_bytes;
    }
    best = v;
  }
}

// ---------------------------------------------------------------- the kernel

// What stays for all images: weights, biases, and zeros for padding.
__device__ inline void fill(const Chain &p, unsigned char *shared) {
  const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = kImages + thread * 16; i < kImages + p.teams * kImageBytes; i += threads * 16)
    *reinterpret_cast<uint4 *>(shared + i) = uint4{};
  auto *to = reinterpret_cast<uint32_t *>(shared);
  auto *biases = reinterpret_cast<float *>(shared + kBiases);
  for (int layer = 0; layer < 2; ++layer) {
    const Layer &l = p.layer[layer];
    const int words = layer == 0 ? kFirstWords : kSecondWords;
    for (int i = thread; i < words; i += threads) to[i] = static_cast<const uint32_t *>(l.weights)[i];
    to += words;
    for (int i = thread; i < few::kBiases; i += threads)
      biases[layer * few::kBiases + i] = l.bias != nullptr && i < l.results ? l.bias[i] : -0.0f;
  }
  __syncthreads();
}

template <class T>
__global__ void __launch_bounds__(kMostTeams *kTeam, 1) fuse_lenet(const __grid_constant__ Chain p) {
  extern __shared__ __align__(16) unsigned char shared[];
  fill(p, shared);
  const few::Team team;
  const uint32_t weights = shared_address(shared), biases = weights + kBiases;
  const uint32_t memory = weights + kImages + team.index * kImageBytes;
  const int step = static_cast<int>(gridDim.x) * p.teams;
  int image = team.index * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  if (image >= p.batch) return;
  Coming coming;
  coming.fetch(p, team.thread, image);
  coming.arrive(memory, team.thread);
  if (image + step < p.batch) coming.fetch(p, team.thread, image + step);
#pragma unroll 1
  for (; image < p.batch; image += step) {
    team.sync();
    first_layer<T>(p, memory, weights, biases, team.half);
    team.sync();
    if (image + step < p.batch) coming.arrive(memory, team.thread);
    if (image + 2 * step < p.batch) coming.fetch(p, team.thread, image + 2 * step);
    second_layer<T>(p, memory, weights + kFirstWords * 4, biases + few::kBiases * 4, team.half);
    team.sync();
    few::send(p, team.thread, memory + kWaiting, image);
  }
}

} // namespace polyconv::cuda::lenet
