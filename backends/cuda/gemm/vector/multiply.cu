// multiply.cu - a block sums 16 filters of some rows: its warps share the depth, and so do eight lanes of each warp.
// Weights and x go from memory into registers, once each, in 16 bytes; nothing waits in shared memory but the sums.
//
// Every lane sums its share in order, then lanes 4, 2 and 1 apart are added, then the warps in order: bits depend on
// the depth alone.
// SPDX-License-Identifier: Apache-2.0
#include "vector/multiply.hpp"

#include "common/vector/vector.cuh"

namespace polyconv::cuda::gemm {
namespace {

constexpr int kDepthLanes = 8, kLaneFilters = 4; // lanes that share a depth; filters of a lane, every fourth

// Of a block of packed weights: filter / 4, then lanes, each of four of the depth.
struct Layout {
  __device__ static int32_t filter(int32_t i) { return i / 128 * 4 + i / 4 % 32 / kDepthLanes; }
  __device__ static int32_t depth(int32_t i) { return i / 4 % kDepthLanes * 4 + i % 4; }
};

// Four of a row's depth from `depth` on; zeros beyond the last.
template <bool Vectors>
__device__ inline float4 load_row(const float *row, const VectorLayer &v, int32_t depth) {
  float4 r = {};
  if constexpr (Vectors) {
    if (depth < v.depth) r = *reinterpret_cast<const float4 *>(row + depth);
  } else {
    if (depth < v.depth) r.x = row[depth * v.step];
    if (depth + 1 < v.depth) r.y = row[(depth + 1) * v.step];
    if (depth + 2 < v.depth) r.z = row[(depth + 2) * v.step];
    if (depth + 3 < v.depth) r.w = row[(depth + 3) * v.step];
  }
  return r;
}

// Adds the sums of lanes that share a depth. Each is left with Count / 8 of them, or one: returns which is the first.
template <int Count, int Distance = kDepthLanes / 2, int All>
__device__ inline int32_t add_lanes(float (&sums)[All]) {
  if constexpr (Distance > 0) {
    if constexpr (Count == 1) {
      sums[0] += __shfl_xor_sync(~0u, sums[0], Distance);
      return add_lanes<1, Distance / 2>(sums);
    } else {
      constexpr int kHalf = Count / 2;
      const bool upper = (threadIdx.x & Distance) != 0;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float give = upper ? sums[i] : sums[i + kHalf], keep = upper ? sums[i + kHalf] : sums[i];
        sums[i] = keep + __shfl_xor_sync(~0u, give, Distance);
      }
      return (upper ? kHalf : 0) + add_lanes<kHalf, Distance / 2>(sums);
    }
  }
  return 0;
}

template <int Rows, bool Vectors>
__global__ void __launch_bounds__(kMostVectorWarps * 32, Vectors ? 2 : 1)
    multiply(const __grid_constant__ VectorProduct p) {
  constexpr int kTogether = Rows == 1 ? 4 : Rows == 4 ? 2 : 1; // chunks whose loads are under way at a time
  __shared__ VectorSums<kVectorFilters, Rows> shared;
  const VectorTile tile(p, kVectorFilters, Rows);
  const VectorShare share(p.layer);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, mine = lane % kDepthLanes * 4;
  const auto *const x_begin = static_cast<const float *>(p.x);
  // A lane finds one row and tells the others: the divisions take longer than the products where each finds all.
  const int32_t found = row_begin(p, tile, tile.row + lane % Rows);
  int32_t rows[Rows];
#pragma unroll
  for (int r = 0; r < Rows; ++r) rows[r] = Rows == 1 ? found : __shfl_sync(~0u, found, r);
  const auto *w = static_cast<const float4 *>(p.weights) +
                  (int64_t{tile.tile} * p.layer.chunks() + share.first) * (kVectorBlock / 4) + lane;
  float sums[Rows * kLaneFilters] = {};
  ptx::let_next_begin(), ptx::await_previous();
#pragma unroll 1
  for (int32_t chunk = share.first; chunk < share.last; chunk += kTogether, w += kTogether * (kVectorBlock / 4)) {
    float4 weights[kTogether][kLaneFilters], x[kTogether][Rows];
#pragma unroll
    for (int c = 0; c < kTogether; ++c) {
      const bool there = chunk + c < share.last;
#pragma unroll
      for (int f = 0; f < kLaneFilters; ++f) weights[c][f] = there ? w[c * (kVectorBlock / 4) + f * 32] : float4{};
#pragma unroll
      for (int r = 0; r < Rows; ++r)
        x[c][r] = there ? load_row<Vectors>(x_begin + rows[r], p.layer, (chunk + c) * kVectorDepth + mine) : float4{};
    }
#pragma unroll
    for (int c = 0; c < kTogether; ++c)
#pragma unroll
      for (int r = 0; r < Rows; ++r)
#pragma unroll
        for (int f = 0; f < kLaneFilters; ++f) {
          float &sum = sums[r * kLaneFilters + f];
          sum = fmaf(weights[c][f].x, x[c][r].x, sum), sum = fmaf(weights[c][f].y, x[c][r].y, sum);
          sum = fmaf(weights[c][f].z, x[c][r].z, sum), sum = fmaf(weights[c][f].w, x[c][r].w, sum);
        }
  }
  const int32_t first = add_lanes<Rows * kLaneFilters>(sums), warp = static_cast<int32_t>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < (Rows + 1) / 2; ++i)
    shared.at[warp][(first + i) / kLaneFilters][(first + i) % kLaneFilters * 4 + lane / kDepthLanes] = sums[i];
  __syncthreads();
  shared.leave(p, tile, tile.row);
}

template <int Rows, bool Vectors>
VectorLauncher launcher() {
  return [](const VectorProduct &p, unsigned blocks, bool early, cudaStream_t stream) {
    launch_early_if(early, multiply<Rows, Vectors>, blocks, p.layer.warps() * 32, 0, stream, p);
  };
}

} // namespace

VectorLauncher vector_f32(int rows, bool vectors) {
  switch (rows) {
    case 1: return vectors ? launcher<1, true>() : launcher<1, false>();
    case 4: return vectors ? launcher<4, true>() : launcher<4, false>();
    default: return vectors ? launcher<16, true>() : launcher<16, false>();
  }
}

void pack_vector_f32(const polyconv_layer &l, const VectorLayer &v, const void *raw, void *packed,
                     cudaStream_t stream) {
  launch_pack_vector<Layout, float>(l, v, raw, packed, stream);
}

} // namespace polyconv::cuda::gemm
