// task.hpp - one task's share of the matrix kernel: blocks of output lines, panels of output channels, tiles.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/matrix/gather.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// What one task works with.
template <class P>
struct MatrixTask {
  typedef typename P::From From;
  typedef typename P::Sum Sum;
  const MatrixPlan &p;
  const MatrixArguments &arguments;
  char *strip;
  Sum *sums;           // twice kMatrixPositions rows of kMatrixPanel
  const From *in;      // the group's first channel
  const char *weights; // the group's first panel
  int64_t group;
};

// Positions [first, first + count) of a block, at most kMatrixPositions, whose sums are made but not their results.
struct MatrixPending {
  const MatrixBlock *block;
  MatrixTile tile;
  MatrixChannels channels;
  int64_t first, count;
};

template <class P>
POLYCONV_INLINE void finish(const MatrixTask<P> &task, const MatrixPending &made) {
  const MatrixPlan &p = task.p;
  const MatrixBlock &b = *made.block;
  const auto *sums = static_cast<const typename P::Sum *>(made.tile.sums);
  if constexpr (P::kParts > 1) {
    bool finite = true;
    for_rows(p, b, made.first, made.count, 0, [&](int64_t i, int64_t rows, const Row &) {
      finite = finite && all_finite(sums + i * kMatrixPanel, rows);
    });
    if (!finite) mend<P>(p, made.tile, made.count > kMatrixRows, made.channels.count > kMatrixRows);
  }
  for_rows(p, b, made.first, made.count, made.channels.first, [&](int64_t i, int64_t rows, const Row &row) {
    finish_positions(p, task.arguments.epilogue, sums + i * kMatrixPanel, rows, made.channels.count, row,
                     task.arguments.stream);
  });
}

// A block whose source is where tiles are loaded from.
struct MatrixSource {
  MatrixBlock block;
  const char *first, *tail; // position 0; where the last lie, less than a tile of them, or NULL
  int64_t positions, whole; // in all, and from `first` on
};

// Blocks on their way: each tile's results are made while the next tile is multiplied.
template <class P>
struct MatrixWalk {
  const MatrixTask<P> &task;
  MatrixPending before;
  int64_t turn;
  MatrixAhead ahead;
};

// Multiplies whole tiles whose sums are the results, but for a bias, which `start` then holds too.
template <class P>
POLYCONV_INLINE void store_directly(const MatrixTask<P> &task, MatrixPending &tile, int32_t *start,
                                    MatrixAhead &ahead) {
  const MatrixPlan &p = task.p;
  const Epilogue &e = task.arguments.epilogue;
  const Row row = {tile.block->image, tile.channels.first, 0, 0, tile.block->line + tile.first, 1};
  if (e.bias)
    for (int k = 0; k < kMatrixPanel; ++k) {
      const uint32_t before = tile.tile.start ? static_cast<uint32_t>(start[k]) : 0;
      start[k] = static_cast<int32_t>(before + static_cast<const uint32_t *>(e.bias)[tile.channels.first + k]);
    }
  if (e.bias) tile.tile.start = start;
  tile.tile.sums = static_cast<typename P::Sum *>(e.output) + row_offset(e.result, row);
  tile.tile.sums_row = e.result.stride[4] * static_cast<int64_t>(sizeof(typename P::Sum));
  multiply_of<P>(tile.count > kMatrixRows, true, p, tile.tile, ahead);
}

