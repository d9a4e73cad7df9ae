// parts.cu - the tiled product of weights.cuh with factors in parts, and the copy that splits them.
//
// The matrix units cut off what they add below the last bits of the largest term. So the sums of a block, 32 pixels
// deep, begin at zero with the products of lesser parts, those of first parts come last, and they are added in
// registers to sums that round to nearest; meanwhile the other warpgroup multiplies.
//
// An infinite factor has NaN in its second part. Where a block's sums are not all finite, it goes over its pieces once
// more, with first parts alone: sums of those that are not finite are what f32 products would have left.
//
// Floor: 6 (3) x 2 N K P Q C R S at the rate of bf16. A tile of 128 x 128 fetches 48 (32) KiB for 1536 (768) clocks of
// products.
// SPDX-License-Identifier: Apache-2.0
#include "common/machine.hpp"
#include "weights/parts.hpp"

#include "bf16_parts.cuh"
#include "common/instance.hpp"
#include "emulated/emulated.cuh"
#include "weights/weights.cuh"

namespace polyconv::cuda::wgmma {
namespace {

template <int Parts, int Rows, int Chunks, int RowGroups, int ChunkGroups, int Depth>
struct PartsTile : WeightsTile<__nv_bfloat16, Rows, Chunks, RowGroups, ChunkGroups, Depth> {
  using Base = WeightsTile<__nv_bfloat16, Rows, Chunks, RowGroups, ChunkGroups, Depth>;
  static constexpr int parts = Parts;
  static constexpr int row_bytes = Parts * Base::row_bytes, stage_bytes = Parts * Base::stage_bytes;
  static constexpr int stages = std::min(8, (kHopperShared - 1024 - 256) / stage_bytes);
  static constexpr int shared_bytes = stages * stage_bytes + 1024 + 256;
  static_assert(Base::products == 1 && stages >= 3, "not a tile of parts");
};

// ---------------------------------------------------------------- products

// Starts those of a block. `All`: not of first parts alone.
template <class Tile, bool All>
__device__ inline void multiply_block(float (&sums)[Tile::columns / 2], uint64_t rows, uint64_t columns) {
  constexpr int kChunk = Tile::chunk_bytes >> 4, kRowPart = Tile::rows / 64 * kChunk, kPart = Tile::chunks * kChunk;
  const auto add = [&](int k, int of_rows, int of_columns, bool accumulate) {
    ptx::multiply<__nv_bfloat16, Tile::columns, true>(sums, rows + of_rows * kRowPart + k * 128,
                                                      columns + of_columns * kPart + k * 128, accumulate);
  };
  ptx::products_fence();
  if constexpr (All) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if constexpr (Tile::parts == 3) add(k, 1, 1, k > 0), add(k, 0, 2, true), add(k, 2, 0, true);
      add(k, 0, 1, Tile::parts == 3 || k > 0), add(k, 1, 0, true);
    }
  }
  add(0, 0, 0, All), add(1, 0, 0, true);
  ptx::products_commit();
}

template <class Tile, bool All>
__device__ inline void sum_blocks_of_parts(WeightsSums<Tile> &sums, int32_t blocks, WeightsRing<Tile> &ring,
                                           int row_group, int chunk_group) {
  constexpr int kChunk = Tile::chunk_bytes >> 4;
#pragma unroll
  for (float &sum : sums[0]) sum = 0;
#pragma unroll 1
  for (int32_t block = 0; block < blocks; ++block) {
    ring.await_full();
    float part[Tile::columns / 2];
    multiply_block<Tile, All>(part, channels_descriptor<Tile>(ring.rows()) + row_group * kChunk,
                              channels_descriptor<Tile>(ring.chunks()) + chunk_group * (Tile::columns / 64) * kChunk);
    ring.next();
    ptx::products_wait<0>();
    ring.release_before();
#pragma unroll
    for (int i = 0; i < Tile::columns / 2; ++i) sums[0][i] += part[i];
  }
}

// Of the second time: where sums of first parts are not finite, the piece has them.
template <class Tile>
__device__ inline void mend_piece(float *piece, const WeightsSums<Tile> &sums, int row_group, int chunk_group) {
  piece += first_sum<Tile>(row_group, chunk_group);
#pragma unroll
  for (int i = 0; i < Tile::columns / 2; ++i)
    if (!(fabsf(sums[0][i]) < INFINITY)) piece[next_sum<Tile>(0, i)] = sums[0][i];
}

