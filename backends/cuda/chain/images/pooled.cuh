// pooled.cuh - the kernel of pooled.hpp. Warps go down the rows of both layers as in few.cuh; rows
// of a pooling window meet in registers, its columns by shuffles. Rounding keeps order: the largest of rounded values
// is the largest value, rounded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "images/few.cuh"
#include "images/pooled.hpp"

namespace polyconv::cuda::pooled {

using few::Finish;
using mobile::as_pair;
using mobile::bits_of;
using mobile::Bounds;
using mobile::lane_of;
using ptx::load_matrices;
using ptx::multiply_add;
using ptx::multiply_add_half;
using ptx::shared_address;

// NaN is greater than everything.
template <class T>
__device__ inline uint32_t larger(uint32_t a, uint32_t b) {
  return bits_of(__hmax2_nan(as_pair<T>(a), as_pair<T>(b)));
}

// A warp's share of something.
struct Share {
  int begin, end;
  __device__ Share(int all, int of, int which) : begin(all * which / of), end(all * (which + 1) / of) {}
};

// ---------------------------------------------------------------- the first layer

// R x S taps on one channel, then windows of 2 x 2: 16 columns of sums from `x` on, for pooled rows of a share. A row
// of taps is a reduction of 8, two are one of 16.
template <class T, int R, int S>
__device__ inline void first_layer(const Chain &p, uint32_t memory, uint32_t weights, uint32_t biases, int x,
                                   const Share &rows) {
  const Layer &l = p.layer[0], &next = p.layer[1];
  const int lane = lane_of(), t = lane % 4, begin = l.left - l.pad[1] + x + lane / 4, odd = begin & 1;
  const uint32_t mask = (2 * t < S ? 0xffffu : 0u) | (2 * t + 1 < S ? 0xffff0000u : 0u); // else Inf times 0
  const Finish<T> finish(l, biases, 0);
  uint32_t b[R], row[R][2];
#pragma unroll
  for (int r = 0; r < R; ++r) b[r] = ptx::load_settled(weights + (r * 32 + lane) * 4);
  uint32_t from = memory + l.frame + odd * l.second + rows.begin * 2 * l.row_bytes + ((begin - odd) / 2 + t) * 4;
  const auto load = [&](uint32_t(&to)[2]) {
    to[0] = ptx::load_settled(from) & mask, to[1] = ptx::load_settled(from + 16) & mask; // 8 pixels on
    from += l.row_bytes;
  };
#pragma unroll
  for (int r = 0; r + 1 < R; ++r) load(row[r]);
  const uint32_t to =
      memory + next.frame + next.pad[0] * next.row_bytes + (next.left + x / 2 + lane / 8) * kPosition + t * 4;
  uint32_t best[2] = {};
#pragma unroll 1
  for (int y0 = rows.begin * 2; y0 < rows.end * 2; y0 += 2 * R) {
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) {
      if (y0 + i >= rows.end * 2) break;
      load(row[(i + R - 1) % R]);
      float sum[4];
#pragma unroll
      for (int r = 0; r + 1 < R; r += 2) {
        const auto &above = row[(i + r) % R], &below = row[(i + r + 1) % R];
        const uint32_t a[4] = {above[0], above[1], below[0], below[1]};
        if (r == 0)
          ptx::multiply_onto<T>(sum, finish.begin, a, b[0], b[1]);
        else
          multiply_add(sum, a, b + r, T());
      }
      if constexpr (R % 2 != 0) multiply_add_half(sum, row[(i + R - 1) % R][0], row[(i + R - 1) % R][1], b[R - 1], T());
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint32_t v = finish.end(sum[2 * h], sum[2 * h + 1]);
        best[h] = i % 2 == 0 ? v : larger<T>(best[h], v);
        if (i % 2 == 0) continue;
        const uint32_t widest = larger<T>(best[h], __shfl_xor_sync(~0u, best[h], 4)); // the pixel beside it
        const uint32_t at = to + (y0 + i) / 2 * next.row_bytes + h * 4 * kPosition;
        if (lane / 4 % 2 != 0 || t > 1 || x / 2 + h * 4 + lane / 8 >= l.columns) continue;
        ptx::store_word(at, widest), ptx::store_word(at + next.second - kPosition, widest);
      }
    }
  }
}

