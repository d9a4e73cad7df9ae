// banded_sheet.cuh - blocks take bands of whole rows of images into shared memory, one after the other; warps march
// down them, results wait in shared memory and leave in runs as long as memory allows, all at the same time: a warp
// stores, others load, the rest multiply, each as far ahead as the stages between them allow.
//
// Runs are the point: 1045 MB stored in runs of 16 bytes that begin anywhere took 2365 us on an H200, in runs of 128
// bytes 450, and 244 as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "banded_runs.cuh"

namespace polyconv::cuda::banded {

inline constexpr int kLoaders = 3; // warps

// Sums of a tile that are added at the end, for products do not wait for each other then.
__host__ __device__ constexpr int sheet_chains(const Form &f) {
  return f.products() > 6 ? 3 : 1;
}
// Warps that multiply: as many as registers leave room for.
__host__ __device__ constexpr int sheet_warps(const Form &f) {
  return (4 * f.products() + 4 * sheet_chains(f)) * f.tiles + f.input_rows() * f.planes <= 44 ? 16 : 12;
}
__host__ __device__ constexpr int sheet_threads(const Form &f) {
  return (sheet_warps(f) + 1 + kLoaders) * 32;
}

// A warp's share of a chunk: a group of filters, some tiles of eight positions with all steps of their stretches.
struct Share {
  Band band;
  int32_t filter, filters; // the first of the group's; how many there are
  int32_t tile;
  const uint16_t *input; // the band, in shared memory
  char *output;          // the group's results there
};

// Where a lane's results of the share belong, at two positions: all in one filter of each tile.
struct Targets {
  int32_t filter;    // of the first tile
  int32_t row[2];    // of the first step, in the band
  int32_t column[2]; // the first of two
  int32_t steps[2];  // that give results

  __device__ __forceinline__ Targets(const Geometry &g, int32_t rows, const Share &s) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
    filter = lane / 4 / rows;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t position = s.tile * kPositions + lane % 4 + 4 * e, stretch = stretch_of(g.magic, position);
      row[e] = stretch * g.steps * rows + lane / 4 % rows;
      column[e] = (position - stretch * g.positions) * 2;
      const bool exists = stretch < g.stretches && filter < s.filters && row[e] < s.band.rows;
      steps[e] = exists ? min(g.steps, (s.band.rows - row[e] + rows - 1) / rows) : 0;
    }
  }
  __device__ __forceinline__ int32_t at(const Geometry &g, int e) const {
    return filter * g.waiting + row[e] * g.output_w + column[e];
  }
};

// The results of a lane, computed again where they are NaN. A call, so that the march keeps its registers.
template <class T, class F>
__device__ __noinline__ void repair_tile(const Geometry &g, const Pointers &p, Share s) {
  constexpr int kRows = F::value.rows;
  const Targets to(g, kRows, s);
  for (int32_t k = to.filter; k < s.filters; k += g.tile_filters)
#pragma unroll 1
    for (int32_t e = 0; e < 2; ++e)
#pragma unroll 1
      for (int32_t i = 0; i < to.steps[e] * 2; ++i) {
        const int32_t row = to.row[e] + i / 2 * kRows, column = to.column[e] + i % 2;
        const Spot<T> spot = {s.output, g.result_type == POLYCONV_F32, k * g.waiting + row * g.output_w + column};
        if (column < g.output_w && spot.is_nan())
          spot.put(exact_result<T>(g, p, s.band.image, s.filter + k, s.band.first_row + row, column));
      }
}

