// task.hpp - one task's share of the dense kernel: blocks of output lines, panels of output channels, tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/dense/finish.hpp"
#include "cpu/dense/narrow_tile.hpp"
#include "cpu/dense/strip.hpp"
#include "cpu/dense/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// The row of a transposed tile: whole squares of either type.
constexpr int kDenseTurned = kManyRegisters ? 16 : 8;

// First column of tile i of a line, which are of nearly equal size.
POLYCONV_INLINE int64_t tile_column(const DensePlan &p, int64_t i) {
  return i * p.tile_size + (i < p.long_tiles ? i : p.long_tiles);
}

// Tiles of a line from tile i on, up to `end`, that are of its size.
POLYCONV_INLINE int64_t equal_tiles(const DensePlan &p, int64_t i, int64_t end) {
  return (i < p.long_tiles && p.long_tiles < end ? p.long_tiles : end) - i;
}

// How a source of one stored type comes into strips: all that the kernel's code knows of that type.
template <class T>
struct DenseSource {
  void (*fill)(const DensePlan &p, const void *in, const DenseBlock &b, T *strip);
  int64_t bytes; // of an element
};

// What one task works with.
template <class T>
struct DenseTask {
  const DensePlan &p;
  const DenseArguments &arguments;
  const DenseSource<T> &source;
  T *strip, *sums;
  DenseRun<T> *runs;
  const void *in;   // the group's first channel
  const T *weights; // the group's first panel
  int64_t group;
};

// Completes lines, lines count, tile and last_tile by what they read.
POLYCONV_INLINE void set_source(const DensePlan &p, DenseBlock &b) {
  b.column = tile_column(p, b.tile);
  b.last_column = tile_column(p, b.last_tile);
  const Axis &rows = p.axis[1], &columns = p.axis[2];
  b.first_line = b.line * rows.step - rows.before;
  if (p.in_place) {
    b.origin = p.column_before * p.input.stride[4];
    return;
  }
  const int64_t first = b.column * p.column_step - p.column_before;
  const int64_t last = (b.last_column - 1) * p.column_step + (columns.taps - 1) * columns.dilation - p.column_before;
  const bool clipped = !p.padded;
  b.first_column = clipped && first < 0 ? 0 : first;
  b.last_input_column = clipped && last >= columns.in ? columns.in - 1 : last;
  b.origin = (b.first_column + p.column_before) / p.column_pitch * p.strip_pixel;
}

// body(tap of D, tap of H, depth, row, which) for the taps of `lines` (1 or 2) output lines from `line` on that are not
// left out: bit i of `which` says that line i has it, and `row` is what the first of those reads.
template <class Body>
POLYCONV_INLINE void for_taps(const DensePlan &p, const DenseBlock &b, int64_t line, int64_t lines, const Body &body) {
  const Axis &depths = p.axis[0], &rows = p.axis[1];
  for (int64_t t = 0; t < depths.taps; ++t) {
    const int64_t depth = inside(depths, b.depth * depths.step + t * depths.dilation - depths.before);
    if (depth < 0 && p.skips_lines) continue;
    for (int64_t r = 0; r < rows.taps; ++r) {
      int64_t which = 0, row = -1;
      for (int64_t i = lines; i-- > 0;) {
        const int64_t of_line = inside(rows, (line + i) * rows.step + r * rows.dilation - rows.before);
        if (of_line >= 0 || !p.skips_lines) which |= int64_t{1} << i, row = of_line;
      }
      if (which) body(t, r, depth, row, which);
    }
  }
}

// Elements of the source from what an output line reads to what the next one does.
POLYCONV_INLINE int64_t line_stride(const DensePlan &p) {
  const int64_t step = p.axis[1].step;
  return p.in_place ? step * p.input.stride[3] : (p.pitch[1] == 1 ? step : 1) * p.strip_line;
}

