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

__host__ __device__ constexpr int sheet_threads(const Form &f) {
  return (f.sheet_warps() + 1 + kLoaders) * 32;
}

// A warp's share of a chunk: a group of filters, some tiles of positions with all steps of their stretches.
struct Share {
  Band band;
  int32_t filter, filters; // the first of the group's; how many there are
  int32_t tile;
  const uint16_t *input; // the band, in shared memory
  char *output;          // the group's results there
};

// Where a lane's results of eight positions belong, of which two are its own: all in one filter of each tile of
// weights.
struct Targets {
  int32_t filter;    // of the first tile
  int32_t row[2];    // of the first step, in the band
  int32_t column[2]; // the first of two
  int32_t steps[2];  // that give results

  __device__ __forceinline__ Targets(const Geometry &g, int32_t rows, int32_t band_rows, int32_t first) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
    filter = lane / 4 / rows;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t position = first + place_of(lane % 4 * 2 + e, g.spread), stretch = stretch_of(g.magic, position);
      row[e] = stretch * g.steps * rows + lane / 4 % rows;
      column[e] = (position - stretch * g.positions) * 2;
      const bool exists = stretch < g.stretches && row[e] < band_rows;
      steps[e] = exists ? min(g.steps, (band_rows - row[e] + rows - 1) / rows) : 0;
    }
  }
  __device__ __forceinline__ int32_t at(const Geometry &g, int e) const {
    return filter * g.waiting + row[e] * g.output_w + column[e];
  }
};

// Where a lane's part of a tile is; the same in all bands of as many rows.
template <class F>
struct Lane {
  static constexpr int kAbreast = F::value.abreast();
  int32_t tile = -1, rows = 0;
  int32_t from[kAbreast];      // elements, in the band
  int32_t at[kAbreast][2];     // elements, in the group's results
  int32_t steps[kAbreast][2];  // that give results
  int32_t column[kAbreast][2]; // of the first of two

  __device__ __forceinline__ void find(const Geometry &g, int32_t new_tile, int32_t new_rows) {
    if (tile == new_tile && rows == new_rows) return;
    tile = new_tile, rows = new_rows;
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, last = g.stretches * g.positions - 1;
#pragma unroll
    for (int i = 0; i < kAbreast; ++i) {
      const int32_t first = (tile * kAbreast + i) * kPositions;
      const int32_t position = min(first + place_of(lane / 4, g.spread), last), stretch = stretch_of(g.magic, position);
      from[i] = stretch * g.steps * F::value.rows * g.pitch + (position - stretch * g.positions + lane % 4) * 2;
      const Targets to(g, F::value.rows, rows, first);
#pragma unroll
      for (int e = 0; e < 2; ++e) at[i][e] = to.at(g, e), steps[i][e] = to.steps[e], column[i][e] = to.column[e];
    }
  }
};

// What a warp multiplies with: a group of filters, of which a lane finishes one in each tile.
template <class F>
struct Group {
  int32_t number = -1;
  Weights<F> weights;
  float bias[F::value.tiles];

  __device__ __forceinline__ void find(const Geometry &g, const Pointers &p, int32_t wanted) {
    if (number == wanted) return;
    weights.load(p, number = wanted);
#pragma unroll
    for (int i = 0; i < F::value.tiles; ++i) {
      const int32_t k =
          wanted * g.group + i * g.tile_filters + static_cast<int32_t>(threadIdx.x) % 32 / 4 / F::value.rows;
      bias[i] = p.bias != nullptr && k < g.filters ? __ldg(p.bias + k) : 0.0f;
    }
  }
};

// The results of a lane, computed again where they are NaN. A call, so that the march keeps its registers.
template <class T, class F>
__device__ __noinline__ void repair_tile(const Geometry &g, const Pointers &p, Share s) {
  constexpr int kRows = F::value.rows, kAbreast = F::value.abreast();
#pragma unroll 1
  for (int32_t j = 0; j < kAbreast * 2; ++j) {
    const Targets to(g, kRows, s.band.rows, (s.tile * kAbreast + j / 2) * kPositions);
    const int32_t first_row = to.row[j % 2], first_column = to.column[j % 2];
    for (int32_t k = to.filter; k < s.filters; k += g.tile_filters)
#pragma unroll 1
      for (int32_t i = 0; i < to.steps[j % 2] * 2; ++i) {
        const int32_t row = first_row + i / 2 * kRows, column = first_column + i % 2;
        const Spot<T> spot = {s.output, g.result_type == POLYCONV_F32, k * g.waiting + row * g.output_w + column};
        if (column < g.output_w && spot.is_nan())
          spot.put(exact_result<T>(g, p, s.band.image, s.filter + k, s.band.first_row + row, column));
      }
  }
}

