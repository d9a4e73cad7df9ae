// sheet.cuh - blocks take bands of whole rows of images into shared memory, one after the other; warps march
// down them, results wait in shared memory and leave in runs as long as memory allows, all at the same time: a warp
// stores, others load, the rest multiply, each as far ahead as the stages between them allow.
//
// Runs are the point: 1045 MB stored in runs of 16 bytes that begin anywhere took 2365 us on an H200, in runs of 128
// bytes 450, and 244 as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "banded/runs.cuh"

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
// weights. Of tiles that a warp marches down side by side the second, say, is as far below the first as `beside` times
// half of the stretches.
struct Targets {
  int32_t filter;    // of the first tile
  int32_t row[2];    // of the first step, in the band
  int32_t column[2]; // the first of two
  int32_t steps[2];  // that give results

  __device__ __forceinline__ Targets(const Geometry &g, int32_t rows, int32_t band_rows, int32_t tile, int32_t beside) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
    filter = lane / 4 / rows;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t position = tile * kPositions + place_of(lane % 4 * 2 + e, g.spread),
                    stretch = quotient(g.magic, position);
      row[e] = (stretch + beside * g.stretches) * g.steps * rows + lane / 4 % rows;
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
  int32_t from;               // elements, in the band
  int32_t at[2], column[2];   // in elements, in the group's results; the first of two
  int32_t steps[kAbreast][2]; // that give results

  __device__ __forceinline__ void find(const Geometry &g, int32_t new_tile, int32_t new_rows) {
    if (tile == new_tile && rows == new_rows) return;
    tile = new_tile, rows = new_rows;
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, last = g.stretches * g.positions - 1;
    const int32_t position = min(tile * kPositions + place_of(lane / 4, g.spread), last);
    const int32_t stretch = quotient(g.magic, position);
    from = stretch * g.steps * F::value.rows * g.pitch + (position - stretch * g.positions + lane % 4) * 2;
#pragma unroll
    for (int j = kAbreast; j-- > 0;) {
      const Targets to(g, F::value.rows, rows, tile, j);
#pragma unroll
      for (int e = 0; e < 2; ++e) at[e] = to.at(g, e), column[e] = to.column[e], steps[j][e] = to.steps[e];
    }
  }
};

// What a warp multiplies with: a group of filters, of which a lane finishes one in each tile. Sums begin with the bias,
// in registers of their own, or each product would have it copied first.
template <class F>
struct Group {
  int32_t number = -1;
  Weights<F> weights;
  float start[F::value.tiles][4];

  __device__ __forceinline__ void find(const Geometry &g, const Pointers &p, int32_t wanted) {
    if (number == wanted) return;
    weights.load(p, number = wanted);
    const int32_t filter = wanted * g.group + static_cast<int32_t>(threadIdx.x) % 32 / 4 / F::value.rows;
#pragma unroll
    for (int i = 0; i < F::value.tiles * 4; ++i) {
      const int32_t k = filter + i / 4 * g.tile_filters;
      float &bias = start[i / 4][i % 4];
      bias = p.bias != nullptr && k < g.filters ? __ldg(p.bias + k) : 0.0f;
      asm volatile("" : "+f"(bias));
    }
  }
};