// ---------------------------------------------------------------- the kernel

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 1) multiply_parts_of_pixels(const __grid_constant__ WeightsProduct p) {
  extern __shared__ unsigned char unaligned[];
  const uint32_t shared = (ptx::shared_address(unaligned) + 1023) / 1024 * 1024; // swizzled: begins at 1024 bytes
  WeightsRing<Tile> ring(shared);
  const Verdict<Tile> verdict(shared + Tile::stages * Tile::stage_bytes + 8 * 2 * Tile::stages);
  if (threadIdx.x == 0) verdict.init(), ring.init();
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it

  const auto worker = static_cast<int>(blockIdx.x), group = static_cast<int>(threadIdx.x / 128);
  if (group == Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    if (threadIdx.x / 32 != 4 * Tile::groups) return;
    for (int time = 0; time < 2; ++time) {
      for_pieces(p.shares, worker, [&](int32_t tile, int32_t first, int32_t last, int64_t) {
        fetch_weights<Tile>(p, tile, first, last, ring);
      });
      if (verdict.finite()) return;
    }
  } else {
    ptx::take_registers<Tile::consumer_registers>();
    const int row_group = group % Tile::row_groups, chunk_group = group / Tile::row_groups;
    WeightsSums<Tile> sums;
    bool finite = true;
    for_pieces(p.shares, worker, [&](int32_t, int32_t first, int32_t last, int64_t piece) {
      sum_blocks_of_parts<Tile, true>(sums, last - first, ring, row_group, chunk_group);
      finite = all_finite(sums) && finite;
      store_piece<Tile>(p.pieces + piece * Tile::piece, sums, row_group, chunk_group);
    });
    verdict.tell(finite);
    if (verdict.finite()) return;
    for_pieces(p.shares, worker, [&](int32_t, int32_t first, int32_t last, int64_t piece) {
      sum_blocks_of_parts<Tile, false>(sums, last - first, ring, row_group, chunk_group);
      mend_piece<Tile>(p.pieces + piece * Tile::piece, sums, row_group, chunk_group);
    });
  }
}

template <class Tile>
WeightsLauncher parts_launcher() {
  const auto prepare = [] { allow_shared(multiply_parts_of_pixels<Tile>, Tile::shared_bytes); };
  const auto launch = [](const WeightsProduct &p, cudaStream_t stream) {
    launch_early(multiply_parts_of_pixels<Tile>, static_cast<unsigned>(p.shares.workers), Tile::threads,
                 Tile::shared_bytes, stream, p);
    return false;
  };
  return {prepare, launch};
}

template <int Parts>
WeightsLauncher parts_launcher_of(int shape) {
#define POLYCONV_PARTS_LAUNCHER(rows, chunks, row_groups, chunk_groups, depth, ways) \
  &parts_launcher<PartsTile<Parts, rows, chunks, row_groups, chunk_groups, depth>>,
  static constexpr WeightsLauncher (*kLaunchers[])() = {POLYCONV_WGMMA_WEIGHTS_PARTS_TILES(POLYCONV_PARTS_LAUNCHER)};
#undef POLYCONV_PARTS_LAUNCHER
  return kLaunchers[shape]();
}

// ---------------------------------------------------------------- the copy

constexpr int kThreads = 256;

// 8 channels of a pixel.
template <int Parts>
__global__ void __launch_bounds__(kThreads, 4)
    split_vectors(const View<int64_t> tensor, const float *from, uint4 *to, int64_t vectors, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t pixel = i / vectors, channel = (i - pixel * vectors) * 8;
    const float *const at = from + tensor.at(tensor.pixel_of(pixel)) + channel;
    const auto whole = channel + 8 <= tensor.size[1] && reinterpret_cast<uintptr_t>(at) % 16 == 0;
    alignas(16) float v[8] = {};
    if (whole) {
      reinterpret_cast<float4 *>(v)[0] = reinterpret_cast<const float4 *>(at)[0];
      reinterpret_cast<float4 *>(v)[1] = reinterpret_cast<const float4 *>(at)[1];
    } else {
#pragma unroll
      for (int e = 0; e < 8; ++e)
        if (channel + e < tensor.size[1]) v[e] = at[e];
    }
#pragma unroll
    for (int part = 0; part < Parts; ++part) {
      const bool first = Parts > 1 && part == 0;
      const uint32_t a = tensor::take_part(v[0], v[1], first), b = tensor::take_part(v[2], v[3], first);
      const uint32_t c = tensor::take_part(v[4], v[5], first), d = tensor::take_part(v[6], v[7], first);
      to[part * count + i] = make_uint4(a, b, c, d);
    }
  }
}

} // namespace

WeightsLauncher weights_parts(int shape, int parts) {
  return parts == 3 ? parts_launcher_of<3>(shape) : parts_launcher_of<2>(shape);
}

void split(const polyconv_tensor &t, const void *from, int parts, void *to, cudaStream_t stream) {
  const int64_t vectors = (t.size[1] + 7) / 8, count = t.size[0] * sdk::spatial(t) * vectors;
  const auto kernel = parts == 3 ? split_vectors<3> : split_vectors<2>;
  kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(View<int64_t>(t), static_cast<const float *>(from),
                                                               static_cast<uint4 *>(to), vectors, count);
  check_launch("the splitting of f32 into parts");
}

} // namespace polyconv::cuda::wgmma