// ---------------------------------------------------------------- the second layer

// R x S taps on four channels, then windows of 4 x 4: 16 columns of sums from `x` on.
template <class T, int R, int S>
__device__ inline void second_layer(const Chain &p, uint32_t memory, uint32_t weights, uint32_t biases, int x,
                                    const Share &rows) {
  constexpr int kBlocks = (S + 1) / 2; // pairs of taps: even
  static_assert(kBlocks % 2 == 0, "two blocks make a reduction of 16");
  const Layer &l = p.layer[1];
  const int lane = lane_of(), t = lane % 4, begin = l.left - l.pad[1] + x + lane % 16, odd = begin & 1;
  const uint32_t last = S % 2 != 0 && t > 1 ? 0u : ~0u; // the tap behind the last: else Inf times 0
  const Finish<T> finish[2] = {{l, biases, 0}, {l, biases, 8}};
  uint32_t b[R][2][kBlocks], row[R][2 * kBlocks], best[2][2] = {};
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int q = 0; q < kBlocks; ++q)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        b[r][j][q] = ptx::load_settled(weights + (((r * kBlocks + q) * 2 + j) * 32 + lane) * 4);
  uint32_t from =
      memory + l.frame + odd * l.second + rows.begin * 4 * l.row_bytes + (begin - odd) * kPosition + lane / 16 * 16;
  const auto load = [&](uint32_t(&to)[2 * kBlocks]) {
#pragma unroll
    for (int q = 0; q < kBlocks; q += 2) load_matrices(reinterpret_cast<uint32_t(&)[4]>(to[2 * q]), from + q * 16);
    to[2 * kBlocks - 2] &= last, to[2 * kBlocks - 1] &= last;
    from += l.row_bytes;
  };
#pragma unroll
  for (int r = 0; r + 1 < R; ++r) load(row[r]);
#pragma unroll 1
  for (int y0 = rows.begin * 4; y0 < rows.end * 4; y0 += R) {
#pragma unroll
    for (int i = 0; i < R; ++i) {
      const int y = y0 + i;
      if (y >= rows.end * 4) break;
      load(row[(i + R - 1) % R]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float sum[4];
#pragma unroll
        for (int r = 0; r < R; ++r)
#pragma unroll
          for (int q = 0; q < kBlocks; q += 2) {
            const auto &a = reinterpret_cast<const uint32_t(&)[4]>(row[(i + r) % R][2 * q]);
            if (r + q == 0)
              ptx::multiply_onto<T>(sum, finish[j].begin, a, b[r][j][q], b[r][j][q + 1]);
            else
              multiply_add(sum, a, &b[r][j][q], T());
          }
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const uint32_t v = finish[j].end(sum[2 * h], sum[2 * h + 1]);
          best[j][h] = y % 4 == 0 ? v : larger<T>(best[j][h], v);
          if (y % 4 != 3) continue;
          uint32_t widest = larger<T>(best[j][h], __shfl_xor_sync(~0u, best[j][h], 4));
          widest = larger<T>(widest, __shfl_xor_sync(~0u, widest, 8));
          const int column = x / 4 + h * 2 + lane / 16, channel = j * 8 + t * 2;
          if (lane / 4 % 4 != 0 || column >= l.columns) continue;
          const uint32_t at =
              memory + p.waiting + (channel * p.channel_step + (y / 4 * l.columns + column) * p.pixel_step) * 2;
          if (channel < l.results) ptx::store_element(at, widest & 0xffff);
          if (channel + 1 < l.results) ptx::store_element(at + p.channel_step * 2, widest >> 16);
        }
      }
    }
  }
}