// The runs of `lines` output lines from `line` on for channels from `channel` on, `channels` of them; returns how many.
template <class T>
POLYCONV_INLINE int64_t list_runs(const DenseTask<T> &task, const DenseBlock &b, int64_t line, int64_t lines,
                                  int64_t channel, int64_t channels) {
  const DensePlan &p = task.p;
  const Axis &rows = p.axis[1], &columns = p.axis[2];
  const int64_t tap_weights = channels * p.panel_channels;
  int64_t n = 0;
  for_taps(p, b, line, lines, [&](int64_t t, int64_t r, int64_t depth, int64_t row, int64_t which) {
    const int64_t y = line * rows.step + r * rows.dilation - rows.before - b.first_line;
    const int64_t stored = p.pitch[1] == 1 ? y : y / p.pitch[1]; // a division would show in layers of many groups
    const T *source = task.strip + (t * p.strip_lines + stored) * p.strip_line;
    if (p.in_place)
      source = line_at(p, static_cast<const T *>(task.in) + b.image * p.input.stride[0], depth, row) -
               (which == 2 ? line_stride(p) : 0);
    source += channel - b.origin;
    int64_t weights = (t * rows.taps + r) * columns.taps * tap_weights;
    if (p.one_run || p.shares) {
      task.runs[n++] = {source, weights, (p.shares ? 1 : columns.taps) * channels, {0, p.columns}, which};
      return;
    }
    for (int64_t s = 0; s < columns.taps; ++s, source += p.tap_stride, weights += tap_weights)
      if (p.inside[s].first < p.inside[s].last) task.runs[n++] = {source, weights, channels, p.inside[s], which};
  });
  return n;
}

// What the sums of a line begin with where inputs are stored with an offset: less its share.
template <class T>
POLYCONV_INLINE void subtract_offset(const DenseTask<T> &task, const DenseBlock &b, int64_t line, int64_t panel,
                                     T *start) {
  const DensePlan &p = task.p;
  const int64_t lines = p.axis[0].taps * p.axis[1].taps;
  const int32_t *sums = task.arguments.line_sums + (task.group * p.panels + panel) * lines * p.panel_channels;
  for (int64_t k = 0; k < p.panel_channels; ++k) start[k] = 0;
  for_taps(p, b, line, 1, [&](int64_t t, int64_t r, int64_t, int64_t, int64_t) {
    const int64_t tap = t * p.axis[1].taps + r;
    for (int64_t k = 0; k < p.panel_channels; ++k) start[k] -= p.offset * sums[tap * p.panel_channels + k];
  });
}

// Finishes m pixels of `channels` channels, whose sums lie with channels side by side.
template <class T>
POLYCONV_INLINE void finish_tile(const DenseTask<T> &task, const T *sums, int64_t m, int64_t channels, Row row) {
  const DensePlan &p = task.p;
  if (!p.along_w) {
    finish_rows(task.arguments.epilogue, sums, p.panel_channels, m, channels, row);
    return;
  }
  if constexpr (sizeof(T) == 4 && static_cast<T>(0.5) != 0)
    if (p.stores_tiles) return store_turned(task.arguments.epilogue, sums, p.panel_channels, m, channels, row);
  constexpr int kL = kLanes<T>;
  alignas(64) T turned[kDenseVectors * kL * kDenseTurned];
  for (int64_t c = 0; c < channels; c += kL)
    for (int64_t i = 0; i < m; i += kL) {
      Vector<T> square[kL];
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane)
        square[lane] = i + lane < m ? load(sums + (i + lane) * p.panel_channels + c) : Vector<T>{};
      transpose<T>(square);
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane) store(turned + (c + lane) * kDenseTurned + i, square[lane]);
    }
  row.axis = 4;
  finish_rows(task.arguments.epilogue, turned, kDenseTurned, channels, m, row);
}

// What the first tile of a line fetches into the cache while it multiplies: the source that comes into reach with the
// next tile, and its part of as many weights as follow the panel, for the panel after it.
template <class T>
POLYCONV_INLINE void fetch_ahead(const DenseTask<T> &task, const DenseBlock &b, int64_t line, int64_t weights,
                                 DenseTile<T> &tile) {
  const DensePlan &p = task.p;
  tile.source_ahead = tile.weights, tile.source_ahead_pixel = p.in_place ? p.pixel_stride : 0;
  if (p.in_place && tile.run_count > 0) {
    const DenseRun<T> &newest = task.runs[tile.run_count - 1];
    tile.source_ahead = newest.source + tile_column(p, b.tile + 1) * p.pixel_stride;
    tile.source_ahead_step = (p.tile_pixels + tile.run_count - 1) / tile.run_count;
  }
  const int64_t tiles = b.last_tile - b.tile, parts = tiles * b.lines, part = weights / parts;
  tile.weights_ahead = tile.weights + weights + (line - b.line) * tiles * part;
  tile.weights_ahead_step = (p.panel_channels + parts - 1) / parts;
  tile.weights_ahead_tile = part;
  constexpr int64_t kFewTiles = 6;
  if (kDenseSteps > 1 && parts < kFewTiles) { // then the weights are what comes late: both fetch them, line by line
    tile.source_ahead = tile.weights_ahead + 2 * tile.weights_ahead_step;
    tile.source_ahead_step = tile.weights_ahead_step, tile.source_ahead_pixel = part / p.tile_size;
  }
}