// How a lane's results of two positions go to where they wait: each alone, of any type; as two words; or as both at
// once, where positions are neighbours.
enum class Put { kSingly, kPairs, kFours };

// The march of a tile.
template <class T, class F, Put put>
__device__ __forceinline__ bool multiply_tile(const Geometry &g, const Share &s, const Lane<F> &lane,
                                              const Group<F> &group) {
  constexpr Form f = F::value;
  constexpr int kRing = f.input_rows(), kTurns = kRing / f.rows, kAbreast = f.abreast();
  static_assert(kRing % f.rows == 0 && f.words == 1, "the ring is where it was after so many steps");
  const int32_t filter = static_cast<int32_t>(threadIdx.x) % 32 / 4 / f.rows;
  const uint16_t *from[kAbreast];
#pragma unroll
  for (int i = 0; i < kAbreast; ++i) from[i] = s.input + lane.from[i];
  uint32_t ring[kRing][kAbreast][f.planes];
  const auto load_row = [&](uint32_t(&row)[F::value.abreast()][F::value.planes]) {
#pragma unroll
    for (int i = 0; i < F::value.abreast() * F::value.planes; ++i)
      row[i / F::value.planes][i % F::value.planes] =
          *reinterpret_cast<const uint32_t *>(from[i / F::value.planes] + i % F::value.planes * g.plane);
#pragma unroll
    for (int i = 0; i < F::value.abreast(); ++i) from[i] += g.pitch;
  };
#pragma unroll
  for (int i = 0; i < kRing - f.rows; ++i) load_row(ring[i]);

  Seen<T> seen;
  const bool wide = put == Put::kSingly && g.result_type == POLYCONV_F32;
  const int32_t size = wide ? 4 : 2, apart = g.tile_filters * g.waiting * size;
  char *at = s.output;
#pragma unroll 1
  for (int32_t step = 0; step < g.steps;) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn, ++step) {
      if (step >= g.steps) break;
#pragma unroll
      for (int i = 0; i < f.rows; ++i) load_row(ring[(turn * f.rows + kRing - f.rows + i) % kRing]);
      float sums[kAbreast][f.tiles][4];
#pragma unroll
      for (int j = 0; j < kAbreast; ++j) {
#pragma unroll
        for (int i = 0; i < f.tiles * 4; ++i) sums[j][i / 4][i % 4] = put == Put::kSingly ? 0.0f : group.bias[i / 4];
        group.weights.template multiply<T, F::value.sheet_chains()>(
            sums[j], [&](int h) { return ring[(turn * f.rows + h / f.planes) % kRing][j][h % f.planes]; });
      }
#pragma unroll
      for (int i = 0; i < kAbreast * f.tiles; ++i) {
        const int j = i / f.tiles, tile = i % f.tiles;
        float(&sum)[4] = sums[j][tile];
        const uint32_t words[2] = {pack<T>(sum[0], sum[2], g.relu != 0), pack<T>(sum[1], sum[3], g.relu != 0)};
        seen.look_at(words[0]), seen.look_at(words[1]);
        char *const here = at + tile * apart;
        const bool exists = filter + tile * g.tile_filters < s.filters;
        if constexpr (put == Put::kFours) {
          if (exists & (step < lane.steps[j][0]))
            *reinterpret_cast<uint2 *>(here + lane.at[j][0] * 2) = make_uint2(words[0], words[1]);
        } else if constexpr (put == Put::kPairs) {
          if (exists & (step < lane.steps[j][0])) *reinterpret_cast<uint32_t *>(here + lane.at[j][0] * 2) = words[0];
          if (exists & (step < lane.steps[j][1])) *reinterpret_cast<uint32_t *>(here + lane.at[j][1] * 2) = words[1];
        } else {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (!(exists & (step < lane.steps[j][e]))) continue;
            const float low = sum[e] + group.bias[tile], high = sum[2 + e] + group.bias[tile];
            const int32_t first = lane.at[j][e];
            Spot<T>{here, wide, first}.put(g.relu && low < 0 ? 0.0f : low);
            if (lane.column[j][e] + 1 < g.output_w)
              Spot<T>{here, wide, first + 1}.put(g.relu && high < 0 ? 0.0f : high);
          }
        }
      }
      at += f.rows * g.output_w * size;
    }
  }
  return seen.nonfinite();
}

