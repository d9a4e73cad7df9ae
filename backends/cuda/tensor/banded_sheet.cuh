// banded_sheet.cuh - a block takes a band of rows of one image into shared memory and computes all its positions;
// results wait there too, and leave in runs as long as memory allows.
//
// Runs are the point: 1045 MB stored in runs of 16 bytes that begin anywhere took 2365 us on an H200, in runs of 128
// bytes 450, and 244 as one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "banded_parts.cuh"
#include "common/async.cuh"

namespace polyconv::cuda::banded {

__host__ __device__ constexpr int sheet_registers(const Form &f) {
  return 4 * f.products() * f.tiles + 7 * f.tiles + 44;
}
__host__ __device__ constexpr int sheet_threads(const Form &f) {
  return sheet_registers(f) <= 72 ? 256 : 128;
}
__host__ __device__ constexpr int sheet_blocks(const Form &f) {
  const int held = sheet_registers(f);
  return held <= 72 ? 3 : held <= 128 ? 4 : 3;
}

// What a block computes, and where it keeps it.
struct Sheet {
  int32_t group, image, first_row, rows, filters; // output rows and filters that there are
  uint16_t *input, *output;                       // in shared memory: [channel][row][column], [filter][row][column]

  __device__ __forceinline__ Sheet(const Geometry &g, const Form &f, uint16_t *shared) {
    auto rest = static_cast<int32_t>(blockIdx.x);
    group = rest % g.groups, rest /= g.groups;
    first_row = rest % g.strips * g.strip, image = rest / g.strips;
    rows = min(g.strip, g.output_h - first_row);
    const int32_t most = g.filters * f.tiles;
    filters = min(most, g.all_filters - group * most);
    input = shared;
    output = shared + f.planes * g.plane;
  }
};

template <int bytes>
__device__ __forceinline__ void copy_in_units(uint16_t *to, const uint16_t *from, int32_t elements) {
  constexpr int kUnit = bytes / 2;
  for (auto i = static_cast<int32_t>(threadIdx.x) * kUnit; i < elements; i += static_cast<int32_t>(blockDim.x) * kUnit)
    copy_async<bytes>(to + i, from + i, true);
}

// Rows without padding are one run in memory; what no row fills is zero.
__device__ inline void copy_rows(const Geometry &g, const Form &f, const Sheet &s, const uint16_t *image) {
  const int32_t there = min(g.plane, (g.input_h - s.first_row) * g.pitch) / g.in_one * g.in_one;
  const uint16_t *from = image + s.first_row * g.x_row;
  for (int32_t c = 0; c < f.planes; ++c, from += g.x_plane) {
    uint16_t *const to = s.input + c * g.plane;
    const int32_t count = c < g.channels ? there : 0;
    if (g.in_one == 8)
      copy_in_units<16>(to, from, count);
    else if (g.in_one == 4)
      copy_in_units<8>(to, from, count);
    else
      copy_in_units<4>(to, from, count);
    for (int32_t i = count + static_cast<int32_t>(threadIdx.x); i < g.plane; i += static_cast<int32_t>(blockDim.x))
      to[i] = 0;
  }
}

// Rows of every alignment, with padding around them.
__device__ inline void copy_elements(const Geometry &g, const Form &f, const Sheet &s, const uint16_t *image) {
  for (auto i = static_cast<int32_t>(threadIdx.x); i < f.planes * g.plane; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t c = i / g.plane, row = i % g.plane / g.pitch + s.first_row - g.pad_h,
                  column = i % g.plane % g.pitch - g.pad_w;
    const bool inside = c < g.channels && row >= 0 && row < g.input_h && column >= 0 && column < g.input_row;
    s.input[i] = inside ? __ldg(image + c * g.x_plane + row * g.x_row + column) : uint16_t{0};
  }
}

template <class V>
__device__ __forceinline__ void copy_out_units(uint16_t *to, const uint16_t *from, int32_t elements, int32_t thread,
                                               int32_t threads) {
  constexpr int kUnit = sizeof(V) / 2;
#pragma unroll 4
  for (int32_t i = thread; i < elements / kUnit; i += threads)
    reinterpret_cast<V *>(to)[i] = reinterpret_cast<const V *>(from)[i];
  const int32_t rest = elements / kUnit * kUnit + thread;
  if (rest < elements) to[rest] = from[rest];
}

__device__ __forceinline__ void copy_run(const Geometry &g, uint16_t *to, const uint16_t *from, int32_t elements,
                                         int32_t thread, int32_t threads) {
  if (g.out_one == 8)
    copy_out_units<uint4>(to, from, elements, thread, threads);
  else if (g.out_one == 4)
    copy_out_units<uint2>(to, from, elements, thread, threads);
  else if (g.out_one == 2)
    copy_out_units<uint32_t>(to, from, elements, thread, threads);
  else
    copy_out_units<uint16_t>(to, from, elements, thread, threads);
}

// The whole block stores one run of all planes, or each warp stores filters of its own.
__device__ inline void copy_out(const Geometry &g, const Form &f, const Sheet &s, void *y) {
  auto *const to = static_cast<uint16_t *>(y) + s.image * g.y_image + s.group * g.filters * f.tiles * g.y_filter +
                   s.first_row * g.y_row;
  const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
  if (g.whole)
    copy_run(g, to, s.output, s.filters * g.waiting, thread, threads);
  else
    for (int32_t k = thread / 32; k < s.filters; k += threads / 32)
      copy_run(g, to + k * g.y_filter, s.output + k * g.waiting, s.rows * g.output_w, thread % 32, 32);
}

// position / g.positions.
__device__ __forceinline__ int32_t step_of(uint32_t magic, int32_t position) {
  return magic == 0 ? position : static_cast<int32_t>(__umulhi(static_cast<uint32_t>(position), magic));
}

// Where a lane's results of a tile belong: the rows and columns of two positions, and a filter of each tile of weights.
struct Targets {
  int32_t row[2], column[2];

