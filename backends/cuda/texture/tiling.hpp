// tiling.hpp - how cuda-texture cuts a layer into blocks of threads and threads into patches of outputs.
//
// A thread computes a patch of `down` x `across` outputs of a filter. A block is cols x rows such patches of one image,
// or of several where an image is smaller than the block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

#include "common/numbers.hpp"

namespace polyconv::cuda::texture {

struct Patch {
  int32_t down, across; // down at most
};

inline constexpr int64_t kMostShared = 48 << 10; // bytes, what fits without asking the driver

struct Tiling {
  int32_t cols, rows, images; // threads of a block: side by side, below each other, in images
  int32_t tiles_w, tiles_h;   // of an image
  int32_t down;               // rows of outputs of a thread
  int32_t out_rows, out_cols; // of a block and image
  int32_t in_rows, in_cols;   // of the input that these read
  int64_t blocks;

  int threads() const { return (cols * rows * images + 31) / 32 * 32; }
};

// One axis of a tile: as few tiles of at most `most` threads as hold the outputs, of even size and of whole patches, so
// that rows stay aligned.
struct Axis {
  int64_t threads, tiles;
};
inline Axis cut(const polyconv_layer &l, int axis, int64_t patch, int64_t most) {
  const int64_t patches = ceil_div(std::max<int64_t>(l.output.size[2 + axis], 1), patch);
  const int64_t each = ceil_div(patches, ceil_div(patches, most));
  return {each, ceil_div(patches, each)};
}

// Rows of a thread: at most `down`, and as many in each stripe of an image.
inline int64_t even_rows(const polyconv_layer &l, int64_t down) {
  const int64_t rows = std::max<int64_t>(l.output.size[3], 1);
  return ceil_div(rows, ceil_div(rows, down));
}

// Cuts into blocks at most `width` threads wide. False where the index maps do not fit.
inline bool choose_tiling(const polyconv_layer &l, const Patch &patch, int32_t width, int32_t threads, bool one_image,
                          Tiling &t) {
  const int64_t down = even_rows(l, patch.down);
  const Axis x = cut(l, 2, patch.across, width), y = cut(l, 1, down, threads / x.threads);
  const int64_t out_rows = y.threads * down, out_cols = x.threads * patch.across;
  const int64_t in_rows = (out_rows - 1) * l.stride[1] + (l.weights.size[3] - 1) * l.dilation[1] + 1;
  const int64_t in_cols = (out_cols - 1) * l.stride[2] + (l.weights.size[4] - 1) * l.dilation[2] + 1;
  if (4 * (in_rows + in_cols) > kMostShared) return false;
  const bool whole = x.tiles == 1 && y.tiles == 1 && !one_image;
  const int64_t fit = threads / (x.threads * y.threads);
  t.cols = small(x.threads), t.rows = small(y.threads);
  t.images = small(whole ? std::min(fit, std::max<int64_t>(l.output.size[0], 1)) : 1);
  t.tiles_h = small(y.tiles), t.tiles_w = small(x.tiles);
  t.down = small(down);
  t.out_rows = small(out_rows), t.out_cols = small(out_cols);
  t.in_rows = small(in_rows), t.in_cols = small(in_cols);
  t.blocks = ceil_div(l.output.size[0], t.images) * l.output.size[1] * t.tiles_h * t.tiles_w;
  return true;
}

// Shared memory in floats: a filter's weights, and the index maps.
inline int64_t shared_floats(const polyconv_layer &l, const Tiling &t) {
  return l.weights.size[1] * sdk::taps(l) + t.in_rows + t.in_cols;
}

// The tiling that fits into shared memory: threads take fewer rows until it does. False where none fits.
inline bool fit_tiling(const polyconv_layer &l, Patch patch, int32_t width, int32_t threads, bool one_image,
                       Tiling &t) {
  for (; patch.down > 0; patch.down /= 2)
    if (choose_tiling(l, patch, width, threads, one_image, t) && 4 * shared_floats(l, t) <= kMostShared) return true;
  return false;
}

} // namespace polyconv::cuda::texture