// Multiplies positions from i on by a panel; how many they were.
template <class P>
POLYCONV_INLINE int64_t step(MatrixWalk<P> &walk, const MatrixSource &source, int64_t panel, int64_t i) {
  const MatrixTask<P> &task = walk.task;
  const MatrixPlan &p = task.p;
  const int64_t made = panel * kMatrixPanel, rest = p.group_out - made;
  const int64_t left = source.positions - i, bytes = p.position_bytes;
  const char *const at = i < source.whole ? source.first + i * bytes : source.tail;
  const int64_t second = i + kMatrixRows == source.whole && source.tail ? source.tail - at : kMatrixRows * bytes;
  MatrixPending next = {&source.block,
                        {at, task.weights + panel * p.panel_bytes, bytes, second, nullptr,
                         task.sums + walk.turn * kMatrixPositions * kMatrixPanel, 2 * kMatrixRowBytes},
                        {task.group * p.group_out + made, rest < kMatrixPanel ? rest : kMatrixPanel},
                        i,
                        left < kMatrixPositions ? left : kMatrixPositions};
  alignas(64) int32_t start[kMatrixPanel];
  if (p.zero_point) { // its share of the sums; the sums of the weights lie behind them
    const int32_t *sums = reinterpret_cast<const int32_t *>(next.tile.weights + p.panel_bytes - sizeof start);
    for (int k = 0; k < kMatrixPanel; ++k) start[k] = -p.zero_point * sums[k];
    next.tile.start = start;
  }
  if (p.direct && next.channels.count == kMatrixPanel && next.count % kMatrixRows == 0) {
    store_directly(task, next, start, walk.ahead);
    return next.count;
  }
  multiply_of<P>(next.count > kMatrixRows, next.channels.count > kMatrixRows, p, next.tile, walk.ahead);
  if (walk.before.count) finish(task, walk.before);
  walk.before = next;
  walk.turn ^= 1;
  return next.count;
}

// Blocks against panels. Positions of one tap meet all panels while they are in the L1 cache, where the panels fit the
// L2 cache: a pixel's results are then written together. Else a panel meets all blocks, and is read once for them.
template <class P>
POLYCONV_NOINLINE void run_panels(const MatrixTask<P> &task, const MatrixSource *sources, int64_t count,
                                  int64_t first_panel, int64_t last_panel, const MatrixAhead &ahead) {
  MatrixWalk<P> walk = {task, {}, 0, ahead};
  if (task.p.panels_inside) {
    for (const MatrixSource *s = sources; s < sources + count; ++s)
      for (int64_t i = 0, done = 0; i < s->positions; i += done)
        for (int64_t panel = first_panel; panel < last_panel; ++panel) done = step(walk, *s, panel, i);
  } else {
    for (int64_t panel = first_panel; panel < last_panel; ++panel)
      for (const MatrixSource *s = sources; s < sources + count; ++s)
        for (int64_t i = 0; i < s->positions;) i += step(walk, *s, panel, i);
  }
  if (walk.before.count) finish(task, walk.before);
}

template <class P>
POLYCONV_INLINE MatrixSource bring_in(const MatrixTask<P> &task, const MatrixBlock &b, char *strip) {
  const MatrixPlan &p = task.p;
  // The last positions of the last line end with its last column.
  const int64_t positions = p.flat ? b.lines : (b.lines - 1) * p.line_positions + p.columns;
  MatrixSource source = {b, strip, nullptr, positions, positions};
  if (p.in_place) { // but for less than a tile, which would be loaded from beyond the input
    const char *in = reinterpret_cast<const char *>(task.in + b.image * p.input.stride[0]);
    const int64_t bytes = p.chunks * kMatrixRowBytes;
    source.whole = positions / kMatrixRows * kMatrixRows;
    source.first = in + b.line * p.position_bytes;
    source.tail = strip;
    for (int64_t i = source.whole; i < positions; ++i)
      __builtin_memcpy(strip + (i - source.whole) * p.position_bytes, source.first + i * p.position_bytes,
                       static_cast<size_t>(bytes));
  } else if (p.flat) {
    fill_flat_strip<P>(p, task.in, b, strip);
  } else {
    fill_strip<P>(p, task.in, b, strip);
  }
  return source;
}