  __device__ __forceinline__ Targets(const Geometry &g, const Form &f, int32_t tile) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, position = tile * kPositions + lane % 4 * 2;
    const int32_t step = step_of(g.magic, position), place = position - step * g.positions;
    const bool next = place + 1 == g.positions; // the second position begins another row
    row[0] = step * f.rows + lane / 4 % f.rows;
    row[1] = row[0] + (next ? f.rows : 0);
    column[0] = place * 2;
    column[1] = next ? 0 : place * 2 + 2;
  }
};

// Where a result goes: to where those of the input's type wait, or to memory.
template <class T>
__device__ __forceinline__ Spot spot_of(const Geometry &g, const Pointers &p, const Form &f, const Sheet &s, int32_t k,
                                        int32_t row, int32_t column) {
  if (g.result_type == kType<T>) return {s.output, g.result_type, k * g.waiting + row * g.output_w + column};
  return {p.y, g.result_type,
          s.image * g.y_image + (s.group * g.filters * f.tiles + k) * g.y_filter + (s.first_row + row) * g.y_row +
              column * g.y_column};
}

// The results of a lane, computed again where they are NaN.
template <class T, class F>
__device__ __noinline__ void repair_lane(const Geometry &g, const Pointers &p, Sheet s) {
  constexpr Form f = F::value;
  const auto warps = static_cast<int32_t>(blockDim.x) / 32;
  for (int32_t tile = static_cast<int32_t>(threadIdx.x) / 32; tile * kPositions < g.steps * g.positions;
       tile += warps) {
    const Targets to(g, f, tile);
    for (int32_t i = 0; i < 4 * f.tiles; ++i) {
      const int32_t row = to.row[i % 2], column = to.column[i % 2] + i / 2 % 2;
      const int32_t k = static_cast<int32_t>(threadIdx.x) % 32 / 4 / f.rows + i / 4 * g.filters;
      if (row >= s.rows || column >= g.output_w || k >= s.filters) continue;
      if (const Spot spot = spot_of<T>(g, p, f, s, k, row, column); spot.is_nan())
        spot.put(exact_result<T>(g, p, s.image, s.group * g.filters * f.tiles + k, s.first_row + row, column));
    }
  }
}

