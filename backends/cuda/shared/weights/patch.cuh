// patch.cuh - the gradient of weights of depthwise layers by patches. What a warp needs is in shared memory at
// distances that the compiler knows, zeros where an image has no pixel: of a strip, the lines of x of a step and the
// row of dy that no line met before are loaded once for all lines of taps, whose other rows of dy are still in
// registers.
//
// Floor: one read of x and dy; or what a multiprocessor issues: of a strip of 4 outputs and 4 lines of 7 taps, 224
// products, 14 loads and, of 16 bits, 28 conversions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/machine.hpp"
#include "common/ptx/async.cuh"
#include "common/ptx/grid.cuh"
#include "common/values.cuh"
#include "weights/last_splits.cuh"
#include "weights/patch.hpp"

namespace polyconv::cuda::shared {

// Two neighbouring channels, as a lane has them in shared memory.
template <class T>
struct alignas(2 * sizeof(T)) LanePair {
  T first, second;
};
template <class T>
inline constexpr int kPixelBytes = 32 * int{sizeof(LanePair<T>)};

// ---------------------------------------------------------------- patches on their way

// Which pixels a patch has: `steps` times stride lines of x from `line` on, and the rows of dy that they meet, from
// `row` on, of columns from `column` on; of `sets` times 32 / lanes images.
struct PatchPlace {
  int32_t image, line, row, steps, column;

  __device__ PatchPlace(const PatchSums &p, int32_t patch, int32_t stride) {
    const int32_t rest = patch / p.tiles, set = rest / p.sums.bands, first = (rest - set * p.sums.bands) * p.sums.band;
    image = set * p.sets * (32 / p.sums.lanes), line = p.first_line + first * stride;
    row = (line + p.sums.pad[1]) / stride - p.halo, steps = min(p.sums.band, p.steps - first);
    column = (patch - rest * p.tiles) * p.y_columns();
  }
};

// A box of one tensor on its way: `rows` x `columns` pixels from (row, column) on, of which the tensor has some.
struct PatchBox {
  int32_t row, column, rows, columns, height, width;
  int32_t row_stride, column_stride;
  int64_t image_stride, channel_stride;
};

// `image` and `slice`: the first image, and the channels. Threads take units of a pixel: chunks of 16 bytes, or lanes.
template <class T, PatchLoads Loads>
__device__ void fetch_box(const PatchSums &p, const PatchBox &box, const T *tensor, int32_t image, int32_t slice,
                          unsigned char *to) {
  constexpr int kUnits = Loads == PatchLoads::kChunks ? kPixelBytes<T> / 16 : 32;
  constexpr int kUnitBytes = kPixelBytes<T> / kUnits, kUnitChannels = kUnitBytes / int{sizeof(T)};
  const auto thread = static_cast<int32_t>(threadIdx.x), step = static_cast<int32_t>(blockDim.x) / kUnits;
  const int32_t unit = thread % kUnits, of_group = kUnits * p.sums.lanes / 32, group = unit / of_group;
  const int32_t channel = slice * p.sums.lanes * 2 + (unit - group * of_group) * kUnitChannels;
  const bool there = image + group < p.images && channel < p.sums.channels;
  const int32_t rows_on = step / box.columns, columns_on = step - rows_on * box.columns;
  const int32_t row = thread / kUnits / box.columns, right = box.column + box.columns;
  int32_t h = box.row + row, w = box.column + thread / kUnits - row * box.columns;
  const T *const from = there ? tensor + (image + group) * box.image_stride + channel * box.channel_stride : tensor;
  int32_t element = h * box.row_stride + w * box.column_stride;
  const int32_t elements_on = rows_on * box.row_stride + columns_on * box.column_stride;
  const int32_t next_row = box.row_stride - box.columns * box.column_stride;
  const int32_t bottom = box.row + box.rows;
  to += thread / kUnits * kPixelBytes<T> + unit * kUnitBytes;
#pragma unroll 4
  for (; h < bottom; to += step * kPixelBytes<T>) {
    const bool inside = there && static_cast<uint32_t>(h) < static_cast<uint32_t>(box.height) &&
                        static_cast<uint32_t>(w) < static_cast<uint32_t>(box.width);
    if constexpr (Loads != PatchLoads::kElements) {
      copy_async<kUnitBytes>(to, from + element, inside);
    } else {
      LanePair<T> pair = {};
      if (inside) pair.first = from[element];
      if (inside && channel + 1 < p.sums.channels) pair.second = from[element + box.channel_stride];
      *reinterpret_cast<LanePair<T> *>(to) = pair;
    }
    h += rows_on, w += columns_on, element += elements_on;
    if (w >= right) w -= box.columns, ++h, element += next_row;
  }
}

// What a patch has of x, or else of dy; field by field, so that registers hold it.
template <int Step>
__device__ PatchBox box_of(const PatchSums &p, const PatchPlace &at, bool is_x) {
  const LastSums &s = p.sums;
  return {is_x ? at.line : at.row,
          is_x ? at.column * Step - s.pad[2] : at.column,
          is_x ? p.x_rows : p.y_rows,
          is_x ? p.x_columns : p.y_columns(),
          is_x ? s.in[1] : s.out[1],
          is_x ? s.in[2] : s.out[2],
          is_x ? s.x_stride[1] : s.dy_stride[1],
          is_x ? s.x_stride[2] : s.dy_stride[2],
          is_x ? s.x_image : s.dy_image,
          is_x ? p.x_channel : p.dy_channel};
}

template <class T, int Step, PatchLoads Loads>
__device__ void fetch_patch(const PatchSums &p, int32_t patch, int32_t slice, unsigned char *to) {
  const PatchPlace at(p, patch, Step);
#pragma unroll 1
  for (int32_t i = 0; i < 2 * p.sets; ++i) {
    const int32_t set = i / 2;
    const bool is_x = i % 2 == 0;
    const int32_t pixel = is_x ? set * p.x_rows * p.x_columns : p.x_pixels() + set * p.y_rows * p.y_columns();
    fetch_box<T, Loads>(p, box_of<Step>(p, at, is_x), static_cast<const T *>(is_x ? p.sums.x : p.sums.dy),
                        at.image + set * (32 / p.sums.lanes), slice, to + pixel * kPixelBytes<T>);
  }
}

// ---------------------------------------------------------------- sums of a warp

template <class T, int Taps, int Step, int Lines>
struct PatchTurn {
  static constexpr int kCount = Lines * Taps, kInputs = (kStrip - 1) * Step + Taps, kRows = (Lines - 1) / Step + 1,
                       kPhases = Step < Lines ? Step : Lines;
  float2 sums[kCount] = {};

