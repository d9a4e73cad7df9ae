// matrix.cpp - forward convolution in bf16, f16, s8 and u8, and of f32 in parts of bf16, on the tile registers of AMX:
// 16 positions by 16 output channels at an instruction, source pixels read in place or brought into a strip.
//
// Floor: 2 x 16 x 16 x 32 operations of bf16 (twice as many of 8 bits) in 16 cycles; f16 takes four such products, f32
// six. The rest of a tile is lost where a line's positions, channels in or channels out are no multiples of 16, 32, 16.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/matrix/beside.hpp"
#include "cpu/matrix/gather.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Positions [first, first + count) of a block, at most kMatrixPositions, whose sums are made but not their results.
struct MatrixPending {
  const MatrixBlock *block;
  MatrixTile tile;
  MatrixChannels channels;
  int64_t first, count;
};

// Blocks on their way: each tile's results are made while the next tile is multiplied.
template <class P>
struct MatrixWalk {
  const MatrixTask<P> &task;
  MatrixBeside<P> beside;
  Tiles tiles;
  MatrixHeld held;
  MatrixPending before;
  int64_t turn;
};

// Makes the results of the tile before.
template <class P>
POLYCONV_INLINE void finish(MatrixWalk<P> &walk) {
  const MatrixTask<P> &task = walk.task;
  const MatrixPending &made = walk.before;
  const MatrixPlan &p = task.p;
  const MatrixBlock &b = *made.block;
  const auto *sums = static_cast<const typename P::Sum *>(made.tile.sums);
  if constexpr (P::kParts > 1) {
    bool finite = true;
    for_rows(p, b, made.first, made.count, 0, [&](int64_t i, int64_t rows, const Row &) {
      finite = finite && all_finite(sums + i * kMatrixPanel, rows);
    });
    if (!finite) store_all(walk.tiles, walk.held);
    if (!finite) mend<P>(p, made.tile, made.count > kMatrixRows, made.channels.count > kMatrixRows);
  }
  for_rows(p, b, made.first, made.count, made.channels.first, [&](int64_t i, int64_t rows, const Row &row) {
    finish_positions(p, task.arguments.epilogue, sums + i * kMatrixPanel, rows, made.channels.count, row,
                     task.arguments.stream);
  });
}

// The results of the tile before, to be made while `steps` steps of the next are multiplied.
template <class P>
POLYCONV_INLINE MatrixRows rows_of(const MatrixWalk<P> &walk) {
  const MatrixTask<P> &task = walk.task;
  const MatrixPlan &p = task.p;
  const MatrixPending &made = walk.before;
  const Epilogue &e = task.arguments.epilogue;
  if (!made.count || !p.rows_beside || made.channels.count < kMatrixPanel) return {};
  const Row row = {made.block->image, made.channels.first, 0, 0, made.block->line + made.first, 1};
  const int64_t steps = p.chunks * p.tap_count * kStepsOf<P>;
  return {static_cast<const float *>(made.tile.sums),
          static_cast<float *>(e.output) + row_offset(e.result, row),
          e.bias ? static_cast<const float *>(e.bias) + made.channels.first : nullptr,
          e.result.stride[4],
          made.count,
          (made.count + steps - 1) / steps,
          e.rules.activation == POLYCONV_ACT_RELU,
          task.arguments.stream != 0,
          {}};
}

// Where results of a block's positions begin, if these lie as the pixels of an image do.
POLYCONV_INLINE Row pixel_row(const MatrixPlan &p, const MatrixBlock &b, int64_t position, int64_t channel) {
  const int64_t first = p.flat ? b.line : (b.depth * p.lines + b.line) * p.columns;
  return {b.image, channel, 0, 0, first + position, 1};
}

// The results of the tiles before, to be made while the next as many are multiplied.
template <class P>
POLYCONV_INLINE MatrixResults results_of(const MatrixWalk<P> &walk) {
  const MatrixPlan &p = walk.task.p;
  const MatrixPending &made = walk.before;
  const Epilogue &e = walk.task.arguments.epilogue;
  const Row row = pixel_row(p, *made.block, made.first, made.channels.first);
  const int64_t products = p.chunks * p.tap_count * 4 * p.together;
  const bool relu = e.rules.activation == POLYCONV_ACT_RELU;
  return {static_cast<const float *>(made.tile.sums),
          static_cast<bf16 *>(e.output) + row_offset(e.result, row),
          e.bias ? static_cast<const float *>(e.bias) + made.channels.first : nullptr,
          e.result.stride[4],
          made.channels.count / kMatrixPanel,
          made.count,
          (made.count + products - 1) / products,
          positions_of(e.bias != nullptr, relu, walk.task.arguments.stream != 0)};
}

