// tiling.hpp - how cuda-constant cuts a layer into blocks: which columns, rows and images a block computes, chosen for
// the fewest idle lanes and the least input staged twice.
//
// A thread computes P outputs one below the other in one column, for every channel of the launch. A block is `cols`
// columns by `groups` such stripes by `images`; lanes go on from column to stripe to image without a gap.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cuda::constant {

inline constexpr int kMaxThreads = 256;
inline constexpr int64_t kMostShared = 48 << 10; // bytes a block

struct Tiling {
  int32_t cols, groups, images;     // of a block, before pooling
  int32_t result_rows, result_cols; // of a block, after pooling
  int32_t tiles_w, tiles_h;         // of an image
  int32_t first_row, first_col;     // output at which tile 0 begins, perhaps in the pooling's padding
  int32_t row_step, col_step;       // from tile to tile
  int32_t in_rows, in_cols, pitch;  // what a block stages of one channel and image
  int64_t blocks;

  int threads() const { return (cols * groups * images + 31) / 32 * 32; }
  int64_t shared_bytes() const { return int64_t{images} * in_rows * pitch * 4; }
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

// Fills the rest from cols, groups, images and result_cols; false where such a block does not fit.
inline bool complete(const polyconv_layer &l, int rows_a_thread, Tiling &t) {
  const Window down = window(l, 1), across = window(l, 2);
  const int64_t rows = int64_t{t.groups} * rows_a_thread;
  if (rows < down.size) return false;
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  t.result_rows = narrow(std::min((rows - down.size) / down.stride + 1, l.result.size[3]));
  t.tiles_h = narrow((l.result.size[3] + t.result_rows - 1) / t.result_rows);
  t.tiles_w = narrow((l.result.size[4] + t.result_cols - 1) / t.result_cols);
  t.first_row = narrow(-down.pad), t.first_col = narrow(-across.pad);
  t.row_step = narrow(t.result_rows * down.stride), t.col_step = narrow(t.result_cols * across.stride);
  const int64_t in_rows = (rows - 1) * l.stride[1] + (l.weights.size[3] - 1) * l.dilation[1] + 1;
  const int64_t in_cols = (t.cols - 1) * l.stride[2] + (l.weights.size[4] - 1) * l.dilation[2] + 1;
  // Lanes that go on in the next stripe should meet the banks after those of the first.
  int64_t pitch = in_cols;
  const int64_t step = rows_a_thread * l.stride[1];
  for (int64_t more = 0; more < 32; ++more)
    if (((pitch + more) * step - t.cols * l.stride[2]) % 32 == 0) {
      pitch += more;
      break;
    }
  if (t.images * in_rows * pitch * 4 > kMostShared) return false;
  t.in_rows = narrow(in_rows), t.in_cols = narrow(in_cols), t.pitch = narrow(pitch);
  const int64_t image_blocks = (l.result.size[0] + t.images - 1) / t.images;
  t.blocks = image_blocks * t.tiles_h * t.tiles_w;
  return true;
}

// Lane steps of the whole layer: products, and staging at what an element of it costs.
inline double cost(const polyconv_layer &l, int rows_a_thread, int filters, const Tiling &t) {
  const double products =
      static_cast<double>(t.threads()) * rows_a_thread * filters * static_cast<double>(sdk::taps(l));
  const double staged = 10.0 * static_cast<double>(t.images) * t.in_rows * ((t.in_cols + 31) / 32 * 32);
  return static_cast<double>(t.blocks) * (products + staged);
}

// The best tiling of at most `threads`; false where none fits into shared memory.
inline bool choose_tiling(const polyconv_layer &l, int rows_a_thread, int threads, int filters, Tiling &best) {
  const Window down = window(l, 1), across = window(l, 2);
  const int64_t most = (threads - across.size) / across.stride + 1; // results side by side
  if (threads < across.size) return false;
  const int64_t width = std::max<int64_t>(l.result.size[4], 1), height = std::max<int64_t>(l.result.size[3], 1);
  const int64_t fewest = (width + most - 1) / most;
  const int64_t needed_rows = (height - 1) * down.stride + down.size;
  bool found = false;
  double best_cost = 0;
  for (int attempt = 0; attempt < 12; ++attempt) {
    const int64_t parts = attempt < 4 ? fewest + attempt : fewest << (attempt - 2);
    if (parts > width) break;
    Tiling t = {};
    t.result_cols = static_cast<int32_t>((width + parts - 1) / parts);
    t.cols = static_cast<int32_t>((t.result_cols - 1) * across.stride + across.size);
    for (t.groups = 1; t.groups * t.cols <= threads; ++t.groups) {
      const bool whole = parts == 1 && int64_t{t.groups} * rows_a_thread >= needed_rows;
      for (t.images = 1; t.images * t.groups * t.cols <= threads; ++t.images) {
        if (!complete(l, rows_a_thread, t)) break;
        const double c = cost(l, rows_a_thread, filters, t);
        if (!found || c < best_cost) found = true, best_cost = c, best = t;
        if (!whole) break; // several images only where each is whole
      }
      if (whole) break;
    }
  }
  return found;
}

} // namespace polyconv::cuda::constant