// The results of a lane, computed again where they are NaN. A call, so that the march keeps its registers.
template <class T, class F>
__device__ __noinline__ void repair_tile(const Geometry &g, const Pointers &p, Share s) {
  constexpr int kRows = F::value.rows;
#pragma unroll 1
  for (int32_t j = 0; j < F::value.abreast() * 2; ++j) {
    const Targets to(g, kRows, s.band.rows, s.tile, j / 2);
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
template <Put put>
using PutType = std::integral_constant<Put, put>;

// The results of one step of a tile.
template <class T, class F, Put put, bool relu>
__device__ __forceinline__ void put_results(const Geometry &g, const Lane<F> &lane, const float (&sum)[4],
                                            const bool (&exists)[2], char *(&at)[2], int32_t further, Seen<T> &seen) {
  const uint32_t words[2] = {ptx::rounded_pair<T>(sum[0], sum[2], relu), ptx::rounded_pair<T>(sum[1], sum[3], relu)};
  seen.look_at(words[0]), seen.look_at(words[1]);
  if constexpr (put == Put::kFours) {
    if (exists[0]) *reinterpret_cast<uint2 *>(at[0] + further) = make_uint2(words[0], words[1]);
  } else if constexpr (put == Put::kPairs) {
    if (exists[0]) *reinterpret_cast<uint32_t *>(at[0] + further) = words[0];
    if (exists[1]) *reinterpret_cast<uint32_t *>(at[1] + further) = words[1];
  } else {
    const bool wide = g.result_type == POLYCONV_F32;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (!exists[e]) continue;
      Spot<T>{at[e] + further, wide, 0}.put(g.relu && sum[e] < 0 ? 0.0f : sum[e]);
      if (lane.column[e] + 1 < g.output_w)
        Spot<T>{at[e] + further, wide, 1}.put(g.relu && sum[2 + e] < 0 ? 0.0f : sum[2 + e]);
    }
  }
}

// The march of a tile. Says whether a result is not finite.
template <class T, class F, Put put, bool relu>
__device__ __forceinline__ bool multiply_tile(const Geometry &g, const Share &s, const Lane<F> &lane,
                                              const Group<F> &group) {
  constexpr Form f = F::value;
  constexpr int kRing = f.input_rows() + f.rows_ahead(), kTurns = kRing / f.rows, kAbreast = f.abreast();
  static_assert(kRing % f.rows == 0 && f.words == 1, "the ring is where it was after so many steps");
  const uint16_t *from = s.input + lane.from;
  uint32_t ring[kRing][kAbreast][f.planes];
  const auto load_row = [&](uint32_t(&row)[kAbreast][F::value.planes]) {
#pragma unroll
    for (int i = 0; i < kAbreast * F::value.planes; ++i)
      row[i / F::value.planes][i % F::value.planes] = *reinterpret_cast<const uint32_t *>(
          from + i / F::value.planes * g.input_beside + i % F::value.planes * g.plane);
    from += g.pitch;
  };
#pragma unroll
  for (int i = 0; i < kRing - f.rows; ++i) load_row(ring[i]);

  Seen<T> seen;
  const int32_t filter = static_cast<int32_t>(threadIdx.x) % 32 / 4 / f.rows;
  const int32_t size = put == Put::kSingly && g.result_type == POLYCONV_F32 ? 4 : 2;
  char *at[2] = {s.output + lane.at[0] * size, s.output + lane.at[1] * size};
#pragma unroll 1
  for (int32_t step = 0; step < g.steps;) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn, ++step) {
      if (step >= g.steps) break;
#pragma unroll
      for (int i = 0; i < f.rows; ++i) load_row(ring[(turn * f.rows + kRing - f.rows + i) % kRing]);
      float sums[kAbreast][f.tiles][4];
#pragma unroll
      for (int j = 0; j < kAbreast; ++j)
        group.weights.template multiply<T, F::value.sheet_chains()>(
            sums[j], group.start, [&](int h) { return ring[(turn * f.rows + h / f.planes) % kRing][j][h % f.planes]; });
#pragma unroll
      for (int i = 0; i < kAbreast * f.tiles; ++i) {
        const int j = i / f.tiles, tile = i % f.tiles;
        const bool there = filter + tile * g.tile_filters < s.filters;
        const bool exists[2] = {there && step < lane.steps[j][0], there && step < lane.steps[j][1]};
        put_results<T, F, put, relu>(g, lane, sums[j][tile], exists, at,
                                     (j * g.output_beside + tile * g.tile_filters * g.waiting) * size, seen);
      }
#pragma unroll
      for (int e = 0; e < 2; ++e) at[e] += f.rows * g.output_w * size;
    }
  }
  return seen.nonfinite();
}

// What loading warps hand on to the others beside a band.
__device__ __forceinline__ void write_band(const Band &band, uint32_t to) {
  ptx::store_word(to, static_cast<uint32_t>(band.image));
  ptx::store_word(to + 4, static_cast<uint32_t>(band.first_row));
}
__device__ __forceinline__ Band read_band(const Geometry &g, uint32_t from) {
  return Band(g, static_cast<int32_t>(ptx::load_word(from)), static_cast<int32_t>(ptx::load_word(from + 4)));
}

// The warps that multiply take the shares of the block's chunks in turn. Each waits for every chunk and says of each
// when it is done, whether or not a share of it was its own: barriers tell a phase from the next one only, and a warp
// that passed chunks by would take a stage's old phase for the one that it waits for. After the last band comes an
// empty chunk, for the storing warp.
template <class T, class F, Put put, bool relu>
__device__ __forceinline__ void multiply_chunks(const Geometry &g, const Pointers &p, const Rings &rings, char *inputs,
                                                char *outputs) {
  const int32_t size = put != Put::kSingly || g.result_type != POLYCONV_F32 ? 2 : 4;
  int32_t share = __shfl_sync(~0u, static_cast<int32_t>(threadIdx.x) / 32, 0);
  int32_t known = -1, piece = 0; // of which a division was the last to find which tiles it has
  Group<F> group;
  Lane<F> lane;
  Turn input, output;
  for (int32_t i = 0;; ++i, input.advance(g.input_stages)) {
    ptx::barrier_wait(rings.input_full(input.stage), input.phase);
    const Band band = read_band(g, rings.band(i));
    if (band.image < 0) break;
    for (int32_t part = 0; part < g.chunks; ++part, share -= g.shares, output.advance(g.output_stages)) {
      ptx::barrier_wait(rings.output_empty(output.stage), output.phase ^ 1);
      for (; share < g.shares; share += F::value.sheet_warps()) {
        if (share != known) known = share, piece = share / g.chunk;
        const int32_t in_chunk = share - piece * g.chunk, wanted = part * g.chunk + in_chunk;
        if (wanted >= g.groups) continue;
        group.find(g, p, wanted);
        Share s = {band,
                   wanted * g.group,
                   min(g.group, g.filters - wanted * g.group),
                   piece * g.share_tiles,
                   reinterpret_cast<const uint16_t *>(inputs) + input.stage * g.input_stage + input_skew(g, p, band),
                   outputs + output.stage * g.output_stage + output_skew(g, p, band, part * g.chunk * g.group, size) +
                       in_chunk * g.group * g.waiting * size};
        for (const int32_t end = min(g.tiles, s.tile + g.share_tiles); s.tile < end; ++s.tile) {
          lane.find(g, s.tile, band.rows);
          if (multiply_tile<T, F, put, relu>(g, s, lane, group)) repair_tile<T, F>(g, p, s);
        }
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) ptx::barrier_arrive(rings.output_full(output.stage));
    }
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(rings.input_empty(input.stage));
  }
  ptx::barrier_wait(rings.output_empty(output.stage), output.phase ^ 1);
  if (threadIdx.x % 32 == 0) ptx::barrier_arrive(rings.output_full(output.stage));
}

