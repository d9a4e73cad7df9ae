// tiling.hpp - how cuda-constant cuts a layer into blocks and filters into passes; chosen for the fewest instructions.
//
// A thread computes a stripe: P outputs one below the other in one column, for K filters. A block is `cols` columns by
// `stripes` by `images`; lanes go on from column to stripe to image without a gap. The staged tile lies column by
// column, the rows of a column next to each other, so that a thread loads its rows as vectors. Rows and columns of
// equal phase, the rest after division by the stride, lie together: then neighbouring outputs read neighbours at any
// stride. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cuda::constant {

inline constexpr int kMostThreads = 512;
inline constexpr int64_t kMostShared = 48 << 10; // bytes a block: what every GPU gives without being asked
inline constexpr int kMostPasses = 32;

// How the taps of a filter's column are summed: in passes, each over at most `taps` rows of one phase.
struct Passes {
  int32_t taps, count, step;                     // step: from tap to tap of a pass
  int32_t first[kMostPasses], rows[kMostPasses]; // the first tap of a pass, how many it has
  int32_t offset[kMostPasses];                   // where in a staged column it begins
};

struct Tiling {
  int32_t cols, stripes, images;        // of a block, before pooling
  int32_t result_rows, result_cols;     // of a block, after pooling
  int32_t tiles_w, tiles_h;             // of an image
  int32_t first_row, first_col;         // output at which tile 0 begins, perhaps in the pooling's padding
  int32_t row_step, col_step;           // from tile to tile
  int32_t per_cols, per_stripes;        // 2^20 / cols and 2^20 / stripes, rounded up: to divide a thread's number
  int32_t row_phases, col_phases;       // that taps read
  int32_t rows, phase_rows, phase_cols; // staged of each phase; phase_rows leaves room for whole vectors
  int32_t pitch, image_pitch, channel_pitch, slot; // from column to column, image to image, ... in the tile
  int32_t channels, slots;                         // staged at once; 2 slots: the next channels arrive during these
  int32_t lanes_shift;                             // staging gives 2^lanes_shift lanes to a row
  int64_t blocks;

  int threads() const { return (cols * stripes * images + 31) / 32 * 32; }
};

// One axis of the pooling; a window of one where there is none.
struct Window {
  int64_t size, stride, pad;
};
inline Window window(const polyconv_layer &l, int axis) {
  const polyconv_pool &pool = l.epilogue.pool;
  if (pool.kind == POLYCONV_POOL_NONE) return {1, 1, 0};
  return {pool.window[axis], pool.stride[axis], pool.pad_begin[axis]};
}

// Rows that a thread's vector load takes. Single taps may begin anywhere.
constexpr int vector_rows(int taps, int rows) {
  return taps == 1 ? 1 : rows % 4 == 0 ? 4 : rows % 2 == 0 ? 2 : 1;
}

// The taps that a pass unrolls: the whole column at stride 1, or up to 4 of a phase, or single taps where a dilation
// scatters them.
inline int taps_of(const polyconv_layer &l) {
  const int64_t taps = l.weights.size[3], stride = l.stride[1], dilation = l.dilation[1];
  const bool dense = stride == 1 && dilation == 1 && l.stride[2] == 1 && l.dilation[2] == 1;
  if (dense && (taps == 3 || taps == 5 || taps == 7)) return static_cast<int>(taps);
  return stride % dilation == 0 && taps > stride / dilation ? 4 : 1;
}

// The passes over a column of the filter whose phases lie phase_rows apart; false where there are too many.
inline bool make_passes(const polyconv_layer &l, int taps, int64_t phase_rows, Passes &passes) {
  const int64_t all = l.weights.size[3], stride = l.stride[1], dilation = l.dilation[1];
  const int64_t step = stride % dilation == 0 ? stride / dilation : all; // from tap to tap of a phase
  passes = {};
  passes.taps = taps, passes.step = static_cast<int32_t>(step);
  for (int64_t first = 0; first < std::min(step, all); ++first)
    for (int64_t tap = first; tap < all; tap += taps * step) {
      if (passes.count == kMostPasses) return false;
      const int64_t row = tap * dilation, i = passes.count++;
      passes.first[i] = static_cast<int32_t>(tap);
      passes.rows[i] = static_cast<int32_t>(std::min<int64_t>(taps, (all - tap + step - 1) / step));
      passes.offset[i] = static_cast<int32_t>(row % stride * phase_rows + row / stride);
    }
  return true;
}