// The march of a tile. Together: results are pairs of the input's type; or they are of any type and number.
template <class T, class F, bool together>
__device__ __forceinline__ void multiply_tile(const Geometry &g, const Pointers &p, const Share &s,
                                              const Weights<F> &weights) {
  constexpr Form f = F::value;
  constexpr int kRing = f.input_rows(), kTurns = kRing / f.rows;
  static_assert(kRing % f.rows == 0 && f.words == 1, "the ring is where it was after so many steps");
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  const Targets to(g, f.rows, s);
  float bias[f.tiles];
#pragma unroll
  for (int i = 0; i < f.tiles; ++i) {
    const int32_t k = to.filter + i * g.tile_filters;
    bias[i] = p.bias != nullptr && k < s.filters ? __ldg(p.bias + s.filter + k) : 0.0f;
  }
  const int32_t position = min(s.tile * kPositions + place_of(lane / 4, 1), g.stretches * g.positions - 1);
  const int32_t stretch = stretch_of(g.magic, position);
  const uint16_t *from =
      s.input + stretch * g.steps * f.rows * g.pitch + (position - stretch * g.positions + lane % 4) * 2;
  uint32_t ring[kRing][f.planes];
  const auto load_row = [&](uint32_t(&row)[F::value.planes]) {
#pragma unroll
    for (int c = 0; c < F::value.planes; ++c) row[c] = *reinterpret_cast<const uint32_t *>(from + c * g.plane);
    from += g.pitch;
  };
#pragma unroll
  for (int i = 0; i < kRing - f.rows; ++i) load_row(ring[i]);

  Seen<T> seen;
  const bool wide = !together && g.result_type == POLYCONV_F32;
  const int32_t size = wide ? 4 : 2, apart = g.tile_filters * g.waiting * size;
  char *at[2] = {s.output + to.at(g, 0) * size, s.output + to.at(g, 1) * size};
#pragma unroll 1
  for (int32_t step = 0; step < g.steps;) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn, ++step) {
      if (step >= g.steps) break;
#pragma unroll
      for (int i = 0; i < f.rows; ++i) load_row(ring[(turn * f.rows + kRing - f.rows + i) % kRing]);
      float sums[f.tiles][4];
#pragma unroll
      for (int i = 0; i < f.tiles * 4; ++i) sums[i / 4][i % 4] = together ? bias[i / 4] : 0.0f;
      weights.template multiply<T, sheet_chains(F::value)>(
          sums, [&](int h) { return ring[(turn * f.rows + h / f.planes) % kRing][h % f.planes]; });
#pragma unroll
      for (int i = 0; i < f.tiles * 2; ++i) {
        const int tile = i / 2, e = i % 2;
        const uint32_t word = pack<T>(sums[tile][e], sums[tile][2 + e], g.relu != 0);
        seen.look_at(word);
        if (step >= to.steps[e] || (tile > 0 && to.filter + tile * g.tile_filters >= s.filters)) continue;
        char *const here = at[e] + tile * apart;
        if constexpr (together) {
          *reinterpret_cast<uint32_t *>(here) = word;
        } else {
          const float low = sums[tile][e] + bias[tile], high = sums[tile][2 + e] + bias[tile];
          Spot<T>{here, wide, 0}.put(g.relu && low < 0 ? 0.0f : low);
          if (to.column[e] + 1 < g.output_w) Spot<T>{here, wide, 1}.put(g.relu && high < 0 ? 0.0f : high);
        }
      }
      at[0] += f.rows * g.output_w * size, at[1] += f.rows * g.output_w * size;
    }
  }
  if (seen.nonfinite()) repair_tile<T, F>(g, p, s);
}

// The warps that multiply take the shares of the block's chunks in turn.
template <class T, class F, bool together>
__device__ __forceinline__ void multiply_chunks(const Geometry &g, const Pointers &p, const Rings &rings, char *inputs,
                                                char *outputs) {
  const int32_t size = together || g.result_type != POLYCONV_F32 ? 2 : 4;
  auto share = static_cast<int32_t>(threadIdx.x) / 32;
  int32_t held = -1, part = 0;
  Weights<F> weights;
  Turn input, output;
  for (auto number = static_cast<int32_t>(blockIdx.x); number < g.bands;) {
    const Band band(g, number);
    for (; share < g.shares; share += sheet_warps(F::value)) {
      const int32_t piece = share / g.chunk, group = part * g.chunk + share - piece * g.chunk;
      if (group < g.groups) {
        if (held != group) weights.load(p, held = group);
        const int32_t filter = group * g.group, first = part * g.chunk * g.group;
        Share s = {band,
                   filter,
                   min(g.group, g.filters - filter),
                   piece * g.share_tiles,
                   reinterpret_cast<const uint16_t *>(inputs) + input.stage * g.input_stage + input_skew(g, p, band),
                   outputs + output.stage * g.output_stage + output_skew(g, p, band, first, size) +
                       (filter - first) * g.waiting * size};
        ptx::barrier_wait(rings.input_full(input.stage), input.phase);
        ptx::barrier_wait(rings.output_empty(output.stage), output.phase ^ 1);
        for (const int32_t end = min(g.tiles, s.tile + g.share_tiles); s.tile < end; ++s.tile)
          multiply_tile<T, F, together>(g, p, s, weights);
        ptx::fence_for_tma();
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) {
        ptx::barrier_arrive(rings.output_full(output.stage));
        ptx::barrier_arrive(rings.input_empty(input.stage));
      }
    }
    share -= g.shares;
    output.advance(g.output_stages);
    if (++part == g.chunks) {
      part = 0, number += static_cast<int32_t>(gridDim.x);
      input.advance(g.input_stages);
    }
  }
}