// ---------------------------------------------------------------- the kernel

// An image into both copies of its frame, by the whole block.
__device__ inline void fetch_image(const Chain &p, uint32_t frame, int64_t image) {
  const auto threads = static_cast<int>(blockDim.x);
  const int words = p.pairs ? p.size[0] * p.size[1] / 2 : p.size[0] * p.size[1], row_words = words / p.size[0];
  const Layer &l = p.layer[0];
  const auto *const from = static_cast<const uint16_t *>(p.input) + image * p.size[0] * p.size[1];
  frame += l.pad[0] * l.row_bytes + l.left * 2;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < words; i += 8 * threads) {
    uint32_t word[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int k = min(i + j * threads, words - 1);
      word[j] = p.pairs ? reinterpret_cast<const uint32_t *>(from)[k] : from[k];
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int k = i + j * threads, y = static_cast<int>(static_cast<int64_t>(k) * p.row_magic >> 20);
      if (k >= words) break;
      const uint32_t to = frame + y * l.row_bytes + (k - y * row_words) * (p.pairs ? 4 : 2);
      if (p.pairs)
        ptx::store_word(to, word[j]), ptx::store_element(to + l.second, word[j] >> 16);
      else
        ptx::store_element(to, word[j]);
      ptx::store_element(to + l.second - 2, word[j] & 0xffff);
    }
  }
}

// What stays for all images: weights, biases, and zeros for padding.
__device__ inline void fill(const Chain &p, unsigned char *shared) {
  const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread * 16; i < p.bytes; i += threads * 16) *reinterpret_cast<uint4 *>(shared + i) = uint4{};
  __syncthreads();
  auto *to = reinterpret_cast<uint32_t *>(shared + p.weights);
  auto *biases = reinterpret_cast<float *>(shared + p.biases);
  for (int layer = 0; layer < 2; ++layer) {
    const Layer &l = p.layer[layer];
    const int words = (layer == 0 ? kShapes[0].rows : kShapes[1].rows * ((kShapes[1].columns + 1) / 2) * 2) * 32;
    for (int i = thread; i < words; i += threads) to[i] = static_cast<const uint32_t *>(l.weights)[i];
    to += words;
    for (int i = thread; i < few::kBiases; i += threads)
      biases[layer * few::kBiases + i] = l.bias != nullptr && i < l.results ? l.bias[i] : -0.0f;
  }
}

template <class T, int R, int S>
__global__ void __launch_bounds__(kWarps * 32, 3) fuse_pooled(const __grid_constant__ Chain p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const uint32_t memory = shared_address(shared), weights = memory + p.weights, biases = memory + p.biases;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  fill(p, shared);
#pragma unroll 1
  for (int64_t image = blockIdx.x; image < p.batch; image += gridDim.x) {
    fetch_image(p, memory + p.layer[0].frame, image);
    __syncthreads();
#pragma unroll 1
    for (int x = 0; x < p.layer[0].columns * 2; x += 16)
      first_layer<T, R, S>(p, memory, weights, biases, x, Share(p.layer[0].rows, kWarps, warp));
    __syncthreads();
    const int strips = (p.layer[1].columns * 4 + 15) / 16;
#pragma unroll 1
    for (int i = warp; i < strips * 2; i += kWarps)
      second_layer<T, R, S>(p, memory, weights + R * 128, biases + few::kBiases * 4, i / 2 * 16,
                            Share(p.layer[1].rows, 2, i % 2));
    __syncthreads();
    auto *const to = static_cast<uint16_t *>(p.result) + image * p.results;
    for (int i = static_cast<int>(threadIdx.x); i < p.results; i += kWarps * 32)
      to[i] = *reinterpret_cast<const uint16_t *>(shared + p.waiting + i * 2);
  }
}

} // namespace polyconv::cuda::pooled
