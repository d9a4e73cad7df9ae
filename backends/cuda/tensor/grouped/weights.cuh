// weights.cuh - the gradient of weights of small groups: from patch to patch, sums in registers, then their way out.
// README.md has the picture.
//
// Floor: the larger of one read of x and dy, and of shared memory: a warp reads 512 bytes of x, four clocks of a
// multiprocessor, for 16 rows and 16 pixels of depth, which meet all filters of its group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/patches.cuh"
#include "common/ptx/grid.cuh"
#include "common/values.cuh"
#include "grouped/weights.hpp"
#include "mma/fragments.cuh"

namespace polyconv::cuda::tensor {

// Which groups and rows a block sums.
struct GroupedTile {
  int32_t slice, turn;

  __device__ GroupedTile(const GroupedWeights &p, int32_t tile)
      : slice(tile / p.turn_slices), turn(tile - slice * p.turn_slices) {}
  __device__ int32_t first_unit(const GroupedWeights &p) const { return slice * p.units; }
};

// What a warp of a part has of its block's tile: matrices from row and column `row` and `column` on of a unit.
struct GroupedShare {
  int32_t unit, row, column;

  __device__ GroupedShare(const GroupedWeights &p, const GroupedTile &tile, int32_t warp) {
    const int32_t of_unit = p.row_warps * p.column_warps, rest = warp % of_unit, down = rest / p.column_warps;
    unit = warp / of_unit;
    row = (tile.turn * p.row_warps + down) * p.rows;
    column = (rest - down * p.column_warps) * p.columns;
  }
};

// Shared memory of a block: two stages of a patch each, then what is the same for every patch.
struct GroupedWeightsRoom {
  static constexpr int32_t kOutside = INT32_MIN;

  unsigned char *stages, *zeros;
  PatchTables tables;
  int32_t *x_offsets, *dy_offsets; // elements from where a patch begins; kOutside where it never exists
  int32_t *windows; // of each stage and pixel: bytes from the stage's begin; negative for pixels that do not exist
  int32_t *shifts;  // of a unit's chunks of all taps, and rows behind them: bytes from a window's begin

  __device__ GroupedWeightsRoom(unsigned char *shared, const GroupedWeights &p)
      : stages(shared),
        zeros(shared + p.tables_at),
        tables(zeros + kGroupedZeros, p.patches),
        x_offsets(tables.origins + p.patches.pixels),
        dy_offsets(x_offsets + p.patches.positions),
        windows(dy_offsets + p.patches.pixels),
        shifts(windows + 2 * p.patches.pixels) {}

