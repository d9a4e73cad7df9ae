// task.hpp - one task's share of the matrix product: blocks of pixels by blocks of k by panels of weights by register
// tiles. Where the activations of a tile lie (packed or in place) is the Source's business, which is what gemm and
// gemm1x1 differ in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/finish.hpp"
#include "cpu/gemm/micro.hpp"
#include "cpu/gemm/pack.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kMaxBlockPixels = kGemmBlockPixels;
constexpr int kMaxTiles = kMaxBlockPixels / (kTileRows < 2 * kLanes<double> ? kTileRows : 2 * kLanes<double>);

// The pixels packed together, cut into register tiles.
struct PixelBlock {
  int64_t first, count;
  int tiles;
  int first_run[kMaxBlockPixels + 1]; // of each tile, for writing
  PixelRun runs[kMaxBlockPixels];     // lanes count from the tile's first pixel
};

// The activations of one tile, k by pixels: `stride` elements between pixels (channels along) or between ks.
template <class T>
struct Operand {
  const T *data;
  int64_t stride;
};

POLYCONV_INLINE int64_t tile_count(const GemmPlan &p, const PixelBlock &block, int tile) {
  const int64_t rest = block.count - tile * p.tile_pixels;
  return rest < p.tile_pixels ? rest : p.tile_pixels;
}

POLYCONV_INLINE void cut_block(const GemmPlan &p, int64_t first, int64_t count, PixelBlock &block) {
  block.first = first;
  block.count = count;
  block.tiles = static_cast<int>((count + p.tile_pixels - 1) / p.tile_pixels);
  int run = 0;
  for (int tile = 0; tile < block.tiles; ++tile) {
    block.first_run[tile] = run;
    run += cut_runs(p, first + tile * p.tile_pixels, tile_count(p, block, tile), p.epilogue.whole_images,
                    block.runs + run);
  }
  block.first_run[block.tiles] = run;
}

// Packs one tile of k [first, last) for a Source; `in` is the group's first channel.
template <class From, class T, bool ChannelsAlong>
POLYCONV_INLINE Operand<T> pack_tile(const GemmPlan &p, const From *in, int64_t pixel, int64_t count, int64_t first,
                                     int64_t last, T *packed) {
  PixelRun runs[kMaxBlockPixels];
  const int run_count = cut_runs(p, pixel, count, false, runs);
  if constexpr (ChannelsAlong) {
    for (int i = 0; i < run_count; ++i)
      for (int64_t j = 0; j < runs[i].count; ++j) {
        const PixelRun one = {runs[i].n, runs[i].d, runs[i].h, runs[i].w + j, 0, 1};
        pack_pixel<From, T>(p, in, one, first, last, packed + (runs[i].lane + j) * p.row_stride);
      }
    // The rows of a tile come in thirds: those beyond the pixels multiply zeros.
    const int64_t rows = (count + kTileThird - 1) / kTileThird * kTileThird;
    for (int64_t row = count; row < rows; ++row)
      __builtin_memset(packed + row * p.row_stride, 0, static_cast<size_t>(last - first) * sizeof(T));
    return {packed, p.row_stride};
  } else {
    const int64_t width = (count + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
    pack_strip<From, T>(p, in, runs, run_count, width, first, last, packed);
    return {packed, width};
  }
}

template <class T, bool ChannelsAlong>
POLYCONV_INLINE void finish_tile(const GemmPlan &p, const GemmRun &r, const PixelBlock &block, int tile, const T *sums,
                                 int64_t channel, int64_t channels) {
  for (int i = block.first_run[tile]; i < block.first_run[tile + 1]; ++i) {
    const PixelRun &run = block.runs[i];
    const Row row = {run.n, channel, run.d, run.h, run.w, ChannelsAlong ? 1 : 4};
    if (ChannelsAlong)
      finish_rows(r.epilogue, sums + run.lane * p.tile_columns, p.tile_columns, run.count, channels, row);
    else
      finish_rows(r.epilogue, sums + run.lane, p.tile_columns, channels, run.count, row);
  }
}

// One block of pixels against panels [first, last) of a group.
template <class T, bool ChannelsAlong, class Source>
POLYCONV_INLINE void multiply_block(const GemmPlan &p, const GemmRun &r, Source &source, const PixelBlock &block,
                                    int64_t group, int64_t first_panel, int64_t last_panel, T *unfinished) {
  alignas(64) T one_tile[kTileRows * kTileVectors * kLanes<T>];
  const T *weights = static_cast<const T *>(r.weights) + group * p.panels * p.k * p.panel_channels;
  for (int64_t k = 0; k < p.k; k += p.k_block) {
    const int64_t steps = p.k - k < p.k_block ? p.k - k : p.k_block;
    source.prepare(block, group, k, k + steps);
    const bool last = k + steps == p.k;
    T *tile_sums = unfinished;
    for (int64_t panel = first_panel; panel < last_panel; ++panel) {
      const T *w = weights + (panel * p.k + k) * p.panel_channels;
      const int64_t channel = panel * p.panel_channels, rest = p.group_out - channel;
      const int64_t channels = rest < p.panel_channels ? rest : p.panel_channels;
      for (int tile = 0; tile < block.tiles; ++tile) {
        const Operand<T> x = source.tile(tile);
        const int64_t pixels = tile_count(p, block, tile);
        const int vectors = (ChannelsAlong ? channels : pixels) > kLanes<T> ? 2 : 1;
        T *sums = p.sums_bytes ? tile_sums : one_tile;
        if (ChannelsAlong)
          multiply<T, true>(pixels, vectors, x.data, x.stride, w, p.panel_channels, steps, sums, p.tile_columns, k > 0);
        else
          multiply<T, false>(channels, vectors, w, p.panel_channels, x.data, x.stride, steps, sums, p.tile_columns,
                             k > 0);
        if (last) finish_tile<T, ChannelsAlong>(p, r, block, tile, sums, group * p.group_out + channel, channels);
        tile_sums += p.tile_rows * p.tile_columns;
      }
    }
  }
}

// The whole share. `source` serves one task; `unfinished` is scratch for sums between blocks of k.
template <class T, bool ChannelsAlong, class Source>
POLYCONV_INLINE void run_share(const GemmPlan &p, const GemmRun &r, const GemmShare &share, Source &source,
                               T *unfinished) {
  PixelBlock block;
  for (int64_t panel = share.first_panel; panel < share.last_panel;) {
    const int64_t group = panel / p.panels, first = panel % p.panels;
    const int64_t rest = share.last_panel - panel, last = first + rest < p.panels ? first + rest : p.panels;
    for (int64_t pixel = share.first_pixel; pixel < share.last_pixel; pixel += p.block_pixels) {
      const int64_t left = share.last_pixel - pixel;
      cut_block(p, pixel, left < p.block_pixels ? left : p.block_pixels, block);
      multiply_block<T, ChannelsAlong>(p, r, source, block, group, first, last, unfinished);
    }
    panel += last - first;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