// The warps that multiply take the shares of the block's chunks in turn. Each waits for every chunk and says of each
// when it is done, whether or not a share of it was its own: barriers tell a phase from the next one only, and a warp
// that passed chunks by would take a stage's old phase for the one that it waits for.
template <class T, class F, Put put>
__device__ __forceinline__ void multiply_chunks(const Geometry &g, const Pointers &p, const Rings &rings, char *inputs,
                                                char *outputs) {
  const int32_t size = put != Put::kSingly || g.result_type != POLYCONV_F32 ? 2 : 4;
  int32_t share = __shfl_sync(~0u, static_cast<int32_t>(threadIdx.x) / 32, 0), part = 0;
  Group<F> group;
  Lane<F> lane;
  Turn input, output;
  for (auto number = static_cast<int32_t>(blockIdx.x); number < g.bands;) {
    const Band band(g, number);
    ptx::barrier_wait(rings.input_full(input.stage), input.phase);
    ptx::barrier_wait(rings.output_empty(output.stage), output.phase ^ 1);
    for (; share < g.shares; share += F::value.sheet_warps()) {
      const int32_t piece = share / g.chunk, wanted = part * g.chunk + share - piece * g.chunk;
      if (wanted >= g.groups) continue;
      group.find(g, p, wanted);
      const int32_t filter = wanted * g.group, first = part * g.chunk * g.group;
      Share s = {band,
                 filter,
                 min(g.group, g.filters - filter),
                 piece * g.share_tiles,
                 reinterpret_cast<const uint16_t *>(inputs) + input.stage * g.input_stage + input_skew(g, p, band),
                 outputs + output.stage * g.output_stage + output_skew(g, p, band, first, size) +
                     (filter - first) * g.waiting * size};
      for (const int32_t end = min(g.tiles, s.tile + g.share_tiles); s.tile < end; ++s.tile) {
        lane.find(g, s.tile, band.rows);
        if (multiply_tile<T, F, put>(g, s, lane, group)) repair_tile<T, F>(g, p, s);
      }
    }
    share -= g.shares;
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      ptx::barrier_arrive(rings.output_full(output.stage));
      ptx::barrier_arrive(rings.input_empty(input.stage));
    }
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
    if (g.runs == 0) load_elements(g, p, band, rows, to, warp * 32 + lane, kLoaders * 32);
    if (g.runs > 0 && warp == 0)
      load_runs(g, band.input(g, p), rows, to, full, lane);
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
      ptx::barrier_init(rings.input_empty(i), F::value.sheet_warps() * g.chunks);
      ptx::barrier_init(rings.output_full(i), F::value.sheet_warps());
      ptx::barrier_init(rings.output_empty(i), 1);
    }
    ptx::barrier_init_fence();
  }
  // What no run fills is read nevertheless, beside weights of zero.
  for (auto i = static_cast<int32_t>(threadIdx.x); i < g.input_stages * g.input_stage / 2; i += sheet_threads(F::value))
    reinterpret_cast<uint32_t *>(inputs)[i] = 0;
  ptx::fence_for_tma();
  __syncthreads();
  if (warp < F::value.sheet_warps()) {
    ptx::take_registers<F::value.sheet_warps() == 16 ? 104 : 152>();
    if (!together)
      multiply_chunks<T, F, Put::kSingly>(g, p, rings, inputs, outputs);
    else if (g.spread)
      multiply_chunks<T, F, Put::kPairs>(g, p, rings, inputs, outputs);
    else
      multiply_chunks<T, F, Put::kFours>(g, p, rings, inputs, outputs);
    return;
  }
  ptx::release_registers<56>();
  if (warp > F::value.sheet_warps())
    load_bands(g, p, rings, inputs, warp - F::value.sheet_warps() - 1);
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