  // Where the warp works; found anew for every patch, since registers are short.
  struct Role {
    int32_t set, strip;
    int32_t line, column; // where its taps begin
    int32_t lines;        // that the window has of them

    __device__ explicit Role(const PatchSums &p) {
      const int32_t warp = __shfl_sync(~0u, static_cast<int32_t>(threadIdx.x) / 32, 0); // the same for all lanes
      const int32_t side = p.strips * p.sets, turn = warp / side, place = warp - turn * side;
      set = place / p.strips, strip = place - set * p.strips;
      line = turn / p.across * Lines, column = (turn - turn / p.across * p.across) * Taps;
      lines = min(Lines, p.sums.taps[1] - line);
    }
  };

  // The tap of sum i of a turn, -1 where the window has no such line or column.
  __device__ static int32_t tap_of(const PatchSums &p, int32_t turn, int32_t i) {
    const int32_t down = turn / p.across, row = down * Lines + i / Taps;
    const int32_t across = (turn - down * p.across) * Taps + i % Taps;
    return row < p.sums.taps[1] && across < p.sums.taps[2] ? row * p.sums.taps[2] + across : -1;
  }

  __device__ void add(const PatchSums &p, int32_t patch, const unsigned char *stage) {
    const PatchPlace at(p, patch, Step);
    const Role role(p);
    const int32_t there = p.sums.out[2] - at.column - role.strip * kStrip;
    if (there <= 0) return;
    const auto *const lane = reinterpret_cast<const LanePair<T> *>(stage) + threadIdx.x % 32;
    const int32_t x_line = p.x_columns * 32, y_row = p.y_columns() * 32, first = p.halo - role.line / Step;
    const LanePair<T> *from_x =
        lane + (role.set * p.x_rows + role.line % Step) * x_line + (role.strip * kStrip * Step + role.column) * 32;
    const LanePair<T> *from_y =
        lane + p.x_pixels() * 32 + (role.set * p.y_rows + first) * y_row + role.strip * kStrip * 32;
    float2 y[kRows][kStrip];
#pragma unroll
    for (int back = 1; back < kRows; ++back) load_row(from_y - back * y_row, y[kRows - back]);
#pragma unroll 1
    for (int32_t step = 0; step < at.steps; step += kRows)
#pragma unroll
      for (int place = 0; place < kRows; ++place) { // a row of dy takes the place of the one kRows before
        if (step + place >= at.steps) break;
        load_row(from_y, y[place]);
        const int32_t row = at.row + first + step + place;
        const uint32_t meet = lines_that_meet(role.lines, row, p.sums.out[1]);
        if (kHasAll && there >= kStrip && meet == (1u << Lines) - 1)
          add_step<true, true>(from_x, x_line, y, place, meet, there);
        else if (there >= kStrip)
          add_step<false, true>(from_x, x_line, y, place, meet, there);
        else
          add_step<false, false>(from_x, x_line, y, place, meet, there);
        from_x += Step * x_line, from_y += y_row;
      }
  }

