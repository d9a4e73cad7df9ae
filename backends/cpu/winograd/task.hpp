// task.hpp - one task of Winograd's convolution: for each block of tiles the inputs' transforms, the products, and the
// way back to results. Tiles that lie side by side in a row of an image are a run, whose inputs are brought into a
// patch in the first cache, a vector of channels at a time, padding filled in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/common/transpose.hpp"
#include "cpu/dense/tile.hpp"
#include "cpu/winograd/plan.hpp"
#include "cpu/winograd/transform.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Tiles [column, column + count) of a row of tiles; `tile` is the first one's place in its block.
struct WinogradTiles {
  int64_t image, row, column, count, tile;
};

// The run that begins at tile `tile` of the batch, and ends before tile `end`.
POLYCONV_INLINE WinogradTiles next_run(const WinogradPlan &p, int64_t tile, int64_t end) {
  const int64_t row = tile / p.tile_columns, column = tile % p.tile_columns, rest = p.tile_columns - column;
  return {row / p.tile_rows, row % p.tile_rows, column, end - tile < rest ? end - tile : rest, 0};
}

// One pixel of up to a vector of channels, zero beyond them.
POLYCONV_INLINE F32 load_channels(const WinogradPlan &p, const float *pixel, int count) {
  if (p.inputs_along) return count == kF32Lanes ? load(pixel) : load_partial(pixel, count);
  float lanes[kF32Lanes] = {};
  for (int i = 0; i < count; ++i) lanes[i] = pixel[i * p.input.stride[1]];
  return load(lanes);
}

// Columns [0, n) from `line` on, which all lie inside the image.
POLYCONV_INLINE void fill_inside(const WinogradPlan &p, const float *line, int64_t n, int count, float *out) {
  constexpr int kL = kF32Lanes;
  const int64_t stride = p.input.stride[4];
  int64_t x = 0;
  if (!p.inputs_along)
    for (; x < n; x += kL) { // squares of vectors are transposed
      const int columns = n - x < kL ? static_cast<int>(n - x) : kL;
      F32 square[kL];
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane) {
        const float *from = line + lane * p.input.stride[1] + x;
        square[lane] = lane >= count ? F32{} : columns == kL ? load(from) : load_partial(from, columns);
      }
      transpose<float>(square);
      for (int column = 0; column < columns; ++column) store(out + (x + column) * kL, square[column]);
    }
  for (; x < n; ++x) store(out + x * kL, load_channels(p, line + x * stride, count));
}

// The inputs of a run, channels [channel, channel + a vector): rows of `columns` vectors.
template <int M>
POLYCONV_NOINLINE void fill_patch(const WinogradPlan &p, const float *input, const WinogradTiles &run, int64_t channel,
                                  int64_t columns, float *patch) {
  constexpr int kL = kF32Lanes;
  const int64_t left = p.channels - channel;
  const int count = left < kL ? static_cast<int>(left) : kL;
  const Axis &rows = p.axis[1], &line = p.axis[2];
  const float *image = input + p.input.offset + run.image * p.input.stride[0] + channel * p.input.stride[1];
  const int64_t first = run.column * M - line.before, stride = p.input.stride[4];
  const F32 padding = splat(static_cast<float>(p.pad_value));
  for (int64_t r = 0; r < M + 2; ++r, patch += columns * kL) {
    const int64_t y = run.row * M - rows.before + r;
    const bool beyond = y >= rows.in + rows.after; // read by results that do not exist
    const int64_t source = beyond ? -1 : inside(rows, y);
    const float *in = image + source * p.input.stride[3];
    const AxisRun reach = axis_run(first, 1, line.in, line.in + line.after, source < 0 ? 0 : columns);
    fill_inside(p, in + (first + reach.a) * stride, reach.b - reach.a, count, patch + reach.a * kL);
    for (int64_t x = reach.a > 0 ? 0 : reach.b; x < columns; x = x + 1 == reach.a ? reach.b : x + 1) {
      const int64_t from = x < reach.last ? inside(line, first + x) : -1;
      store(patch + x * kL, from < 0 ? padding : load_channels(p, in + from * stride, count));
    }
  }
}

// Transformed inputs of a block: [element of a tile][tile][channel].
template <int M>
POLYCONV_INLINE void transform_block(const WinogradPlan &p, const float *input, int64_t first, int64_t last,
                                     float *patch, float *transformed) {
  constexpr int kL = kF32Lanes;
  for (int64_t tile = first; tile < last;) {
    const WinogradTiles run = next_run(p, tile, last);
    const int64_t columns = run.count * M + 2;
    for (int64_t channel = 0; channel < p.channels; channel += kL) {
      fill_patch<M>(p, input, run, channel, columns, patch);
      float *out = transformed + (tile - first) * p.padded_channels + channel;
      for (int64_t i = 0; i < run.count; ++i, out += p.padded_channels)
        transform_tile<M + 2>(patch + i * M * kL, columns * kL, kL, out, p.block * p.padded_channels);
    }
    tile += run.count;
  }
}