  __device__ void fill(const GroupedWeights &p) const {
    const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
    const Patches &at = p.patches;
    if (thread < kGroupedZeros / 4) reinterpret_cast<int32_t *>(zeros)[thread] = 0;
    const int32_t size[4] = {at.patch[0], at.patch[1], at.patch[2], p.run * p.phases()};
    for (int32_t i = thread; i < at.positions; i += threads) {
      const uint32_t word = Packed::of(i, size), place = word & 1023;
      tables.sources[i] = (word ^ place) | (place % p.run * p.phases() + place / p.run);
      x_offsets[i] = x_offset(p, Packed(tables.sources[i]));
    }
    for (int32_t i = thread; i < at.pixels; i += threads) {
      const bool there = i < at.tile_pixels();
      tables.targets[i] = there ? Packed::of(i, at.tile) : kNowhere;
      const Packed pixel(there ? tables.targets[i] : 0);
      tables.origins[i] =
          p.position(pixel.n, pixel.at[0] * at.step[0], pixel.at[1] * at.step[1], pixel.at[2] * at.step[2]) *
          p.x_pitch();
      dy_offsets[i] = there ? dy_offset(p, pixel) : kOutside;
    }
    for (int32_t entry = thread; entry < p.table_chunks(); entry += threads) {
      const int32_t i = min(entry, p.all_chunks() - 1), tap = i / p.tap_chunks(), line = tap / at.taps[2],
                    plane = line / at.taps[1];
      const int32_t position = p.position(0, plane * at.dilation[0], (line - plane * at.taps[1]) * at.dilation[1],
                                          (tap - line * at.taps[2]) * at.dilation[2]);
      shifts[entry] = position * p.x_pitch() + (i - tap * p.tap_chunks()) * 16;
    }
  }
  __device__ unsigned char *x(const GroupedWeights &p, int stage) const { return stages + stage * p.stage_bytes(); }
  __device__ unsigned char *dy(const GroupedWeights &p, int stage) const {
    return x(p, stage) + p.patches.positions * p.x_pitch();
  }
  // This thread's part of a patch. Where all of it exists, or the same of it as of every other patch, what a position
  // adds to the address is known already.
  template <class T>
  __device__ void fetch(const GroupedWeights &p, const GroupedTile &tile, int32_t patch, int stage) const {
    const PatchBegin begin(p.patches, patch);
    const int32_t unit = tile.first_unit(p), end = min((unit + p.units) * p.unit_groups, p.groups);
    const SliceChannels channels = {p.x_chunks, unit * p.unit_channels(), end * p.group_channels};
    const SliceChannels filters = {p.dy_chunks, unit * p.unit_filters(), end * p.group_filters};
    int32_t *const at = windows + stage * p.patches.pixels;
    const auto tell = [&](int32_t i, bool inside) { at[i] = inside ? tables.origins[i] : -1; };
    const int32_t images = p.patches.images - begin.n;
    if (p.whole || is_inner(p, begin)) {
      int64_t x_begin = begin.n * p.x.image, dy_begin = begin.n * p.dy.image;
#pragma unroll
      for (int axis = 0; axis < 3; ++axis) {
        x_begin += begin.out[axis] * p.patches.stride[axis] * p.x.stride[axis];
        dy_begin += begin.out[axis] * p.dy.stride[axis];
      }
      const int32_t each = p.patches.positions / p.patches.tile[0],
                    pixels = p.patches.tile_pixels() / p.patches.tile[0];
      fetch_rows<T>(p.x, channels, x_begin, p.patches.positions, images * each, x_offsets, x(p, stage), p.x_pitch(),
                    [](int32_t, bool) {});
      fetch_rows<T>(p.dy, filters, dy_begin, p.patches.pixels, images * pixels, dy_offsets, dy(p, stage), p.dy_pitch(),
                    tell);
      return;
    }
    fetch_windows<T>(p.patches, p.x, channels, begin, tables, x(p, stage), p.x_pitch());
    fetch_pixels<T>(p.patches, p.dy, filters, begin, tables, dy(p, stage), p.dy_pitch(), tell);
  }

 private:
  // Of the patch that begins at the first output.
  __device__ static int32_t x_offset(const GroupedWeights &p, const Packed &position) {
    int32_t offset = position.n * static_cast<int32_t>(p.x.image);
    bool inside = true;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      const int32_t at = position.at[axis] * p.patches.spread[axis] - p.patches.pad[axis];
      inside = inside && is_inside(at, p.patches.in[axis]);
      offset += at * p.x.stride[axis];
    }
    return inside || !p.whole ? offset : kOutside;
  }
  __device__ static int32_t dy_offset(const GroupedWeights &p, const Packed &pixel) {
    int32_t offset = pixel.n * static_cast<int32_t>(p.dy.image);
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) offset += pixel.at[axis] * p.dy.stride[axis];
    return offset;
  }
  // Whether every position and pixel of a patch exists.
  __device__ static bool is_inner(const GroupedWeights &p, const PatchBegin &begin) {
    bool inner = begin.n + p.patches.tile[0] <= p.patches.images;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      const int32_t first = begin.out[axis] * p.patches.stride[axis] - p.patches.pad[axis];
      const int32_t size = axis < 2 ? p.patches.patch[1 + axis] : p.run * p.phases();
      inner = inner && first >= 0 && first + (size - 1) * p.patches.spread[axis] < p.patches.in[axis] &&
              begin.out[axis] + p.patches.tile[1 + axis] <= p.patches.out[axis];
    }
    return inner;
  }
  // Rows of a table of offsets, of which those from `limit` on do not exist. body(i, inside) hears of each once.
  template <class T, class Body>
  __device__ static void fetch_rows(const Slab &slab, const SliceChannels &slice, int64_t begin, int32_t count,
                                    int32_t limit, const int32_t *offsets, unsigned char *to, int32_t pitch,
                                    const Body &body) {
    const ChunkOfRows<T> mine(slice);
    const auto *const from = static_cast<const char *>(slab.data);
    const char *const first = from + (begin + mine.channel) * mine.size;
    const auto copy = [&](int32_t i, int32_t width) {
      const int32_t offset = offsets[i];
      const bool inside = offset != kOutside && i < limit, any = inside && mine.there > 0;
      copy_chunk(to + i * pitch + mine.chunk * 16, any ? first + int64_t{offset} * mine.size : from,
                 any ? mine.there : 0, width);
      if (mine.chunk == 0) body(i, inside);
    };
    if (slab.width == 16) {
#pragma unroll 4
      for (int32_t i = mine.row; i < count; i += mine.rows) copy(i, 16);
    } else {
#pragma unroll 1
      for (int32_t i = mine.row; i < count; i += mine.rows) copy(i, slab.width);
    }
  }
};