// The tiles before are multiplied, and their sums have left the registers.
template <class P>
POLYCONV_INLINE void end_tiles(MatrixWalk<P> &walk) {
  if constexpr (kBf16Only<P>) {
    if (walk.task.p.results_beside) {
      walk.beside.results.make(walk.beside.results.left);
      walk.beside.results = results_of(walk);
      return;
    }
  }
  if (!walk.beside.rows.end()) finish(walk);
}

// Multiplies whole tiles whose sums are the results, but for a bias, which `start` then holds too.
template <class P>
POLYCONV_INLINE void store_directly(MatrixWalk<P> &walk, MatrixPending &tile, int32_t *start) {
  const MatrixTask<P> &task = walk.task;
  const MatrixPlan &p = task.p;
  const Epilogue &e = task.arguments.epilogue;
  const MatrixBlock &b = *tile.block;
  const Row row = pixel_row(p, b, tile.first, tile.channels.first);
  if (e.bias)
    for (int64_t k = 0; k < tile.channels.count; ++k) {
      const uint32_t before = tile.tile.start ? static_cast<uint32_t>(start[k]) : 0;
      start[k] = static_cast<int32_t>(before + static_cast<const uint32_t *>(e.bias)[tile.channels.first + k]);
    }
  if (e.bias) tile.tile.start = start;
  tile.tile.sums = static_cast<typename P::Sum *>(e.output) + row_offset(e.result, row);
  tile.tile.sums_row = e.result.stride[4] * static_cast<int64_t>(sizeof(typename P::Sum));
  const int64_t products = p.chunks * p.tap_count * 4;
  if (p.asks)
    walk.beside.written = {static_cast<const char *>(tile.tile.sums), tile.tile.sums_row,
                           tile.channels.count / kMatrixRows, tile.count, (tile.count + products - 1) / products};
  if constexpr (P::kParts == 1)
    if (tile.channels.count > kMatrixPanel) return multiply_wide<P>(p, tile.tile, walk.tiles, walk.held, walk.beside);
  multiply_of<P>(tile.count > kMatrixRows, true, p, tile.tile, walk.tiles, walk.held, walk.beside);
}

// The zero point's share of the sums of a tile's channels: the sums of the weights lie behind each panel of them.
POLYCONV_INLINE void start_sums(const MatrixPlan &p, const MatrixPending &tile, int32_t *start) {
  for (int64_t k = 0; k < tile.channels.count; ++k) {
    const char *const end = tile.tile.weights + (k / kMatrixPanel + 1) * p.panel_bytes;
    const int32_t *const sums = reinterpret_cast<const int32_t *>(end) - kMatrixPanel;
    start[k] = -p.zero_point * sums[k % kMatrixPanel];
  }
}

// Multiplies positions from i on by a panel, or by two (wide); how many they were.
template <class P>
POLYCONV_INLINE int64_t step(MatrixWalk<P> &walk, const MatrixSource &source, int64_t panel, int64_t i, bool wide) {
  const MatrixTask<P> &task = walk.task;
  const MatrixPlan &p = task.p;
  const int64_t made = panel * kMatrixPanel, rest = p.group_out - made;
  const int64_t left = source.positions - i, bytes = p.position_bytes;
  const char *const at = i < source.whole ? source.first + i * bytes : source.tail;
  const int64_t second = i + kMatrixRows == source.whole && source.tail ? source.tail - at : kMatrixRows * bytes;
  // The tile joins those before, of the same positions, or they are complete and it is the first of the next ones.
  MatrixPending &before = walk.before;
  const int64_t part = panel % p.together, channel = task.group * p.group_out + made;
  const bool joins = part && before.count && before.channels.first + before.channels.count == channel;
  if (!joins) walk.turn ^= 1;
  MatrixPending next = {&source.block,
                        {at, task.weights + panel * p.panel_bytes, bytes, second, nullptr,
                         task.sums + (walk.turn * p.together + part) * kMatrixSums, 2 * kMatrixRowBytes},
                        {channel, rest < kMatrixPanel ? rest : kMatrixPanel},
                        i,
                        left < kMatrixPositions ? left : kMatrixPositions};
  if (wide) next.channels.count = 2 * kMatrixPanel, next.count = kMatrixRows;
  alignas(64) int32_t start[2 * kMatrixPanel];
  if (p.zero_point) {
    start_sums(p, next, start);
    next.tile.start = start;
  }
  if (p.direct && next.channels.count % kMatrixPanel == 0 && next.count % kMatrixRows == 0) {
    store_directly(walk, next, start);
    return next.count;
  }
  if constexpr (P::kParts > 1) walk.beside.rows = rows_of(walk);
  multiply_of<P>(next.count > kMatrixRows, next.channels.count > kMatrixRows, p, next.tile, walk.tiles, walk.held,
                 walk.beside);
  if (joins) {
    before.channels.count += next.channels.count;
    return next.count;
  }
  if (before.count) end_tiles(walk);
  before = next;
  return next.count;
}

