// tiling.hpp - how cuda-constant cuts a layer into tiles and filters into passes.
//
// A thread computes a stripe: P outputs one below the other in one column, for K filters. A tile is `cols` columns by
// `stripes` by `images`; lanes go on from column to stripe to image without a gap. It is staged column by column, the
// rows of a column next to each other, so that a thread loads its rows as vectors. Rows and columns of equal phase, the
// rest after division by the stride, lie together: then neighbouring outputs read neighbours at any stride.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/pooling.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

#include "common/divider.cuh"
#include "common/numbers.hpp"

namespace polyconv::cuda::constant {

inline constexpr int kMostThreads = 512;
// Bytes of shared memory a block: what every GPU gives without being asked, and what is asked for where there is more.
inline constexpr int64_t kSureShared = 48 << 10, kMostShared = 96 << 10;
inline constexpr int kMostPasses = 32;

// How the taps of a filter's column are summed: in passes, each over at most `taps` rows of one phase.
struct Passes {
  int32_t taps, count, step;                     // step: from tap to tap of a pass
  int32_t first[kMostPasses], rows[kMostPasses]; // the first tap of a pass, how many it has
  int32_t offset[kMostPasses];                   // where in a staged column it begins
};

struct Tiling {
  int32_t cols, stripes, images;               // of a block, before pooling
  int32_t result_rows, result_cols;            // of a block, after pooling
  int32_t tiles_w, tiles_h;                    // of an image
  int32_t first_row, first_col;                // output at which tile 0 begins, perhaps in the pooling's padding
  int32_t row_step, col_step;                  // from tile to tile
  Quotient by_cols, by_stripes;                // of a thread's number
  int32_t row_phases, col_phases;              // that taps read
  int32_t below, beside;                       // what an output's last tap is below and beside it, in its phase
  int32_t rows, phase_rows, phase_cols;        // staged of each phase; phase_rows leaves room for whole vectors
  int32_t quads;                               // fours of rows
  Quotient by_quads, by_phase_cols, by_images; // of what stage_in_turns stages, in fours of rows
  int32_t pitch, image_pitch, channel_pitch;   // from column to column, image to image, ... in the tile
  int32_t channels;                            // staged at once
  int32_t in_turns;                            // stage_in_turns is the faster way to stage
  int64_t blocks;