// The sums of a warp.
template <class T, int Rows, int Columns>
class GroupedSums {
  // Where sums leave no registers for it, what rows add to a window's begin is loaded again for every step.
  static constexpr bool kKept = Rows * Columns <= 16;

 public:
  // After the tables are filled.
  __device__ GroupedSums(const GroupedWeights &p, const GroupedWeightsRoom &room, const GroupedShare &share) {
#pragma unroll
    for (int row = 0; row < Rows; ++row)
      if (kKept) shift_[row] = shift_of(p, room, share, row);
  }

  // Steps of 16 pixels of a stage, those of the warp's part. Pixels that do not exist are zeros of both factors: their
  // windows may hold NaN.
  __device__ void add_patch(const GroupedWeights &p, const GroupedWeightsRoom &room, const GroupedShare &share,
                            int32_t part, int stage) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
    const auto zeros = static_cast<uint32_t>(__cvta_generic_to_shared(room.zeros));
    const uint32_t x =
        static_cast<uint32_t>(__cvta_generic_to_shared(room.x(p, stage))) + share.unit * p.unit_channels() * 2;
    const uint32_t dy = static_cast<uint32_t>(__cvta_generic_to_shared(room.dy(p, stage))) +
                        share.unit * p.unit_filters() * 2 + share.column * 16;
    const int32_t *const windows = room.windows + stage * p.patches.pixels;
    // A lane has the address of a pixel and of one of two chunks, so that registers come as the instruction wants those
    // of its first factor. Of filters, the last chunk of an odd number has none beside it.
    const int32_t second = lane / 8 % 2, left = p.unit_filters() / 8 - share.column;
#pragma unroll 1
    for (int32_t pixel = part * 16 + lane % 8 + lane / 16 * 8; pixel < p.patches.pixels; pixel += p.parts * 16) {
      const int32_t window = windows[pixel];
      const bool there = window >= 0;
      const uint32_t from = x + window, filters = dy + pixel * p.dy_pitch() + second * 16;
      uint32_t b[Columns][2];
#pragma unroll
      for (int j = 0; j < Columns; j += 2) {
        uint32_t pair[4];
        load_transposed(pair, there && j + second < min(Columns, left) ? filters + j * 16 : zeros);
        b[j][0] = pair[0], b[j][1] = pair[2];
        if (j + 1 < Columns) b[j + 1][0] = pair[1], b[j + 1][1] = pair[3];
      }
#pragma unroll
      for (int row = 0; row < Rows; ++row) {
        uint32_t a[4];
        load_transposed(a, there ? from + (kKept ? shift_[row] : shift_of(p, room, share, row)) : zeros);
#pragma unroll
        for (int j = 0; j < Columns; ++j) multiply_add(sums_[row][j], a, b[j], T());
      }
    }
  }

  // body(i, sums) of each matrix.
  template <class Body>
  __device__ void each(const Body &body) {
#pragma unroll
    for (int row = 0; row < Rows; ++row)
#pragma unroll
      for (int j = 0; j < Columns; ++j) body(row * Columns + j, sums_[row][j]);
  }

 private:
  __device__ static uint32_t shift_of(const GroupedWeights &p, const GroupedWeightsRoom &room,
                                      const GroupedShare &share, int row) {
    const int32_t half = static_cast<int32_t>(threadIdx.x) % 16 / 8;
    return room.shifts[(share.row + row) * 2 + half];
  }

  float sums_[Rows][Columns][4] = {};
  uint32_t shift_[kKept ? Rows : 1];
};