// body(first position) for each tile of a block's positions: in order, or down the lines, one column of tiles after the
// other, so that most of what a tile's taps read was read for the tile above.
template <class Body>
POLYCONV_INLINE void for_tiles(const MatrixPlan &p, int64_t positions, const Body &body) {
  const int64_t line = p.down_lines ? p.line_positions : positions;
  const int64_t width = p.down_lines ? kMatrixPositions : line;
  for (int64_t column = 0; column < line; column += width)
    for (int64_t first = 0; first < positions; first += line) {
      const int64_t end = first + line < positions ? first + line : positions;
      const int64_t at = first + column, last = at + width < end ? at + width : end;
      for (int64_t i = (at + kMatrixPositions - 1) / kMatrixPositions * kMatrixPositions; i < last;
           i += kMatrixPositions)
        body(i);
    }
}

// Blocks against panels. Positions of one tap meet all panels while they are in the L1 cache, where the panels fit the
// L2 cache: a pixel's results are then written together. Else a panel meets all blocks, and is read once for them.
template <class P>
POLYCONV_NOINLINE void run_panels(MatrixWalk<P> &walk, const MatrixSource *sources, int64_t count, int64_t first_panel,
                                  int64_t last_panel) {
  const MatrixTask<P> &task = walk.task;
  if (task.p.panels_inside) {
    const bool wide = task.p.wide && (last_panel - first_panel) % 2 == 0;
    for (const MatrixSource *s = sources; s < sources + count; ++s)
      for (int64_t i = 0, done = 0; i < s->positions; i += done) {
        const bool two = wide && i + kMatrixRows <= s->whole;
        for (int64_t panel = first_panel; panel < last_panel; panel += two ? 2 : 1)
          done = step(walk, *s, panel, i, two);
      }
  } else {
    for (int64_t panel = first_panel; panel < last_panel; ++panel)
      for (const MatrixSource *s = sources; s < sources + count; ++s)
        for_tiles(task.p, s->positions, [&](int64_t i) { step(walk, *s, panel, i, false); });
  }
}

// Makes the results that are left.
template <class P>
POLYCONV_INLINE void end_walk(MatrixWalk<P> &walk) {
  store_all(walk.tiles, walk.held);
  walk.beside.rows = {};
  if (walk.before.count) end_tiles(walk);
  if constexpr (kBf16Only<P>) walk.beside.results.make(walk.beside.results.left);
  walk.before.count = 0;
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
    fill_flat_strip<typename P::Pixels>(p, task.in, b, strip);
  } else {
    fill_strip<typename P::Pixels>(p, task.in, b, strip);
  }
  return source;
}

// The share's block from `unit` on, of one depth of one image.
POLYCONV_INLINE MatrixBlock block_at(const MatrixPlan &p, const GridShare &share, int64_t unit) {
  const int64_t lines = p.flat ? p.columns : p.lines; // of one depth
  MatrixBlock b = {unit / lines / p.depths, unit / lines % p.depths, unit % lines, p.block_lines};
  if (b.lines > share.last_unit - unit) b.lines = share.last_unit - unit;
  if (b.lines > lines - b.line) b.lines = lines - b.line;
  return b;
}