// The warps that load bands, as far ahead as there are stages, and write down which: runs are loaded by one of them,
// which may ask for each band when it comes to it. The last is none.
__device__ __noinline__ void load_bands(const Geometry &g, const Pointers &p, const Rings &rings, char *inputs,
                                        int32_t warp) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  auto number = static_cast<int32_t>(blockIdx.x);
  Turn turn;
  for (int32_t i = 0;; ++i, turn.advance(g.input_stages)) {
    int32_t next = number + static_cast<int32_t>(gridDim.x);
    if (p.taken != nullptr && lane == 0) next = static_cast<int32_t>(gridDim.x) + atomicAdd(p.taken, 1);
    ptx::barrier_wait(rings.input_empty(turn.stage), turn.phase ^ 1);
    const uint32_t full = rings.input_full(turn.stage);
    const Band band = number < g.bands ? Band(g, number) : Band(g, -1, 0);
    if (warp == 0 && lane == 0) write_band(band, rings.band(i));
    if (band.image < 0) {
      ptx::barrier_arrive(full);
      return;
    }
    uint16_t *const to = reinterpret_cast<uint16_t *>(inputs) + turn.stage * g.input_stage + input_skew(g, p, band);
    const int32_t rows = band.rows - 1 + g.taps_h;
    if (g.runs > 0) {
      load_runs(g, band.input(g, p), rows, to, full, lane);
    } else {
      load_elements(g, p, band, rows, to, warp * 32 + lane, kLoaders * 32);
      ptx::barrier_arrive(full);
    }
    number = __shfl_sync(~0u, next, 0);
  }
}

template <class E>
__device__ __forceinline__ void store_bands(const Geometry &g, const Pointers &p, const Rings &rings,
                                            const char *outputs) {
  store_chunks<E>(g, p, rings, outputs, 0, [&](int32_t i, const Turn &turn) {
    ptx::barrier_wait(rings.output_full(turn.stage), turn.phase);
    return read_band(g, rings.band(i));
  });
}

template <class T, class F, bool together>
__global__ void __launch_bounds__(sheet_threads(F::value), 1)
    sheet(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  extern __shared__ __align__(128) char shared[];
  const auto warp = static_cast<int32_t>(threadIdx.x) / 32;
  const Rings rings = {ptx::shared_address(shared)};
  char *const inputs = shared + kBarrierBytes, *const outputs = inputs + g.output_first;
  if (threadIdx.x == 0) {
    for (int32_t i = 0; i < kMostStages; ++i) {
      ptx::barrier_init(rings.input_full(i), g.runs > 0 ? 32 : kLoaders * 32);
      ptx::barrier_init(rings.input_empty(i), F::value.sheet_warps());
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
    const auto multiply = [&](auto put, auto relu) {
      multiply_chunks<T, F, decltype(put)::value, decltype(relu)::value>(g, p, rings, inputs, outputs);
    };
    using Yes = std::true_type;
    using No = std::false_type;
    if constexpr (!together)
      multiply(PutType<Put::kSingly>(), No());
    else if (g.spread)
      g.relu ? multiply(PutType<Put::kPairs>(), Yes()) : multiply(PutType<Put::kPairs>(), No());
    else
      g.relu ? multiply(PutType<Put::kFours>(), Yes()) : multiply(PutType<Put::kFours>(), No());
    return;
  }
  ptx::release_registers<56>();
  const int32_t loader = warp - F::value.sheet_warps() - 1;
  if (loader > 0 && g.runs > 0) return; // one is enough
  if (loader >= 0)
    load_bands(g, p, rings, inputs, loader);
  else if (together || g.result_type != POLYCONV_F32)
    store_bands<uint16_t>(g, p, rings, outputs);
  else
    store_bands<uint32_t>(g, p, rings, outputs);
}

template <class T, class F>
constexpr Variant sheet_variant(Way way) {
  return {
      F::value, way, kTypeOf<T>, way == Way::kSheet ? sheet<T, F, true> : sheet<T, F, false>, sheet_threads(F::value),
      1};
}

} // namespace polyconv::cuda::banded