  int threads() const { return (cols * stripes * images + 31) / 32 * 32; }
};

// What a launch is told besides the layer.
struct Launch {
  Tiling tile;
  Passes passes;
  int32_t first_filter, filters; // of this launch
  int32_t groups;                // of K filters, one after the other
  int32_t input_type;
};

// Rows that a thread's vector load takes. Single taps may begin anywhere.
constexpr int vector_rows(int taps, int rows) {
  return taps == 1 ? 1 : rows % 4 == 0 ? 4 : rows % 2 == 0 ? 2 : 1;
}

// The taps that a pass unrolls: the whole column of a square filter at stride 1, or up to 4 of a phase, or single taps
// where a dilation scatters them.
inline int taps_of(const polyconv_layer &l) {
  const int64_t taps = l.weights.size[3], stride = l.stride[1], dilation = l.dilation[1];
  const bool dense =
      stride == 1 && dilation == 1 && l.stride[2] == 1 && l.dilation[2] == 1 && taps == l.weights.size[4];
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
inline bool complete(const polyconv_layer &l, int rows_a_thread, int64_t shared, Tiling &t) {
  const sdk::PoolWindow down = sdk::pool_window(l, 1), across = sdk::pool_window(l, 2);
  const int64_t rows = int64_t{t.stripes} * rows_a_thread;
  if (rows < down.size) return false;
  t.result_rows = small(std::min((rows - down.size) / down.stride + 1, l.result.size[3]));
  t.tiles_h = small((l.result.size[3] + t.result_rows - 1) / t.result_rows);
  t.tiles_w = small((l.result.size[4] + t.result_cols - 1) / t.result_cols);
  t.first_row = small(-down.pad), t.first_col = small(-across.pad);
  t.row_step = small(t.result_rows * down.stride), t.col_step = small(t.result_cols * across.stride);
  t.by_cols = Quotient(t.cols), t.by_stripes = Quotient(t.stripes), t.by_images = Quotient(t.images);

  const int taps = taps_of(l);
  const int64_t vector = vector_rows(taps, rows_a_thread), stride = l.stride[1];
  const int64_t below = (l.weights.size[3] - 1) * l.dilation[1], beside = (l.weights.size[4] - 1) * l.dilation[2];
  const auto up = [](int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; };
  const int64_t step = std::max<int64_t>(stride / l.dilation[1], 1);
  const int64_t last_begin = taps == 1 ? below / stride : (l.weights.size[3] - 1) / step / taps * taps; // of a pass
  const int64_t loaded = rows - rows_a_thread + last_begin + up(rows_a_thread + taps - 1, vector);
  t.below = small(below / stride), t.beside = small(beside / l.stride[2]);
  t.rows = small(rows + t.below);
  const int64_t phase_rows = up(std::max(up(t.rows, 4), loaded), vector);
  t.phase_rows = small(phase_rows), t.quads = (t.rows + 3) / 4, t.by_quads = Quotient(t.quads);
  t.row_phases = small(std::min(stride, below + 1)), t.col_phases = small(std::min(l.stride[2], beside + 1));
  t.phase_cols = t.cols + t.beside, t.by_phase_cols = Quotient(t.phase_cols);
  int64_t pitch = t.row_phases * phase_rows;
  while (pitch / vector % 2 == 0) pitch += vector; // lanes side by side then meet all banks
  const int64_t image = t.col_phases * t.phase_cols * pitch, channel = image * t.images;
  const int64_t all = l.weights.size[1], most = shared / 4;
  if (channel > most) return false;
  t.channels = small(std::min(all, most / channel));
  t.pitch = small(pitch), t.image_pitch = small(image), t.channel_pitch = small(channel);
  const int64_t image_blocks = (l.result.size[0] + t.images - 1) / t.images;
  t.blocks = image_blocks * t.tiles_h * t.tiles_w;
  return true;
}

// What a thread computes, and the most threads that its registers leave to a block.
struct Shape {
  int filters, rows;
};
constexpr Shape kShapes[] = {{1, 8}, {2, 12}, {2, 20}, {4, 8}, {4, 12}, {5, 8}, {8, 9}, {12, 4}};
constexpr int kShapeCount = sizeof kShapes / sizeof kShapes[0];

// Registers of a thread: the sums, a column of the input, and what indices take, or an epilogue that is not plain;
// rounded up to what the same number of warps may have.
constexpr int registers(int taps, const Shape &shape, bool plain) {
  const int needed =
      shape.filters * shape.rows + (plain ? std::max(shape.rows + taps + 21, 40) : shape.rows + taps + 95);
  return needed > 168                             ? 248
         : 512 / (512 / needed) / 8 * 8 >= needed ? 512 / (512 / needed) / 8 * 8
                                                  : 512 / (512 / needed - 1) / 8 * 8;
}

// A quarter of a multiprocessor has 16,384 registers, and each of its warps takes 32 times those of a thread.
constexpr int most_threads(int registers) {
  return 512 / registers * 128;
}

// Shared memory of a block: the staged tile, or the sums of a filter where they do not go straight from registers.
inline int64_t shared_bytes(const Shape &shape, const Tiling &t) {
  const int64_t sums = int64_t{t.images} * t.stripes * shape.rows * t.cols;
  return 4 * std::max(int64_t{t.channels} * t.channel_pitch, sums);
}

// More code of a column's passes than this misses the instruction cache; a loop, in its place, costs a little.
constexpr bool unrolls(int taps, const Shape &shape) {
  return taps != 1 && taps != 4 && taps * taps * shape.filters * shape.rows * 16 <= 8 << 10;
}

// Weights of a pass, rounded up to whole pairs.
constexpr int row_of_weights(int taps, int filters) {
  return (taps * filters + 1) / 2 * 2;
}

// How the filters are split: groups of shape.filters, one after the other in a launch, and launches.
struct Split {
  int32_t groups, launches;
  int32_t row, weights; // of a pass and of a launch
};

} // namespace polyconv::cuda::constant