// What a block of `cols` columns, `stripes` and `images` needs; false where it does not fit.
inline bool complete(const polyconv_layer &l, int rows_a_thread, Tiling &t) {
  const Window down = window(l, 1), across = window(l, 2);
  const int64_t rows = int64_t{t.stripes} * rows_a_thread;
  if (rows < down.size) return false;
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  t.result_rows = narrow(std::min((rows - down.size) / down.stride + 1, l.result.size[3]));
  t.tiles_h = narrow((l.result.size[3] + t.result_rows - 1) / t.result_rows);
  t.tiles_w = narrow((l.result.size[4] + t.result_cols - 1) / t.result_cols);
  t.first_row = narrow(-down.pad), t.first_col = narrow(-across.pad);
  t.row_step = narrow(t.result_rows * down.stride), t.col_step = narrow(t.result_cols * across.stride);
  t.per_cols = ((1 << 20) + t.cols - 1) / t.cols, t.per_stripes = ((1 << 20) + t.stripes - 1) / t.stripes;

  const int taps = taps_of(l);
  const int64_t vector = vector_rows(taps, rows_a_thread), stride = l.stride[1];
  const int64_t below = (l.weights.size[3] - 1) * l.dilation[1], beside = (l.weights.size[4] - 1) * l.dilation[2];
  const auto up = [](int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; };
  const int64_t step = std::max<int64_t>(stride / l.dilation[1], 1);
  const int64_t last_begin = taps == 1 ? below / stride : (l.weights.size[3] - 1) / step / taps * taps; // of a pass
  const int64_t loaded = rows - rows_a_thread + last_begin + up(rows_a_thread + taps - 1, vector);
  const int64_t phase_rows = up(std::max(rows + below / stride, loaded), vector);
  t.rows = narrow(rows + below / stride), t.phase_rows = narrow(phase_rows);
  t.row_phases = narrow(std::min(stride, below + 1)), t.col_phases = narrow(std::min(l.stride[2], beside + 1));
  t.phase_cols = narrow(t.cols + beside / l.stride[2]);
  int64_t pitch = t.row_phases * phase_rows;
  while (pitch / vector % 2 == 0) pitch += vector; // lanes side by side then meet all banks
  const int64_t image = t.col_phases * t.phase_cols * pitch, channel = image * t.images;
  const int64_t all = l.weights.size[1], most = kMostShared / 4;
  if (channel > most) return false;
  t.slots = channel * all <= most || channel * 2 > most ? 1 : 2;
  t.channels = narrow(std::min(all, most / t.slots / channel));
  t.pitch = narrow(pitch), t.image_pitch = narrow(image), t.channel_pitch = narrow(channel);
  t.slot = narrow(channel * t.channels);
  t.lanes_shift = t.phase_cols > 16 ? 4 : 3;
  const int64_t image_blocks = (l.result.size[0] + t.images - 1) / t.images;
  t.blocks = image_blocks * t.tiles_h * t.tiles_w;
  return true;
}

// What a thread computes, and the most threads that its registers leave to a block.
struct Shape {
  int filters, rows;
};
constexpr Shape kShapes[] = {{1, 8}, {4, 4}, {4, 8}, {4, 16}, {8, 4}, {8, 8}, {8, 12}, {12, 7}, {16, 4}};
constexpr int kShapeCount = sizeof kShapes / sizeof kShapes[0];

// Registers of a thread: the sums, a column of the input, and what indices take, or an epilogue that is not plain.
constexpr int registers(int taps, const Shape &shape, bool plain) {
  const int all = shape.filters * shape.rows + shape.rows + taps - 1 + (plain ? 32 : 96);
  return all > 248 ? 248 : (all + 7) / 8 * 8;
}

// A quarter of a multiprocessor has 16,384 registers, and each of its warps takes 32 times those of a thread.
constexpr int most_threads(int registers) {
  return 512 / registers * 128;
}

// Shared memory of a block: the staged tile, or the sums of a filter where they do not go straight from registers.
inline int64_t shared_bytes(const Shape &shape, const Tiling &t) {
  const int64_t sums = int64_t{t.images} * t.stripes * shape.rows * t.cols;
  return 4 * std::max(int64_t{t.slots} * t.slot, sums);
}

// Issue slots of a multiprocessor's quarter, for one group of filters in the whole layer; staging is shared out evenly.
inline double cost(const polyconv_layer &l, const Shape &shape, const Passes &passes, int64_t groups, const Tiling &t) {
  const double warps = t.threads() / 32, taps = passes.taps, sums = shape.filters * shape.rows;
  const double columns = static_cast<double>(l.weights.size[1] * l.weights.size[4] * passes.count);
  const double pass = sums * taps + taps * shape.filters / 2 + (shape.rows + taps) / 4 + 10;
  const double staged = static_cast<double>(l.weights.size[1]) * t.images * t.row_phases * t.col_phases * t.rows *
                        ((t.phase_cols + 15) / 16 * 16) / 32 * 8;
  const double restaged = l.weights.size[1] > t.channels ? static_cast<double>(groups) : 1.0;
  return static_cast<double>(t.blocks) *
         (warps * (static_cast<double>(groups) * (columns * pass + 3 * sums + 20) + 150) + restaged * staged);
}

// The best tiling for a shape; false where none fits into shared memory.
inline bool choose_tiling(const polyconv_layer &l, const Shape &shape, int64_t groups, bool plain, Tiling &best) {
  const Window down = window(l, 1), across = window(l, 2);
  const int taps = taps_of(l);
  const int threads = std::min(kMostThreads, most_threads(registers(taps, shape, plain)));
  const int64_t most = (threads - across.size) / across.stride + 1; // results side by side
  if (threads < across.size) return false;
  const int64_t width = std::max<int64_t>(l.result.size[4], 1), height = std::max<int64_t>(l.result.size[3], 1);
  const int64_t fewest = (width + most - 1) / most;
  const int64_t needed_rows = (height - 1) * down.stride + down.size;
  bool found = false;
  double best_cost = 0;
  Passes passes;
  if (!make_passes(l, taps, 0, passes)) return false;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const int64_t parts = attempt < 4 ? fewest + attempt : fewest << (attempt - 2);
    if (parts > width) break;
    Tiling t = {};
    t.result_cols = static_cast<int32_t>((width + parts - 1) / parts);
    t.cols = static_cast<int32_t>((t.result_cols - 1) * across.stride + across.size);
    for (t.stripes = 1; t.stripes * t.cols <= threads; ++t.stripes) {
      const bool whole = parts == 1 && int64_t{t.stripes} * shape.rows >= needed_rows;
      for (t.images = 1; t.images * t.stripes * t.cols <= threads; ++t.images) {
        if (!complete(l, shape.rows, t)) break;
        const double c = cost(l, shape, passes, groups, t);
        if (!found || c < best_cost) found = true, best_cost = c, best = t;
        if (!whole) break; // several images only where each is whole
      }
      if (whole) break;
    }
  }
  return found;
}

} // namespace polyconv::cuda::constant