// A lane's sums of one matrix into the gradient: two channels' rows, two filters.
__device__ inline void store_grouped(const GroupedWeights &p, const GroupedTile &tile, const GroupedShare &share,
                                     int32_t matrix, const float4 &sums) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, down = matrix / p.columns;
  const int32_t first_group = (tile.first_unit(p) + share.unit) * p.unit_groups;
  const int32_t filter = (share.column + matrix - down * p.columns) * 8 + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t chunk = (share.row + down) * 2 + half, tap = chunk / p.tap_chunks();
    if (tap >= p.patches.all_taps()) return;
    const int32_t channel = (chunk - tap * p.tap_chunks()) * 8 + lane / 4, group = channel / p.group_channels;
    const int32_t line = tap / p.patches.taps[2], plane = line / p.patches.taps[1];
    if (first_group + group >= p.groups) continue; // the other half may be the next tap's, of a group that exists
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t k = filter + e;
      if (k < group * p.group_filters || k >= (group + 1) * p.group_filters) continue;
      const int64_t to = p.weights.at(first_group * p.group_filters + k, channel - group * p.group_channels, plane,
                                      line - plane * p.patches.taps[1], tap - line * p.patches.taps[2]);
      polyconv::cuda::store(p.result, p.result_type, to, half ? (e ? sums.w : sums.z) : (e ? sums.y : sums.x));
    }
  }
}

// Adds the sums of all parts to those of the first, in order, by way of shared memory.
template <class Sums>
__device__ inline void add_parts(const GroupedWeights &p, Sums &sums, unsigned char *shared, int32_t warp,
                                 int32_t part) {
  auto *const values = reinterpret_cast<float4 *>(shared) + static_cast<int32_t>(threadIdx.x) % 32;
  const int32_t of_part = p.part_warps() * p.matrices() * 32, own = warp * p.matrices() * 32;
  if (part > 0)
    sums.each([&](int i, const float(&v)[4]) {
      values[(part - 1) * of_part + own + i * 32] = make_float4(v[0], v[1], v[2], v[3]);
    });
  __syncthreads();
  if (part > 0) return;
#pragma unroll 1
  for (int32_t other = 0; other < p.parts - 1; ++other)
    sums.each([&](int i, float(&v)[4]) {
      const float4 more = values[other * of_part + own + i * 32];
      v[0] += more.x, v[1] += more.y, v[2] += more.z, v[3] += more.w;
    });
}

// Blocks of one split come one after the other: they read the same pixels at the same time.
template <class T, int Rows, int Columns>
__global__ void __launch_bounds__(kGroupedWarps * 32, 1) sum_groups(const __grid_constant__ GroupedWeights p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const GroupedWeightsRoom room(shared, p);
  const int32_t split = static_cast<int32_t>(blockIdx.x) / p.tiles();
  const int32_t index = static_cast<int32_t>(blockIdx.x) - split * p.tiles();
  const GroupedTile tile(p, index);
  const int32_t part = static_cast<int32_t>(threadIdx.x) / 32 / p.part_warps();
  const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32 - part * p.part_warps();
  const GroupedShare share(p, tile, warp);
  room.fill(p);
  const auto first = static_cast<int32_t>(int64_t{p.patches.count} * split / p.splits);
  const auto last = static_cast<int32_t>(int64_t{p.patches.count} * (split + 1) / p.splits);
  __syncthreads(); // the tables are there
  GroupedSums<T, Rows, Columns> sums(p, room, share);
  ptx::let_next_begin(), ptx::await_previous();
#pragma unroll 1
  for (int32_t next = first, stage = 0; next <= last; ++next, stage ^= 1) { // the first turn only fetches
    if (next < last) room.template fetch<T>(p, tile, next, stage);
    commit_copies();
    if (next == first) continue;
    await_groups<1>();
    __syncthreads();
    sums.add_patch(p, room, share, part, stage ^ 1);
    __syncthreads(); // nobody reads that stage any more
  }
  await_copies();
  if (p.parts > 1) add_parts(p, sums, shared, warp, part);
  if (part > 0) return;
  if (p.splits == 1)
    sums.each(
        [&](int i, const float(&v)[4]) { store_grouped(p, tile, share, i, make_float4(v[0], v[1], v[2], v[3])); });
  else {
    auto *const to = reinterpret_cast<float4 *>(p.pieces) + static_cast<int32_t>(threadIdx.x) % 32 +
                     ((int64_t{split} * p.tiles() + index) * p.part_warps() + warp) * p.matrices() * 32;
    sums.each([&](int i, const float(&v)[4]) { to[i * 32] = make_float4(v[0], v[1], v[2], v[3]); });
  }
}