// Bytes of a result.
template <class T>
POLYCONV_INLINE int64_t result_bytes(const Epilogue &e) {
  return e.result.type == POLYCONV_BF16 ? 2 : sizeof(T);
}

// Where the tile's results go where they leave from registers, and what happens to them there.
template <class T>
POLYCONV_INLINE void set_result(const DenseTask<T> &task, const Row &row, DenseTile<T> &tile) {
  const Epilogue &e = task.arguments.epilogue;
  const int64_t bytes = result_bytes<T>(e);
  tile.result = static_cast<char *>(e.output) + row_offset(e.result, row) * bytes;
  tile.result_row = e.result.stride[4] * bytes;
  tile.bf16_result = e.result.type == POLYCONV_BF16;
  tile.bias = e.bias ? static_cast<const T *>(e.bias) + row.k : nullptr;
  if constexpr (sizeof(T) == 4 && static_cast<T>(0.5) != 0) {
    const DenseFinish finish = finish_of(e, row);
    tile.residual = task.p.adds ? finish.residual : nullptr, tile.residual_row = e.residual_tensor.stride[4];
    tile.lowest = finish.lowest, tile.highest = finish.highest, tile.hard_swish = finish.hard_swish;
  }
  tile.stream = task.arguments.stream;
}

// The tiles of one vector that have a form of their own: of `m` pixels of `lines` lines. Returns whether this is one.
template <class T>
POLYCONV_INLINE bool multiply_narrow(const DenseTask<T> &task, int64_t lines, int64_t m, DenseTile<T> &tile) {
#if POLYCONV_VECTOR_REGISTERS == 32
  if constexpr (sizeof(T) == 4 && static_cast<T>(0.5) != 0) {
    const DensePlan &p = task.p;
    if (m > kDensePixels) return dense_long_tile_of(m, tile), true;
    if (!p.shares || (p.axis[2].taps == 1 && lines == 1)) return false;
    const Epilogue &e = task.arguments.epilogue;
    tile.tap_stride = p.tap_stride, tile.tap_weights = p.pixel * p.panel_channels;
    tile.line_stride = line_stride(p);
    tile.result_line = lines == 2 ? e.result.stride[3] * result_bytes<T>(e) : 0;
    tile.residual_line = e.residual_tensor.stride[3];
    tile.skips_first = p.skips_first && tile.column == 0;
    tile.skips_last = p.skips_last && tile.column + m == p.columns;
    switch (p.axis[2].taps * 2 + p.shares) {
      case 1 * 2 + 1: return dense_taps_tile_of<1, 1>(m, tile), true;
      case 2 * 2 + 1: return dense_taps_tile_of<2, 1>(m, tile), true;
      case 3 * 2 + 1: return dense_taps_tile_of<3, 1>(m, tile), true;
      default: return dense_taps_tile_of<3, 2>(m, tile), true;
    }
  }
#endif
  (void)task, (void)lines, (void)m, (void)tile;
  return false;
}

// One panel of a line's tiles, as multiply_lines has them.
struct DensePanel {
  int64_t line, lines, panel, channel_block;
  int64_t steps, run_count; // of a run of one tap; runs that the line has
};

