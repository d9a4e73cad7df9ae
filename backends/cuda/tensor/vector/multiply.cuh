// multiply.cuh - a block sums some filters of some rows: its warps share the depth. Weights and x go from memory into
// the registers of the instruction, in 16 bytes (layout.cuh); nothing waits in shared memory but the sums.
//
// A warp sums its share of the depth in order, then the warps are added in order: bits depend on the depth alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/mma.cuh"
#include "common/vector/vector.cuh"
#include "vector/layout.cuh"
#include "vector/multiply.hpp"

namespace polyconv::cuda::tensor {

// Eight of a row's depth from `depth` on; zeros beyond the last.
template <bool Vectors>
__device__ inline uint4 load_row(const uint16_t *row, const VectorLayer &v, int32_t depth) {
  uint4 r = {};
  if constexpr (Vectors) {
    if (depth < v.depth) r = *reinterpret_cast<const uint4 *>(row + depth);
  } else {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int32_t first = depth + 2 * i;
      const uint32_t low = first < v.depth ? row[first * v.step] : 0;
      const uint32_t high = first + 1 < v.depth ? row[(first + 1) * v.step] : 0;
      words[i] = low | high << 16;
    }
    r = make_uint4(words[0], words[1], words[2], words[3]);
  }
  return r;
}

// Sixteens: of filters; eights: of rows.
template <class T, int Sixteens, int Eights, bool Vectors>
class VectorWarp {
  static constexpr int kTogether = Eights == 1 ? 4 : Eights == 4 ? 2 : 1; // chunks whose loads are under way at a time
  static constexpr int kChunk = kVectorBlock / 8;                         // of packed weights, in 16 bytes

 public:
  float sums[Sixteens][Eights][4] = {};

  __device__ VectorWarp(const VectorProduct &p, const VectorTile &tile)
      : share_(p.layer), lane_(static_cast<int32_t>(threadIdx.x) % 32) {
#pragma unroll
    for (int e = 0; e < Eights; ++e) rows_[e] = row_begin(p, tile, tile.row + e * 8 + lane_ / 4);
    const int32_t last = p.layer.tiles() - 1 - tile.filter / kVectorFilters;
#pragma unroll
    for (int s = 0; s < Sixteens; ++s) // beyond the last filters: those again, not stored
      weights_[s] = static_cast<const uint4 *>(p.weights) +
                    (int64_t{tile.tile + min(s, last)} * p.layer.chunks() + share_.first) * kChunk + lane_;
  }

  __device__ void multiply(const VectorProduct &p) {
    const auto *const x_begin = static_cast<const uint16_t *>(p.x);
#pragma unroll 1
    for (int32_t chunk = share_.first; chunk < share_.last; chunk += kTogether) {
      uint4 w[kTogether][Sixteens][2], x[kTogether][Eights];
#pragma unroll
      for (int c = 0; c < kTogether; ++c) {
        const bool there = chunk + c < share_.last;
#pragma unroll
        for (int s = 0; s < Sixteens; ++s)
#pragma unroll
          for (int half = 0; half < 2; ++half) w[c][s][half] = there ? weights_[s][c * kChunk + half * 32] : uint4{};
#pragma unroll
        for (int e = 0; e < Eights; ++e)
          x[c][e] = there ? load_row<Vectors>(x_begin + rows_[e], p.layer, (chunk + c) * kVectorDepth + lane_ % 4 * 8)
                          : uint4{};
      }
#pragma unroll
      for (int c = 0; c < kTogether; ++c) multiply_chunk(w[c], x[c]);
#pragma unroll
      for (int s = 0; s < Sixteens; ++s) weights_[s] += kTogether * kChunk;
    }
  }

  // The sums of 8 Few rows from `first` eights on.
  template <int Few, class Shared>
  __device__ void hand_over(Shared &shared, int first) const {
    auto &to = shared.at[threadIdx.x / 32];
#pragma unroll
    for (int s = 0; s < Sixteens; ++s)
#pragma unroll
      for (int e = 0; e < Few; ++e)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          to[e * 8 + lane_ % 4 * 2 + i % 2][s * 16 + lane_ / 4 + i / 2 * 8] = sums[s][first + e][i];
  }

 private:
  __device__ void multiply_chunk(const uint4 (&w)[Sixteens][2], const uint4 (&x)[Eights]) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int s = 0; s < Sixteens; ++s) {
        const uint4 &v = w[s][half];
        const uint32_t a[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int e = 0; e < Eights; ++e) {
          const uint32_t b[2] = {half == 0 ? x[e].x : x[e].z, half == 0 ? x[e].y : x[e].w};
          ptx::multiply_add(sums[s][e], a, b, T());
        }
      }
  }

  const VectorShare share_;
  const int32_t lane_;
  int32_t rows_[Eights];
  const uint4 *weights_[Sixteens];
};

template <class T, int Sixteens, int Eights, bool Vectors>
__global__ void __launch_bounds__(kMostVectorWarps * 32, 1) multiply_vector(const __grid_constant__ VectorProduct p) {
  constexpr int kFew = Eights < 4 ? Eights : 4; // eights of rows that leave at a time
  __shared__ VectorSums<16 * Sixteens, 8 * kFew> shared;
  const VectorTile tile(p, 16 * Sixteens, 8 * Eights);
  VectorWarp<T, Sixteens, Eights, Vectors> warp(p, tile);
  ptx::let_next_begin(), ptx::await_previous();
  warp.multiply(p);
#pragma unroll
  for (int e = 0; e < Eights; e += kFew) {
    if (e > 0) __syncthreads(); // nobody reads the sums before any more
    warp.template hand_over<kFew>(shared, e);
    __syncthreads();
    shared.leave(p, tile, tile.row + e * 8);
  }
}

template <class T, int Sixteens, int Eights>
VectorLauncher vector_launcher(bool vectors) {
  if (vectors)
    return [](const VectorProduct &p, unsigned blocks, bool early, cudaStream_t stream) {
      launch_early_if(early, multiply_vector<T, Sixteens, Eights, true>, blocks, p.layer.warps() * 32, 0, stream, p);
    };
  return [](const VectorProduct &p, unsigned blocks, bool early, cudaStream_t stream) {
    launch_early_if(early, multiply_vector<T, Sixteens, Eights, false>, blocks, p.layer.warps() * 32, 0, stream, p);
  };
}

template <class T>
VectorLauncher vector_launcher_of(const VectorShape &shape, bool vectors) {
  if (shape.rows == 8) return vector_launcher<T, 1, 1>(vectors);
  return shape.rows == 32 ? vector_launcher<T, 1, 4>(vectors) : vector_launcher<T, 2, 8>(vectors);
}

} // namespace polyconv::cuda::tensor

#define POLYCONV_INSTANCE(T) template VectorLauncher tensor::vector_launcher_of<T>(const VectorShape &, bool);