// The share's units, some blocks at a time.
template <class P>
POLYCONV_INLINE void run_units(const MatrixTask<P> &task, const GridShare &share, int64_t first_panel,
                               int64_t last_panel) {
  const MatrixPlan &p = task.p;
  MatrixSource sources[kMatrixStrips];
  MatrixWalk<P> walk = {task, {p, {}, {}, {}, {}, {}}, {}, {}, {}, 0};
  int64_t count = 0;
  for (int64_t unit = share.first_unit; unit < share.last_unit;) {
    const MatrixBlock b = block_at(p, share, unit);
    sources[count] = bring_in(task, b, task.strip + count * p.strip_bytes);
    unit += b.lines;
    if (++count < p.strips && unit < share.last_unit) continue;
    const int64_t tiles = tiles_of(sources, count) * (last_panel - first_panel);
    walk.beside.input = next_input(task, unit, share.last_unit, count, tiles);
    run_panels(walk, sources, count, first_panel, last_panel);
    end_walk(walk);
    count = 0;
  }
}

// The share's units, block by block: while one is multiplied, the next is split into a strip beside it. A third strip
// keeps the block before for its last results.
template <class P>
POLYCONV_INLINE void run_split_units(const MatrixTask<P> &task, const GridShare &share, int64_t first_panel,
                                     int64_t last_panel) {
  const MatrixPlan &p = task.p;
  if (share.first_unit == share.last_unit) return;
  MatrixSource sources[kMatrixSplitStrips];
  MatrixWalk<P> walk = {task, {p, {}, {}, {}, {}, {}}, {}, {}, {}, 0};
  sources[0] = bring_in(task, block_at(p, share, share.first_unit), task.strip);
  int64_t unit = share.first_unit + sources[0].block.lines;
  for (int64_t now = 0;; now = (now + 1) % kMatrixSplitStrips) {
    const int64_t after = (now + 1) % kMatrixSplitStrips;
    const bool last = unit >= share.last_unit;
    if (!last) {
      const MatrixBlock b = block_at(p, share, unit);
      sources[after] = {b, task.strip + after * p.strip_bytes, nullptr, b.lines, b.lines};
      walk.beside.splitting = splitting(task, sources[after], tiles_of(sources + now, 1) * (last_panel - first_panel));
      unit += b.lines;
    }
    run_panels(walk, sources + now, 1, first_panel, last_panel);
    if (last) break;
    walk.beside.splitting.split(p, walk.beside.splitting.left);
  }
  end_walk(walk);
}

template <class P>
POLYCONV_NOINLINE void run_matrix(const MatrixPlan &p, const LayerRun &arguments, const GridShare &share) {
  typedef typename P::From From;
  const TileScope scope;
  MatrixTask<P> task = {p,
                        arguments,
                        share.scratch + 2 * p.together * kMatrixSums * sizeof(typename P::Sum),
                        reinterpret_cast<typename P::Sum *>(share.scratch),
                        nullptr,
                        nullptr,
                        0};
  for (int64_t panel = share.first_panel; panel < share.last_panel;) {
    task.group = panel / p.panels;
    const int64_t first = panel % p.panels, rest = share.last_panel - panel;
    const int64_t last = first + rest < p.panels ? first + rest : p.panels;
    task.in = static_cast<const From *>(arguments.input) + p.input.offset + task.group * p.group_in * p.input.stride[1];
    task.weights = static_cast<const char *>(arguments.weights) + task.group * p.group_bytes;
    if (P::kParts > 1 && p.split_beside)
      run_split_units(task, share, first, last);
    else
      run_units(task, share, first, last);
    panel += last - first;
  }
  if (arguments.stream) streamed_stores_done();
}

void matrix_task(const MatrixPlan &plan, const LayerRun &arguments, const GridShare &share);
void matrix_task(const MatrixPlan &plan, const LayerRun &arguments, const GridShare &share) {
  switch (plan.products) {
    case MatrixProducts::kBf16: return run_matrix<Bf16Products>(plan, arguments, share);
    case MatrixProducts::kF16: return run_matrix<F16Products>(plan, arguments, share);
    case MatrixProducts::kThree: return run_matrix<ThreeProducts>(plan, arguments, share);
    case MatrixProducts::kSix: return run_matrix<SixProducts>(plan, arguments, share);
    case MatrixProducts::kIntegers: break;
  }
  if (plan.signed_input)
    plan.signed_weights ? run_matrix<IntegerProducts<true, true>>(plan, arguments, share)
                        : run_matrix<IntegerProducts<true, false>>(plan, arguments, share);
  else
    plan.signed_weights ? run_matrix<IntegerProducts<false, true>>(plan, arguments, share)
                        : run_matrix<IntegerProducts<false, false>>(plan, arguments, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA
