// pointwise.cuh - the kernel of cuda-tensor/pointwise; pointwise.hpp tells the idea.
//
// Floor: input and output once at memory's rate. 1024 outputs take a warp about 160 instructions and 6 for every 8
// input channels; a multiprocessor that gets 18 bytes a clock issues them in less time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/async.cuh"
#include "common/ptx/grid.cuh"
#include "mma/fragments.cuh"
#include "pointwise/pointwise.hpp"

namespace polyconv::cuda::tensor {

__device__ inline int lane_of() {
  return static_cast<int>(threadIdx.x) % 32;
}

// 8 neighbouring channels.
template <class T>
__device__ inline uint4 load_eight(const T *from, bool aligned) {
  uint4 bits;
  if (aligned) return *reinterpret_cast<const uint4 *>(from);
  T v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = from[i];
  memcpy(&bits, v, sizeof bits);
  return bits;
}
template <class T>
__device__ inline void store_eight(T *to, uint4 bits, bool aligned) {
  if (aligned) {
    *reinterpret_cast<uint4 *>(to) = bits;
    return;
  }
  T v[8];
  memcpy(v, &bits, sizeof bits);
#pragma unroll
  for (int i = 0; i < 8; ++i) to[i] = v[i];
}

// A warp's strips on their way in: blocks of k, each a row a pixel as mma/fragments.cuh has them.
template <class T, int Stages>
class Strips {
  static constexpr int kBlock = Pointwise::kStrip * kRow;

 public:
  __device__ Strips(const Pointwise &p, unsigned char *memory) : p_(p), memory_(memory) {
    // Pieces of 16 bytes beyond the last are zeros.
    for (int piece = p.channels / 8; piece < p.blocks() * 4; ++piece)
#pragma unroll
      for (int s = 0; s < Stages; ++s)
        *reinterpret_cast<uint4 *>(memory_ + s * p.stage_bytes() + at(lane_of(), piece)) = uint4{};
  }
  // Starts a strip's copy into a stage; nothing is read beyond the last pixel.
  __device__ void fetch(int64_t strip, int stage) const {
    const int pieces = p_.channels / 8, down = 32 / pieces, across = 32 % pieces;
    const int64_t left = p_.pixels - strip * Pointwise::kStrip, back = p_.input_row - p_.channels;
    const auto *from = static_cast<const T *>(p_.input) + strip * Pointwise::kStrip * p_.input_row;
    unsigned char *const to = memory_ + stage * p_.stage_bytes();
    int row = lane_of() / pieces, piece = lane_of() % pieces;
    const T *mine = from + row * p_.input_row + piece * 8;
    while (row < Pointwise::kStrip) {
      const bool inside = row < left;
      if (p_.aligned)
        copy_async<16>(to + at(row, piece), inside ? mine : from, inside);
      else
        *reinterpret_cast<uint4 *>(to + at(row, piece)) = inside ? load_eight(mine, false) : uint4{};
      row += down, piece += across, mine += down * p_.input_row + across * 8;
      if (piece >= pieces) piece -= pieces, ++row, mine += back;
    }
  }
  // The lane's address of the first 16 channels of 16 pixels; the next 16 are 32 exclusive-or on, then the next block.
  __device__ uint32_t operands(int stage) const {
    return static_cast<uint32_t>(__cvta_generic_to_shared(memory_ + stage * p_.stage_bytes())) +
           slot(lane_of() % 16, lane_of() / 16);
  }

 private:
  __device__ static int at(int row, int piece) {
    return piece / 4 * kBlock + slot(row, piece % 4);
  }

  const Pointwise &p_;
  unsigned char *memory_;
};

// The sums of 32 pixels and 32 channels: of 16 pixels and 8 channels each, row lane / 4 (and 8 on), columns
// 2 (lane % 4) and 1 on. They begin with the bias.
using ChunkSums = float[2][4][4];

template <class T>
__device__ inline void sum_up(ChunkSums &sums, const Pointwise &p, uint32_t pixels, uint32_t weights,
                              const float *bias) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 b = *reinterpret_cast<const float2 *>(bias + j * 8 + lane_of() % 4 * 2);
#pragma unroll
    for (int m = 0; m < 2; ++m) sums[m][j][0] = sums[m][j][2] = b.x, sums[m][j][1] = sums[m][j][3] = b.y;
  }
  const int steps = (p.channels + 15) / 16, block = p.rows() * kRow;
#pragma unroll 2
  for (int step = 0; step < steps; ++step) {
    uint32_t a[2][4], b[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) load_matrices(a[m], pixels + m * 16 * kRow);
#pragma unroll
    for (int i = 0; i < 2; ++i) load_matrices(b[i], weights + i * 16 * kRow);
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int j = 0; j < 4; ++j) multiply_add(sums[m][j], a[m], b[j / 2] + j % 2 * 2, T());
    pixels ^= 32, weights ^= 32;
    if (step % 2 == 1) pixels += Pointwise::kStrip * kRow, weights += block;
  }
}

// The least and the most that relus leave, as pairs: bounds keep their place when values are rounded. NaN stays.
template <class T>
struct Bounds {
  using Pair = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  Pair low, high;

  __device__ explicit Bounds(const Pointwise &p) : low(both(p.low)), high(both(p.high)) {}
  __device__ static Pair both(float v) {
    const uint32_t bits = pair_of(v, v, T());
    return reinterpret_cast<const Pair &>(bits);
  }
  __device__ uint32_t operator()(float a, float b) const {
    const uint32_t bits = pair_of(a, b, T());
    const Pair v = __hmin2_nan(__hmax2_nan(reinterpret_cast<const Pair &>(bits), low), high);
    return reinterpret_cast<const uint32_t &>(v);
  }
};

// A chunk leaves: finished where the sums lie, then turned in shared memory into rows of 64 bytes.
template <class T>
class Outlet {
 public:
  // Of the lane's four rows, 8 on from one another, 8 channels of the residual.
  struct Added {
    uint4 row[4];
  };

  __device__ Outlet(const Pointwise &p, unsigned char *staged)
      : p_(p), bounds_(p), staged_(staged + lane_of() / 4 * Pointwise::kStagedRow), piece_(lane_of() % 4) {}
  // To another strip.
  __device__ void go_to(int64_t strip) {
    const int64_t pixel = strip * Pointwise::kStrip + lane_of() / 4, left = p_.pixels - pixel;
    rows_ = static_cast<int>(min((left + 7) / 8, int64_t{4}));
    result_ = static_cast<T *>(p_.result) + pixel * p_.result_row + piece_ * 8;
    residual_ = static_cast<const T *>(p_.residual) + pixel * p_.residual_row + piece_ * 8;
    if (p_.few()) own_ = strip * Pointwise::kStrip + lane_of();
  }
  __device__ Added fetch_residual(int chunk) const {
    Added added = {};
    if (p_.residual == nullptr || chunk + piece_ * 8 >= p_.results) return added;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (i < rows_) added.row[i] = load_eight(residual_ + 8 * i * p_.residual_row + chunk, p_.aligned != 0);
    return added;
  }
  __device__ void leave(ChunkSums &sums, const Added &added, int chunk) const {
    if (p_.residual != nullptr) add(sums, added);
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) *word_at(i, j) = bounds_(sums[i / 2][j][i % 2 * 2], sums[i / 2][j][i % 2 * 2 + 1]);
    __syncwarp();
    if (p_.few()) {
      store_few();
    } else if (chunk + piece_ * 8 < p_.results) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (i < rows_) store_eight(result_ + 8 * i * p_.result_row + chunk, *piece_at(i), p_.aligned != 0);
    }
    __syncwarp();
  }

 private:
  // The results of the lane's own pixel.
  __device__ void store_few() const {
    if (own_ >= p_.pixels) return;
    const auto *from = reinterpret_cast<const T *>(staged_ + (lane_of() - lane_of() / 4) * Pointwise::kStagedRow);
    T *const to = static_cast<T *>(p_.result) + own_ * p_.result_row;
    for (int i = 0; i < p_.results; ++i) to[i] = from[i];
  }
  __device__ void add(ChunkSums &sums, const Added &added) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) *piece_at(i) = added.row[i];
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        T pair[2];
        memcpy(pair, word_at(i, j), sizeof pair);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          float &sum = sums[i / 2][j][i % 2 * 2 + k];
          sum = fmaf(p_.residual_scale, static_cast<float>(pair[k]), sum);
        }
      }
  }
  __device__ uint4 *piece_at(int i) const {
    return reinterpret_cast<uint4 *>(staged_ + 8 * i * Pointwise::kStagedRow) + piece_;
  }
  __device__ uint32_t *word_at(int i, int j) const {
    return reinterpret_cast<uint32_t *>(staged_ + 8 * i * Pointwise::kStagedRow + j * 16) + piece_;
  }

  const Pointwise &p_;
  const Bounds<T> bounds_;
  unsigned char *const staged_;
  const int piece_;
  int rows_ = 0;    // of the lane's that exist
  int64_t own_ = 0; // pixel, where results are few
  T *result_ = nullptr;
  const T *residual_ = nullptr;
};