 private:
  // Where lines are short, a question for each costs more than code without.
  static constexpr bool kHasAll = Taps == 3;

  template <int Count>
  __device__ static void load_row(const LanePair<T> *from, float2 (&to)[Count]) {
    LanePair<T> pairs[Count];
#pragma unroll
    for (int i = 0; i < Count; ++i) pairs[i] = from[i * 32];
#pragma unroll
    for (int i = 0; i < Count; ++i) to[i] = make_float2(value(pairs[i].first), value(pairs[i].second));
  }

  // A bit for each line of taps that the window has and whose row of dy exists, where `row` is that of line 0.
  __device__ static uint32_t lines_that_meet(int32_t lines, int32_t row, int32_t rows) {
    uint32_t meet = 0;
#pragma unroll
    for (int r = 0; r < Lines; ++r)
      if (r < lines && static_cast<uint32_t>(row - r / Step) < static_cast<uint32_t>(rows)) meet |= 1u << r;
    return meet;
  }

  // `All`: every line of taps meets a row; `Whole`: and each row is four outputs. Outputs that do not exist meet
  // nothing: their inputs may be infinite.
  template <bool All, bool Whole>
  __device__ void add_step(const LanePair<T> *from_x, int32_t x_line, const float2 (&y)[kRows][kStrip], int place,
                           uint32_t meet, int32_t there) {
#pragma unroll
    for (int phase = 0; phase < kPhases; ++phase) {
      float2 x[kInputs];
      load_row(from_x + phase * x_line, x);
#pragma unroll
      for (int r = phase; r < Lines; r += Step)
        if (All || (meet >> r & 1)) multiply<Whole>(r, x, y[(place - r / Step + kRows) % kRows], there);
    }
  }

  template <bool Whole>
  __device__ void multiply(int r, const float2 (&x)[kInputs], const float2 (&y)[kStrip], int32_t there) {
#pragma unroll
    for (int u = 0; u < kStrip; ++u)
      if (Whole || u < there)
#pragma unroll
        for (int tap = 0; tap < Taps; ++tap) {
          float2 &sum = sums[r * Taps + tap];
          const float2 input = x[u * Step + tap];
          sum.x = fmaf(input.x, y[u].x, sum.x), sum.y = fmaf(input.y, y[u].y, sum.y);
        }
  }
};

// ---------------------------------------------------------------- the block

// The block's sums as a piece: groups of lanes of a warp add up first, then the warps of a turn, both in order.
template <class Turn>
__device__ inline void leave_patch_sums(const PatchSums &p, Turn &all, int32_t slice, int32_t split, float2 *values) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, warp = static_cast<int32_t>(threadIdx.x) / 32;
  const LastSums &s = p.sums;
  for (int32_t apart = s.lanes; apart < 32; apart *= 2)
#pragma unroll
    for (int i = 0; i < Turn::kCount; ++i) {
      all.sums[i].x += __shfl_xor_sync(~0u, all.sums[i].x, apart);
      all.sums[i].y += __shfl_xor_sync(~0u, all.sums[i].y, apart);
    }
  __syncthreads(); // nobody reads a stage any more
#pragma unroll
  for (int i = 0; i < Turn::kCount; ++i) values[(warp * Turn::kCount + i) * 32 + lane] = all.sums[i];
  __syncthreads();
  if (lane >= s.lanes) return;
  const int32_t side = p.strips * p.sets;
  for (int32_t i = warp; i < s.turns * Turn::kCount; i += p.warps()) {
    const int32_t turn = i / Turn::kCount, of_turn = i - turn * Turn::kCount;
    const int32_t tap = Turn::tap_of(p, turn, of_turn);
    if (tap < 0) continue;
    float2 sum = {};
    for (int32_t other = 0; other < side; ++other) {
      const float2 one = values[((turn * side + other) * Turn::kCount + of_turn) * 32 + lane];
      sum.x += one.x, sum.y += one.y;
    }
    float *const to =
        s.pieces + (int64_t{split} * s.all_taps() + tap) * s.row_channels() + (slice * s.lanes + lane) * 2;
    *reinterpret_cast<float2 *>(to) = sum;
  }
}