// The tiles of a line, two where tiles are of two, against one panel and block of channels; one pixel against all whole
// panels below `last_panel`. Returns how many panels these were. `unfinished` holds the
// line's sums between blocks. `tile` is the line's, so that what all its panels have in common is set to nothing once.
template <class T>
POLYCONV_INLINE int64_t multiply_tiles(const DenseTask<T> &task, const DenseBlock &b, const DensePanel &at,
                                       int64_t last_panel, T *unfinished, DenseTile<T> &tile) {
  const DensePlan &p = task.p;
  const Epilogue &e = task.arguments.epilogue;
  alignas(64) T one_tile[kDensePixels * kDenseVectors * kLanes<T>], start[kDenseVectors * kLanes<T>];
  const int64_t made = at.panel * p.panel_channels, rest = p.group_out - made;
  const int64_t channels = rest < p.panel_channels ? rest : p.panel_channels;
  const bool last = at.channel_block + 1 == p.channel_blocks, two = channels > kLanes<T>;
  Row row = {b.image, task.group * p.group_out + made, b.depth, at.line, tile_column(p, b.tile), 1};
  const bool direct = last && p.stores_tiles && !p.along_w;
  if (!direct) tile = {};
  tile.runs = task.runs, tile.run_count = at.run_count;
  tile.pixel_stride = p.pixel_stride;
  tile.chains = p.chains;
  tile.weights = task.weights + p.taps * (at.panel * p.pixel + at.channel_block * p.channel_block) * p.panel_channels;
  tile.source_ahead = tile.weights_ahead = tile.weights;
  if (!p.chains) fetch_ahead(task, b, at.line, p.taps * at.steps * p.panel_channels, tile);
  if constexpr (sizeof(T) == 4 && static_cast<T>(0.5) == 0)
    if (p.offset && at.channel_block == 0) subtract_offset(task, b, at.line, at.panel, start);
  tile.rest = direct ? static_cast<int32_t>(channels % kLanes<T>) : 0;
  tile.result_row = p.panel_channels * static_cast<int64_t>(sizeof(T));
  if (direct) set_result(task, row, tile);
  const int64_t filled = p.group_out / p.panel_channels, end = last_panel < filled ? last_panel : filled;
  const int64_t panels =
      p.chains && direct && p.channel_blocks == 1 && !p.offset && at.panel < end ? end - at.panel : 1;
  tile.panel_weights = panels > 1 ? p.taps * p.pixel * p.panel_channels : 0;
  tile.column = row.w;
  for (int64_t i = b.tile; i < b.last_tile; unfinished += p.tile_pixels * p.panel_channels) {
    row.w = tile.column;
    const int64_t m = tile_column(p, i + 1) - tile.column;
    T *sums = p.channel_blocks > 1 ? unfinished : one_tile;
    tile.start = at.channel_block > 0 ? sums : p.offset ? start : nullptr;
    tile.start_stride = at.channel_block > 0 ? p.panel_channels : 0;
    if (!direct) tile.result = sums;
    if (last && p.along_w && p.stores_tiles) fetch_turned(e, m, channels, row);
    const bool narrow = !two && multiply_narrow(task, at.lines, m, tile);
    const int64_t equal = direct && !narrow && p.channel_blocks == 1 ? equal_tiles(p, i, b.last_tile) : 1;
    tile.count = equal * panels;
    i += equal;
    if (narrow)
      tile.advance(m);
    else if (two)
      dense_tile_of<T, 2>(m, tile);
    else
      dense_tile_of<T, 1>(m, tile);
    if (last && !direct) finish_tile(task, sums, m, channels, row);
  }
  return panels;
}

// `lines` lines of the block, two where tiles are of two, against panels [panel, last_panel) and a block of channels:
// what they read is listed once for all panels.
template <class T>
POLYCONV_INLINE void multiply_lines(const DenseTask<T> &task, const DenseBlock &b, DensePanel at, int64_t last_panel,
                                    T *unfinished) {
  const DensePlan &p = task.p;
  const int64_t channel = at.channel_block * p.channel_block, left = p.pixel - channel;
  at.steps = left < p.channel_block ? left : p.channel_block;
  at.run_count = list_runs(task, b, at.line, at.lines, channel, at.steps);
  DenseTile<T> tile = {};
  while (at.panel < last_panel) at.panel += multiply_tiles(task, b, at, last_panel, unfinished, tile);
}

