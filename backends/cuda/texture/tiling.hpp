// tiling.hpp - how cuda-texture cuts a layer into blocks of threads and threads into patches of outputs.
//
// A thread computes a patch of `down` x `across` outputs for `filters` filters. A block is cols x rows such patches of
// one image, or of several where an image is smaller than the block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

#include "common/numbers.hpp"

namespace polyconv::cuda::texture {

struct Patch {
  int32_t down, across, filters; // down at most
};

// What a block holds in shared memory beside the sums to pool, and what fits without asking the driver.
inline constexpr int64_t kMostShared = 48 << 10; // bytes

struct Tiling {
  int32_t cols, rows, images;       // threads of a block: side by side, below each other, in images
  int32_t result_rows, result_cols; // of a block, after pooling
  int32_t tiles_w, tiles_h;         // of an image
  int32_t row_step, col_step;       // outputs from tile to tile, before pooling
  int32_t first_row, first_col;     // output at which tile 0 begins, perhaps in the pooling's padding
  int32_t down;                     // rows of outputs of a thread
  int32_t out_rows, out_cols;       // of a block and image, before pooling
  int32_t in_rows, in_cols;         // of the input that these read
  int32_t chunks;                   // of filters in a group, each `filters` of a patch
  int64_t blocks;

  int threads() const { return (cols * rows * images + 31) / 32 * 32; }
};

// One axis of a tile before and after pooling.
struct Axis {
  int64_t threads, results, tiles, step, first;
};

// Where a layer's results leave: from registers, whole patches at a time, or from shared memory, where they are pooled.
enum class Leave { kRegisters, kShared };

// As few tiles of at most `most` threads as hold the results, of even size; threads == 0 where the window does not fit.
// What is pooled in registers is cut as what is not pooled.
inline Axis cut(const polyconv_layer &l, int axis, int64_t patch, int64_t most, Leave leave) {
  const polyconv_pool &pool = l.epilogue.pool;
  const bool pooled = sdk::has_pooling(l), gathered = pooled && leave == Leave::kShared;
  const int64_t window = gathered ? pool.window[axis] : 1, stride = gathered ? pool.stride[axis] : 1;
  const int64_t each = pooled && !gathered ? pool.window[axis] : 1; // outputs that a result takes with it
  const int64_t results = std::max<int64_t>(l.result.size[2 + axis], 1) * each, outputs = most * patch;
  Axis a = {};
  if (outputs < window) return a;
  const int64_t fit = (outputs - window) / stride + 1;
  a.tiles = (results + fit - 1) / fit;
  a.results = (results + a.tiles - 1) / a.tiles;
  if (!gathered) a.results = (a.results + patch - 1) / patch * patch; // whole patches, so that rows stay aligned
  a.tiles = (results + a.results - 1) / a.results;
  a.threads = ((a.results - 1) * stride + window + patch - 1) / patch;
  a.step = a.results * stride;
  a.first = gathered ? -pool.pad_begin[axis] : 0;
  return a;
}

// Rows of a thread: at most `down`, and as many in each stripe of an image; whole windows where they are pooled.
inline int64_t even_rows(const polyconv_layer &l, int64_t down, Leave leave) {
  if (sdk::has_pooling(l) && leave == Leave::kShared) return down;
  const int64_t each = sdk::has_pooling(l) ? l.epilogue.pool.window[1] : 1;
  const int64_t rows = std::max<int64_t>(l.result.size[3], 1) * each, stripes = (rows + down - 1) / down;
  return ((rows + stripes - 1) / stripes + each - 1) / each * each;
}

// Cuts into blocks at most `width` threads wide. False where a pooling window or the index maps do not fit.
inline bool choose_tiling(const polyconv_layer &l, const Patch &patch, int32_t width, int32_t threads, bool one_image,
                          Leave leave, Tiling &t) {
  const int64_t down = even_rows(l, patch.down, leave);
  const Axis x = cut(l, 2, patch.across, width, leave);
  if (x.threads == 0) return false;
  const Axis y = cut(l, 1, down, threads / x.threads, leave);
  if (y.threads == 0) return false;
  const int64_t out_rows = y.threads * down, out_cols = x.threads * patch.across;
  const int64_t in_rows = (out_rows - 1) * l.stride[1] + (l.weights.size[3] - 1) * l.dilation[1] + 1;
  const int64_t in_cols = (out_cols - 1) * l.stride[2] + (l.weights.size[4] - 1) * l.dilation[2] + 1;
  if (4 * (in_rows + in_cols) > kMostShared) return false;
  const bool whole = x.tiles == 1 && y.tiles == 1 && !one_image;
  const int64_t fit = threads / (x.threads * y.threads);
  t.cols = small(x.threads), t.rows = small(y.threads);
  t.images = small(whole ? std::min(fit, std::max<int64_t>(l.result.size[0], 1)) : 1);
  t.result_rows = small(y.results), t.result_cols = small(x.results);
  t.tiles_h = small(y.tiles), t.tiles_w = small(x.tiles);
  t.row_step = small(y.step), t.col_step = small(x.step);
  t.first_row = small(y.first), t.first_col = small(x.first);
  t.down = small(down);
  t.out_rows = small(out_rows), t.out_cols = small(out_cols);
  t.in_rows = small(in_rows), t.in_cols = small(in_cols);
  t.chunks = small((l.weights.size[0] / l.groups + patch.filters - 1) / patch.filters);
  const int64_t image_blocks = (l.result.size[0] + t.images - 1) / t.images;
  t.blocks = image_blocks * l.groups * t.chunks * t.tiles_h * t.tiles_w;
  return true;
}

// Shared memory in floats: the chunk's weights, the index maps, and the sums on their way to the epilogue where they do
// not leave from registers.
inline int64_t sums_offset(const polyconv_layer &l, const Patch &patch, const Tiling &t) {
  return l.weights.size[1] * sdk::taps(l) * patch.filters + t.in_rows + t.in_cols;
}
inline int64_t shared_floats(const polyconv_layer &l, const Patch &patch, const Tiling &t, Leave leave) {
  return sums_offset(l, patch, t) +
         (leave == Leave::kRegisters ? 0 : int64_t{patch.filters} * t.images * t.out_rows * t.out_cols);
}

// The tiling that fits into shared memory: threads take fewer rows until it does. False where none fits.
inline bool fit_tiling(const polyconv_layer &l, Patch patch, int32_t width, int32_t threads, bool one_image,
                       Leave leave, Tiling &t) {
  for (; patch.down > 0; patch.down /= 2)
    if (choose_tiling(l, patch, width, threads, one_image, leave, t) &&
        4 * shared_floats(l, patch, t, leave) <= kMostShared)
      return true;
  return false;
}

} // namespace polyconv::cuda::texture