// The matrix products: [element][tile][output channel].
template <int T>
POLYCONV_NOINLINE void multiply_block(const WinogradPlan &p, const float *weights, int64_t tiles,
                                      const float *transformed, float *products) {
  const int64_t width = p.panels * p.panel, groups = (tiles + kDensePixels - 1) / kDensePixels;
  for (int64_t element = 0; element < T * T; ++element)
    for (int64_t panel = 0; panel < p.panels; ++panel, weights += p.channels * p.panel) {
      DenseRun<float> run = {transformed + element * p.block * p.padded_channels, 0, p.channels, {0, tiles}, 1};
      DenseTile<float> t = {};
      t.runs = &run, t.run_count = 1, t.pixel_stride = p.padded_channels;
      t.weights = weights;
      t.source_ahead = run.source, t.result_row = width * static_cast<int64_t>(sizeof(float));
      t.weights_ahead = weights + p.channels * p.panel;
      t.weights_ahead_step = p.panel / groups; // the next panel, a part with each group of tiles
      t.weights_ahead_tile = p.channels * t.weights_ahead_step;
      for (int64_t group = 0; group < groups; ++group) {
        t.column = tiles * group / groups;
        t.result = products + (element * p.block + t.column) * width + panel * p.panel;
        dense_tile_of<float, kDenseVectors>(tiles * (group + 1) / groups - t.column, t);
      }
    }
}

// Finishes `columns` results of each of `count` channels from k on, whose sums lie as [column][channel of a vector].
POLYCONV_NOINLINE void finish_line(const WinogradPlan &p, const Epilogue &e, const Row &at, const float *sums,
                                   int64_t columns, int count) {
  constexpr int kL = kF32Lanes;
  if (p.results_along) return finish_rows(e, sums, kL, columns, count, at);
  float turned[kL * kL];
  for (int64_t x = 0; x < columns; x += kL) {
    const int64_t rest = columns - x < kL ? columns - x : kL;
    F32 square[kL];
#pragma GCC unroll 16
    for (int i = 0; i < kL; ++i) square[i] = load(sums + (x + i) * kL);
    transpose<float>(square);
#pragma GCC unroll 16
    for (int i = 0; i < kL; ++i) store(turned + i * kL, square[i]);
    Row row = at;
    row.axis = 4, row.w += x;
    finish_rows(e, turned, kL, count, rest, row);
  }
}

template <int M>
POLYCONV_INLINE void finish_block(const WinogradPlan &p, const Epilogue &e, int64_t first, int64_t last, float *rows,
                                  const float *products) {
  constexpr int kL = kF32Lanes;
  const int64_t width = p.panels * p.panel, step = p.block * width, height = p.axis[1].out;
  for (int64_t tile = first; tile < last;) {
    const WinogradTiles run = next_run(p, tile, last);
    const int64_t line = (run.count * M + kL) * kL, h = run.row * M, w = run.column * M; // finish_line reads on
    const int64_t columns = p.axis[2].out - w < run.count * M ? p.axis[2].out - w : run.count * M;
    for (int64_t k = 0; k < p.results; k += kL) {
      const float *in = products + (tile - first) * width + k;
      for (int64_t i = 0; i < run.count; ++i) transform_back<M + 2>(in + i * width, step, rows + i * M * kL, line);
      const int count = p.results - k < kL ? static_cast<int>(p.results - k) : kL;
      for (int64_t r = 0; r < M && h + r < height; ++r)
        finish_line(p, e, {run.image, k, 0, h + r, w, 1}, rows + r * line, columns, count);
    }
    tile += run.count;
  }
}

template <int M>
POLYCONV_INLINE void winograd_share(const WinogradPlan &p, const LayerRun &run, const ItemShare &share) {
  float *transformed = reinterpret_cast<float *>(share.scratch);
  float *products = reinterpret_cast<float *>(share.scratch + p.products_at);
  float *patch = reinterpret_cast<float *>(share.scratch + p.patch_at);
  float *rows = reinterpret_cast<float *>(share.scratch + p.rows_at);
  for (int64_t block = share.first; block < share.last; ++block) {
    const int64_t first = block * p.block, end = first + p.block, last = end < p.tiles ? end : p.tiles;
    transform_block<M>(p, static_cast<const float *>(run.input), first, last, patch, transformed);
    multiply_block<M + 2>(p, static_cast<const float *>(run.weights), last - first, transformed, products);
    finish_block<M>(p, run.epilogue, first, last, rows, products);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