// The warps that load bands, as far ahead as there are stages.
__device__ __noinline__ void load_bands(const Geometry &g, const Pointers &p, const Rings &rings, char *inputs,
                                        int32_t warp) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  Turn turn;
  for (auto number = static_cast<int32_t>(blockIdx.x); number < g.bands; number += static_cast<int32_t>(gridDim.x)) {
    ptx::barrier_wait(rings.input_empty(turn.stage), turn.phase ^ 1);
    const Band band(g, number);
    uint16_t *const to = reinterpret_cast<uint16_t *>(inputs) + turn.stage * g.input_stage + input_skew(g, p, band);
    const int32_t rows = band.rows - 1 + g.taps_h;
    const uint32_t full = rings.input_full(turn.stage);
    int32_t bytes = 0;
    if (g.runs == 0)
      load_elements(g, p, band, rows, to, warp * 32 + lane, kLoaders * 32);
    else if (warp == 0)
      bytes = load_runs(g, band.input(g, p), rows, to, full, lane);
    if (lane == 0)
      ptx::barrier_expect(full, bytes);
    else
      ptx::barrier_arrive(full);
    turn.advance(g.input_stages);
  }
}

template <class T, class F, bool together>
__global__ void __launch_bounds__(sheet_threads(F::value), 1)
    sheet(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  extern __shared__ __align__(128) char shared[];
  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  const Rings rings = {ptx::shared_address(shared)};
  char *const inputs = shared + kBarrierBytes, *const outputs = inputs + g.input_stages * g.input_stage * 2;
  if (threadIdx.x == 0) {
    for (int32_t i = 0; i < kMostStages; ++i) {
      ptx::barrier_init(rings.input_full(i), kLoaders * 32);
      ptx::barrier_init(rings.input_empty(i), g.shares * g.chunks);
      ptx::barrier_init(rings.output_full(i), g.shares);
      ptx::barrier_init(rings.output_empty(i), 1);
    }
    ptx::barrier_init_fence();
  }
  // What no run fills is read nevertheless, beside weights of zero.
  for (auto i = static_cast<int32_t>(threadIdx.x); i < g.input_stages * g.input_stage / 2; i += sheet_threads(F::value))
    reinterpret_cast<uint32_t *>(inputs)[i] = 0;
  ptx::fence_for_tma();
  __syncthreads();
  if (warp < sheet_warps(F::value)) {
    ptx::take_registers<sheet_warps(F::value) == 16 ? 104 : 152>();
    multiply_chunks<T, F, together>(g, p, rings, inputs, outputs);
    return;
  }
  ptx::release_registers<56>();
  if (warp > sheet_warps(F::value))
    load_bands(g, p, rings, inputs, warp - sheet_warps(F::value) - 1);
  else if (together || g.result_type != POLYCONV_F32)
    store_chunks<uint16_t>(g, p, rings, outputs, blockIdx.x, gridDim.x, 0);
  else
    store_chunks<uint32_t>(g, p, rings, outputs, blockIdx.x, gridDim.x, 0);
}

template <class T, class F>
constexpr Variant sheet_variant(Way way) {
  return {
      F::value, way, kTypeOf<T>, way == Way::kSheet ? sheet<T, F, true> : sheet<T, F, false>, sheet_threads(F::value),
      1};
}

} // namespace polyconv::cuda::banded