template <class T, int Step>
__device__ inline void fetch_patch(const PatchSums &p, int32_t patch, int32_t slice, unsigned char *to) {
  if (p.loads == PatchLoads::kChunks)
    fetch_patch<T, Step, PatchLoads::kChunks>(p, patch, slice, to);
  else if (p.loads == PatchLoads::kPairs)
    fetch_patch<T, Step, PatchLoads::kPairs>(p, patch, slice, to);
  else
    fetch_patch<T, Step, PatchLoads::kElements>(p, patch, slice, to);
}

template <int Taps>
inline constexpr int kPatchThreads = patch_warps(Taps) * 32; // of a block, at most

template <class T, int Taps, int Step, int Lines>
__global__ void __launch_bounds__(kPatchThreads<Taps>, 1) sum_depthwise_patches(const __grid_constant__ PatchSums p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const auto slice = static_cast<int32_t>(blockIdx.x), split = static_cast<int32_t>(blockIdx.y);
  const int32_t first = split * p.each, last = min(first + p.each, p.patches);
  const int32_t stage_bytes = p.pixels() * kPixelBytes<T>;
  PatchTurn<T, Taps, Step, Lines> turn;
  ptx::let_next_begin(), ptx::await_previous();
#pragma unroll 1
  for (int32_t patch = first - 1; patch < last; ++patch) {
    await_copies();
    __syncthreads(); // the patch is there, and nobody reads the other stage any more
    if (patch + 1 < last) fetch_patch<T, Step>(p, patch + 1, slice, shared + ((patch + 1 - first) & 1) * stage_bytes);
    if (patch >= first) turn.add(p, patch, shared + ((patch - first) & 1) * stage_bytes);
  }
  leave_patch_sums(p, turn, slice, split, reinterpret_cast<float2 *>(shared));
}

// ---------------------------------------------------------------- launch

template <class T, int Taps, int Step, int Lines>
PatchLauncher launcher_of_patches() {
  const auto prepare = [] { allow_shared(sum_depthwise_patches<T, Taps, Step, Lines>, kHopperShared); };
  const auto launch = [](const PatchSums &p, int shared_bytes, cudaStream_t stream) {
    launch_early_if(p.sums.early, sum_depthwise_patches<T, Taps, Step, Lines>,
                    dim3(static_cast<unsigned>(p.sums.slices), static_cast<unsigned>(p.sums.splits)), p.warps() * 32,
                    shared_bytes, stream, p);
    const int32_t pairs = p.sums.all_taps() * p.sums.row_channels() / 2;
    launch_early_if(p.sums.early, add_depthwise_splits, static_cast<unsigned>((pairs + 31) / 32), kLastThreads, 0,
                    stream, p.sums);
  };
  return {prepare, launch};
}

// In the order of kPatchColumns.
template <class T, size_t... I>
PatchLauncher patch_launcher(int columns, std::index_sequence<I...>) {
  static const PatchLauncher kLaunchers[] = {
      launcher_of_patches<T, kPatchColumns[I].taps, kPatchColumns[I].stride, kPatchColumns[I].lines>()...};
  return kLaunchers[columns];
}
template <class T>
PatchLauncher patch_launcher(int columns) {
  return patch_launcher<T>(columns, std::make_index_sequence<kPatchColumnsCount>());
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(T) template shared::PatchLauncher shared::patch_launcher<T>(int);