// Together: results are pairs of the input's type; or they are of any type and number.
template <class T, class F, bool together>
__global__ void __launch_bounds__(sheet_threads(F::value), sheet_blocks(F::value))
    sheet(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  constexpr Form f = F::value;
  extern __shared__ __align__(16) uint16_t shared[];
  const Sheet s(g, f, shared);
  const uint16_t *const image = static_cast<const uint16_t *>(p.x) + s.image * g.x_image;
  if (g.in_one > 0)
    copy_rows(g, f, s, image);
  else
    copy_elements(g, f, s, image);
  const Weights<F> weights(p, s.group);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, filter = lane / 4 / f.rows;
  const int32_t tiles = filter < s.filters ? (s.filters - filter - 1) / g.filters + 1 : 0; // whose filters exist
  float bias[f.tiles];
#pragma unroll
  for (int i = 0; i < f.tiles; ++i)
    bias[i] =
        p.bias != nullptr && i < tiles ? __ldg(p.bias + s.group * g.filters * f.tiles + filter + i * g.filters) : 0.0f;
  await_copies();
  __syncthreads();

  Seen<T> seen;
  uint16_t *const output = s.output + filter * g.waiting;
  const int32_t all = g.steps * g.positions, apart = g.filters * g.waiting;
#pragma unroll 1
  for (int32_t tile = static_cast<int32_t>(threadIdx.x) / 32; tile * kPositions < all; tile += sheet_threads(f) / 32) {
    const int32_t position = min(tile * kPositions + lane / 4, all - 1), step = step_of(g.magic, position);
    const uint16_t *const window = s.input + step * f.rows * g.pitch + (position - step * g.positions + lane % 4) * 2;
    float sums[f.tiles][4];
#pragma unroll
    for (int i = 0; i < 4 * f.tiles; ++i) sums[i / 4][i % 4] = together ? bias[i / 4] : 0.0f;
    weights.template multiply<T>(sums, [&](int h) {
      return *reinterpret_cast<const uint32_t *>(window + h / f.planes * g.pitch + h % f.planes * g.plane);
    });
    const Targets to(g, f, tile);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t exist = to.row[e] < s.rows ? tiles : 0;
      uint16_t *at = output + to.row[e] * g.output_w + to.column[e];
#pragma unroll
      for (int i = 0; i < f.tiles; ++i, at += apart) {
        const uint32_t word = pack<T>(sums[i][e], sums[i][2 + e], g.relu != 0);
        seen.look_at(word);
        if constexpr (together) {
          if (i < exist) *reinterpret_cast<uint32_t *>(at) = word;
        } else if (i < exist) {
          const float low = sums[i][e] + bias[i], high = sums[i][2 + e] + bias[i];
          const int32_t k = filter + i * g.filters;
          spot_of<T>(g, p, f, s, k, to.row[e], to.column[e]).put(g.relu && low < 0 ? 0.0f : low);
          if (to.column[e] + 1 < g.output_w)
            spot_of<T>(g, p, f, s, k, to.row[e], to.column[e] + 1).put(g.relu && high < 0 ? 0.0f : high);
        }
      }
    }
  }
  if (seen.nonfinite()) repair_lane<T, F>(g, p, s);
  __syncthreads();
  if (together || g.result_type == kType<T>) copy_out(g, f, s, p.y);
}

template <class T, class F>
constexpr Variant sheet_variant(Way way) {
  return {F::value,
          way,
          std::is_same_v<T, __nv_bfloat16>,
          way == Way::kSheet ? sheet<T, F, true> : sheet<T, F, false>,
          sheet_threads(F::value),
          sheet_blocks(F::value)};
}

} // namespace polyconv::cuda::banded