// What `blocks` blocks from `unit` on read and those before did not, spread over `tiles` tiles; channels last only.
template <class P>
POLYCONV_INLINE MatrixAhead ahead_of(const MatrixTask<P> &task, int64_t unit, int64_t last, int64_t blocks,
                                     int64_t tiles) {
  const MatrixPlan &p = task.p;
  const polyconv_tensor &t = p.input;
  if (t.stride[1] != 1 || unit >= last) return {};
  int64_t units = blocks * p.block_lines;
  if (units > last - unit) units = last - unit;
  const typename P::From *at, *end;
  if (p.flat) {
    if (!p.one_stride) return {};
    const int64_t pixels = p.axis[0].out * p.axis[1].out * p.axis[2].out;
    const auto pixel = [&](int64_t i) { return task.in + i / pixels * t.stride[0] + i % pixels * t.stride[4]; };
    at = pixel(unit), end = pixel(unit + units - 1) + t.stride[4];
  } else {
    const Axis &h = p.axis[1];
    if (h.in == 0 || p.axis[0].taps > 1) return {};
    const auto row = [&](int64_t y, int64_t i) {
      y = y < 0 ? 0 : y > h.in ? h.in : y;
      return task.in + i / p.lines / p.depths * t.stride[0] + i / p.lines % p.depths * t.stride[2] + y * t.stride[3];
    };
    const int64_t first = unit % p.lines, reach = (h.taps - 1) * h.dilation + 1 - h.before;
    const int64_t end_unit = unit + units - 1;
    at = row(first == 0 ? 0 : (first - 1) * h.step + reach, unit);
    end = row(end_unit % p.lines * h.step + reach, end_unit);
  }
  const int64_t bytes = (end - at) * static_cast<int64_t>(sizeof *at);
  if (bytes <= 0 || tiles == 0) return {};
  return {reinterpret_cast<const char *>(at), reinterpret_cast<const char *>(end),
          bytes / kMatrixRowBytes / (tiles * p.chunks * p.tap_count) + 1};
}

// Units [first, last) of the share, in blocks of one depth of one image.
template <class P>
POLYCONV_INLINE void run_units(const MatrixTask<P> &task, const MatrixShare &share, int64_t first_panel,
                               int64_t last_panel) {
  const MatrixPlan &p = task.p;
  const int64_t lines = p.flat ? p.columns : p.lines; // of one depth
  MatrixSource sources[kMatrixStrips];
  int64_t count = 0, tiles = 0;
  for (int64_t unit = share.first_unit; unit < share.last_unit;) {
    MatrixBlock b = {unit / lines / p.depths, unit / lines % p.depths, unit % lines, p.block_lines};
    if (b.lines > share.last_unit - unit) b.lines = share.last_unit - unit;
    if (b.lines > lines - b.line) b.lines = lines - b.line;
    sources[count] = bring_in(task, b, task.strip + count * p.strip_bytes);
    tiles += (sources[count].positions + kMatrixPositions - 1) / kMatrixPositions;
    unit += b.lines;
    if (++count < p.strips && unit < share.last_unit) continue;
    run_panels(task, sources, count, first_panel, last_panel,
               ahead_of(task, unit, share.last_unit, count, tiles * (last_panel - first_panel)));
    tiles = 0;
    count = 0;
  }
}

template <class P>
POLYCONV_NOINLINE void run_matrix(const MatrixPlan &p, const MatrixArguments &arguments, const MatrixShare &share) {
  typedef typename P::From From;
  const TileScope scope;
  MatrixTask<P> task = {p,
                        arguments,
                        share.scratch + 2 * kMatrixPositions * kMatrixPanel * sizeof(typename P::Sum),
                        reinterpret_cast<typename P::Sum *>(share.scratch),
                        nullptr,
                        nullptr,
                        0};
  if (p.gathered) __builtin_memset(task.strip, 0, static_cast<size_t>(p.strip_bytes)); // what fills up rows
  for (int64_t panel = share.first_panel; panel < share.last_panel;) {
    task.group = panel / p.panels;
    const int64_t first = panel % p.panels, rest = share.last_panel - panel;
    const int64_t last = first + rest < p.panels ? first + rest : p.panels;
    task.in = static_cast<const From *>(arguments.input) + p.input.offset + task.group * p.group_in * p.input.stride[1];
    task.weights = static_cast<const char *>(arguments.weights) + task.group * p.group_bytes;
    run_units(task, share, first, last);
    panel += last - first;
  }
  if (arguments.stream) streamed_stores_done();
}

} // namespace polyconv::cpu::POLYCONV_ISA