// Weights and bias, which stay.
__device__ inline void fetch_weights(const Pointwise &p, unsigned char *weights, float *bias) {
  const int pieces = p.packed_rows() * 4; // of a block of k
  for (int i = static_cast<int>(threadIdx.x); i < p.blocks() * pieces; i += static_cast<int>(blockDim.x))
    copy_async<16>(weights + i / pieces * p.rows() * kRow + i % pieces * 16, static_cast<const uint4 *>(p.weights) + i,
                   true);
  for (int i = static_cast<int>(threadIdx.x); i < p.rows(); i += static_cast<int>(blockDim.x))
    bias[i] = p.bias != nullptr && i < p.results ? static_cast<const float *>(p.bias)[i] : 0.0f;
}

template <class T, int Stages>
__global__ void __launch_bounds__(32 * Pointwise::kMostWarps, 1) multiply_strips(const __grid_constant__ Pointwise p) {
  ptx::await_previous();
  extern __shared__ __align__(16) unsigned char shared[];
  float *const bias = reinterpret_cast<float *>(shared + p.weights_bytes());
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
  unsigned char *const mine = reinterpret_cast<unsigned char *>(bias + p.rows()) + warp * p.warp_bytes(Stages);
  const Strips<T, Stages> strips(p, mine);
  Outlet<T> outlet(p, mine + Stages * p.stage_bytes());
  const int64_t first = blockIdx.x + int64_t{gridDim.x} * warp, step = int64_t{gridDim.x} * warps, end = p.strips();
  fetch_weights(p, shared, bias);
#pragma unroll
  for (int s = 0; s + 1 < Stages; ++s) {
    if (first + s * step < end) strips.fetch(first + s * step, s);
    commit_copies(); // the first holds the weights too
  }
  await_groups<Stages - 2>();
  __syncthreads();
  const uint32_t weights = static_cast<uint32_t>(__cvta_generic_to_shared(shared)) +
                           slot(lane_of() % 8 + lane_of() / 16 * 8, lane_of() / 8 % 2);
  int stage = 0;
  for (int64_t strip = first; strip < end; strip += step) {
    await_groups<Stages - 2>();
    __syncwarp();
    const int64_t ahead = strip + (Stages - 1) * step;
    if (ahead < end) strips.fetch(ahead, stage == 0 ? Stages - 1 : stage - 1);
    commit_copies();
    outlet.go_to(strip);
#pragma unroll 1
    for (int chunk = 0; chunk < p.results; chunk += Pointwise::kChunk) {
      const auto added = outlet.fetch_residual(chunk);
      ChunkSums sums;
      sum_up<T>(sums, p, strips.operands(stage), weights + chunk * kRow, bias + chunk);
      outlet.leave(sums, added, chunk);
    }
    stage = stage + 1 == Stages ? 0 : stage + 1;
  }
}

} // namespace polyconv::cuda::tensor