template <class T>
POLYCONV_NOINLINE void run_block(const DenseTask<T> &task, const DenseBlock &b, bool kept, int64_t first_panel,
                                 int64_t last_panel) {
  const DensePlan &p = task.p;
  if (!p.in_place && !kept) task.source.fill(p, task.in, b, task.strip);
  const int64_t line_sums = (b.last_tile - b.tile) * p.tile_pixels * p.panel_channels;
  const int64_t at_once = p.pairs ? 2 : 1;
  // A block of one line meets all panels in turn, else every panel, which stays in the cache, all lines.
  const int64_t panels = b.lines <= at_once && p.channel_blocks == 1 ? last_panel - first_panel : 1;
  for (int64_t panel = first_panel; panel < last_panel; panel += panels)
    for (int64_t channels = 0; channels < p.channel_blocks; ++channels)
      for (int64_t i = 0, lines; i < b.lines; i += lines) {
        lines = at_once < b.lines - i ? at_once : b.lines - i;
        multiply_lines(task, b, {b.line + i, lines, panel, channels, 0, 0}, panel + panels, task.sums + i * line_sums);
      }
}

// Units [first, last) of the share: blocks of lines of one depth, or of tiles of one line.
template <class T>
POLYCONV_INLINE void run_units(const DenseTask<T> &task, const GridShare &share, int64_t first_panel,
                               int64_t last_panel) {
  const DensePlan &p = task.p;
  for (int64_t unit = share.first_unit; unit < share.last_unit;) {
    const int64_t line = unit / p.line_units, first = unit % p.line_units, left = share.last_unit - unit;
    DenseBlock b = {};
    b.line = line % p.lines;
    b.depth = line / p.lines % p.depths;
    b.image = line / p.lines / p.depths;
    b.lines = 1;
    int64_t end = p.tiles;
    if (p.line_units == 1) {
      b.lines = p.block_lines;
      if (b.lines > left) b.lines = left;
      if (b.lines > p.lines - b.line) b.lines = p.lines - b.line;
      unit += b.lines;
    } else {
      end = left < p.line_units - first ? first + left : p.line_units;
      unit += end - first;
    }
    for (b.tile = p.line_units == 1 ? 0 : first; b.tile < end; b.tile = b.last_tile) {
      b.last_tile = b.tile + p.block_tiles < end ? b.tile + p.block_tiles : end;
      set_source(p, b);
      // The strip still holds the source where the piece before was this block too, and no part of a longer line.
      const int64_t tiles = b.last_tile - b.tile, units = p.line_units > 1 ? tiles : tiles == p.tiles ? b.lines : 0;
      const bool kept = share.same_units && p.groups == 1 && units == share.last_unit - share.first_unit;
      run_block(task, b, kept, first_panel, last_panel);
    }
  }
}

template <class T>
POLYCONV_NOINLINE void run_share(const DensePlan &p, const DenseArguments &arguments, const GridShare &share,
                                 const DenseSource<T> &source) {
  DenseTask<T> task = {p,
                       arguments,
                       source,
                       reinterpret_cast<T *>(share.scratch + p.strip_at),
                       reinterpret_cast<T *>(share.scratch + p.sums_at),
                       reinterpret_cast<DenseRun<T> *>(share.scratch + p.runs_at),
                       nullptr,
                       nullptr,
                       0};
  const int64_t group_weights = p.panels * p.panel_channels * p.pixel * p.taps;
  for (int64_t panel = share.first_panel; panel < share.last_panel;) {
    task.group = panel / p.panels;
    const int64_t first = panel % p.panels, rest = share.last_panel - panel;
    const int64_t last = first + rest < p.panels ? first + rest : p.panels;
    task.in = static_cast<const char *>(arguments.input) +
              (p.input.offset + task.group * p.group_in * p.input.stride[1]) * source.bytes;
    task.weights = static_cast<const T *>(arguments.weights) + task.group * group_weights;
    run_units(task, share, first, last);
    panel += last - first;
  }
  if (arguments.stream) streamed_stores_done();
}

template <class From, class T>
POLYCONV_INLINE void run_dense(const DensePlan &p, const DenseArguments &arguments, const GridShare &share) {
  run_share<T>(p, arguments, share, {fill_block<From, T>, static_cast<int64_t>(sizeof(From))});
}

} // namespace polyconv::cpu::POLYCONV_ISA