// ---------------------------------------------------------------- the sum over splits

constexpr int kGroupedWays = 16; // warps that share the pieces of a matrix, at most

// Blocks: a matrix each. Every warp adds some of the pieces, in order, and the first of them those sums.
template <class T>
__global__ void __launch_bounds__(32 * kGroupedWays, 1) add_grouped_splits(const __grid_constant__ GroupedWeights p) {
  __shared__ float4 sums[kGroupedWays][32];
  const int32_t ways = static_cast<int32_t>(blockDim.x) / 32, way = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, block = static_cast<int32_t>(blockIdx.x);
  const int32_t warps = block / p.matrices(), index = warps / p.part_warps();
  const int32_t first = p.splits * way / ways, last = p.splits * (way + 1) / ways;
  const int64_t split_quads = int64_t{p.tiles()} * p.part_warps() * p.matrices() * 32;
  const auto *from = reinterpret_cast<const float4 *>(p.pieces) + first * split_quads + int64_t{block} * 32 + lane;
  ptx::let_next_begin(), ptx::await_previous();
  float4 sum = {};
#pragma unroll 8
  for (int32_t split = first; split < last; ++split, from += split_quads) {
    const float4 v = *from;
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  sums[way][lane] = sum;
  __syncthreads();
  if (way > 0) return;
#pragma unroll 1
  for (int other = 1; other < ways; ++other) {
    const float4 v = sums[other][lane];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  const GroupedTile tile(p, index);
  store_grouped(p, tile, GroupedShare(p, tile, warps - index * p.part_warps()), block - warps * p.matrices(), sum);
}

// ---------------------------------------------------------------- launch

template <class T, int Rows, int Columns>
GroupedLauncher grouped_launcher() {
  const auto prepare = [] { allow_shared(sum_groups<T, Rows, Columns>, kLentShared); };
  const auto launch = [](const GroupedWeights &p, cudaStream_t stream) {
    launch_early_if(p.early, sum_groups<T, Rows, Columns>, static_cast<unsigned>(p.tiles() * p.splits), p.warps() * 32,
                    p.shared_bytes(), stream, p);
    if (p.splits == 1) return;
    int ways = 1;
    while (ways < kGroupedWays && 4 * ways < p.splits) ways *= 2;
    launch_early_if(p.early, add_grouped_splits<T>, static_cast<unsigned>(p.tiles() * p.part_warps() * p.matrices()),
                    32 * ways, 0, stream, p);
  };
  return {prepare, launch};
}

// By its place in kGroupedWarpShapes.
template <class T, int Shape>
GroupedLauncher grouped_launcher_of(int shape) {
  if constexpr (Shape + 1 < kGroupedWarpShapeCount)
    if (shape > Shape) return grouped_launcher_of<T, Shape + 1>(shape);
  return grouped_launcher<T, kGroupedWarpShapes[Shape].rows, kGroupedWarpShapes[Shape].columns>();
}

} // namespace polyconv::cuda::tensor

#define POLYCONV_INSTANCE(T) template tensor::GroupedLauncher tensor::grouped_launcher_of<T, 0>(int);
