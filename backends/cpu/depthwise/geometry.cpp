// geometry.cpp - plans depthwise convolution with channels side by side: tiles, sweeps and walks, shares by what they
// cost. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/driver.hpp"

#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kWalkChannels = 32;     // below, listing pixels for two rows takes as long as filtering them
constexpr double kNarrowCosts = 1.3;      // a column of a tile of four beside one of a wider tile
constexpr int64_t kLine = 64;             // of a cache, bytes
constexpr double kCacheBytesPerUs = 80e3; // of one thread, from and to the second cache
// Of the time that kBytesPerUs allows, as rows come in order: from memory, and from the caches.
constexpr double kFromMemory = 0.3, kFromCaches = 0.18;

// Whether the layer's type has tiles of every width and of two rows (kEveryTile).
bool has_every_tile(const polyconv_layer &layer, Isa isa) {
  return layer.input.type == POLYCONV_F32 || isa == kDots;
}

bool is_narrow(int32_t type) {
  return type == POLYCONV_BF16 || type == POLYCONV_F16;
}

// Whether neighbouring pixels lie so far apart that a sweep's share one or two sets of the first cache.
bool pixels_collide(const polyconv_layer &layer) {
  constexpr int64_t kApart = 2048; // bytes
  return layer.input.stride[kW] * type_bytes(layer.input.type) % kApart == 0;
}

// Whether 3 x 3 sweeps are quicker all the same: a small image's lines are read once each, and what a core fetches by
// itself, the next line of each, is not lost. Of one image, as tiles sum in another order.
bool sweeps_collide(const polyconv_layer &layer, Isa isa) {
  const int64_t images = std::max<int64_t>(layer.output.size[kN], 1);
  return many_registers(isa) && taps(layer) == 9 && layer.stride[2] == 1 &&
         tensor_bytes(layer) <= images * kDepthwiseSweptBytes;
}

// Whether 3 x 3 at stride 2 can go column by column with all channels: that their weights are read again for each
// column must be little beside what it saves.
bool can_walk(const DepthwisePlan &p, const polyconv_layer &layer, Isa isa, int64_t most_bytes) {
  return !p.grouped && many_registers(isa) && has_every_tile(layer, isa) && p.direct && layer.stride[2] == 2 &&
         p.channels >= kWalkChannels && p.row_stride * taps(layer) * 4 <= most_bytes;
}

// Whether it does. Pixels that collide are walked whatever the size, by which bits must not differ: tiles sum in
// another order.
bool walks(const DepthwisePlan &p, const polyconv_layer &layer, Isa isa) {
  constexpr int64_t kRows = 5; // that two rows of results read
  if (pixels_collide(layer)) return can_walk(p, layer, isa, kDepthwiseWalkApartBytes);
  const int64_t read = kRows * layer.input.size[kW] * p.channels * 4;
  return tensor_bytes(layer) >= kStreamBytes &&
         can_walk(p, layer, isa, read >= kDepthwiseWideBytes ? kDepthwiseWalkFarBytes : kDepthwiseWalkBytes);
}

// Whether images are so low that leaving out rows of padding is worth more than sweeping several rows. By their width:
// images are about as high, and a chain's bands, whose sums run in the same order, are not.
bool mostly_padding(const DepthwisePlan &p) {
  constexpr double kWorth = 0.8;
  const Axis &w = p.axis[2];
  const double padding = real(w.before * (w.before + 1) + w.after * (w.after + 1)) / (2 * real(w.step));
  return real(w.out * w.taps) - padding < kWorth * real(round_up(w.out, kDepthwiseRows) * w.taps);
}

// 3 or 5 where the kernel is unrolled: as wide as high, dense, stride 1 or 2, whole vectors of a type that tiles take.
int32_t square_of(const DepthwisePlan &p, const polyconv_layer &layer, Isa isa) {
  const int64_t taps = layer.weights.size[kW], step = layer.stride[2];
  const bool square = layer.weights.size[kD] == 1 && layer.weights.size[kH] == taps && layer.stride[1] == step;
  const bool dense = layer.dilation[1] == 1 && layer.dilation[2] == 1 && step <= 2;
  const bool unrolled = layer.input.type != POLYCONV_F64 && layer.input.type != POLYCONV_U16;
  const bool whole = layer.input.size[kC] * 4 >= vector_bytes(isa);
  const bool known = taps == 3 || (taps == 5 && !p.grouped);
  const bool apart = pixels_collide(layer) && !sweeps_collide(layer, isa) && !(taps == 3 && walks(p, layer, isa));
  if (!p.grouped && (apart || (taps == 5 && mostly_padding(p)))) return 0;
  return square && dense && whole && unrolled && known ? static_cast<int32_t>(taps) : 0;
}

// Whether what padding contributes is 0.
bool pads_with_nothing(const DepthwisePlan &p, const polyconv_layer &layer) {
  return layer.pad_mode == POLYCONV_PAD_ZERO ||
         (layer.pad_mode == POLYCONV_PAD_CONSTANT && layer.pad_value == p.zero_point);
}

// Bytes from one pixel of the input to the next, and of those the largest power of two that divides them.
int64_t pixels_apart(const DepthwisePlan &p) {
  return std::max<int64_t>(p.input.stride[kW] * 4, kLine);
}
int64_t pixels_align(const DepthwisePlan &p) {
  return std::max(pixels_apart(p) & -pixels_apart(p), kLine);
}

// Pixels of which a line each stays in the first cache: lines a power of two apart share few sets, and mostly each is
// in another page.
int64_t lines_kept(const DepthwisePlan &p) {
  constexpr int64_t kPage = 4096, kPages = 48;
  return std::min(kRingBytes / pixels_align(p), kPages * kPage / std::min(pixels_apart(p), kPage));
}

// Whether what a row of results reads would not stay there at stride 1, as pixels share a quarter of the sets or fewer:
// sweeps of two rows read it once less often.
bool nine_collides(const DepthwisePlan &p) {
  constexpr int64_t kApart = 256;
  const Axis &h = p.axis[1], &w = p.axis[2];
  return h.step == 1 && pixels_align(p) >= kApart && 2 * (h.taps * w.in + w.out) > lines_kept(p);
}

// Whether nine weights in registers are all that the layer needs: padding is nothing, and meets no column but the first
// and the last of a row; nothing needs fetching early, and pixels do not meet in the first cache. Sweeps sum in another
// order, so that where an image's bits shall be those of any batch, one image decides.
bool has_nine(const DepthwisePlan &p, const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  const Axis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  const bool square = taps(layer) == 9 && h.taps == 3 && w.taps == 3 && h.step == w.step && w.step <= 2;
  const int64_t lacks = (w.out - 1) * w.step + w.taps - w.before - w.in;
  const bool invariant = policy.determinism >= POLYCONV_DETERMINISM_INVARIANT;
  const int64_t bytes = tensor_bytes(layer) / (invariant ? std::max<int64_t>(layer.output.size[kN], 1) : 1);
  return square && h.dilation == 1 && w.dilation == 1 && d.before == 0 && d.after == 0 && !many_registers(isa) &&
         !p.grouped && layer.input.type == POLYCONV_F32 && p.channels * 4 >= vector_bytes(isa) &&
         pads_with_nothing(p, layer) && w.before <= 1 && lacks <= 1 && w.out > 1 && bytes < kDepthwiseAheadBytes &&
         !pixels_collide(layer) && !nine_collides(p);
}

// The height of sweeps that wastes least: a taller one loads fewer rows twice.
int64_t rows_of(const DepthwisePlan &p, bool tall, bool four) {
  if (!p.square) return 1;
  const Axis &h = p.axis[1];
  int64_t best = kDepthwiseFew;
  double least = 1e30;
  for (const int64_t rows : {int64_t{kDepthwiseFew}, int64_t{kDepthwiseRows}, int64_t{kDepthwiseTall}}) {
    if ((rows == kDepthwiseTall && !tall) || (rows == kDepthwiseRows && !four)) continue;
    const double groups = real(ceil_div(h.out, rows)), lines = real((rows - 1) * h.step + h.taps);
    const double cost = groups * (real(rows * h.taps * h.taps) + 3.0 * lines);
    if (cost < least) least = cost, best = rows;
  }
  return best;
}

// The width of a tile of any kernel that wastes least of a row, of those that filter_any has.
int64_t columns_of(const DepthwisePlan &p, const polyconv_layer &layer, Isa isa) {
  const int64_t out = p.axis[2].out;
  if (p.grouped) return out > kDepthwiseColumns ? kGroupedColumns : kDepthwiseColumns;
  const bool every = has_every_tile(layer, isa), whole = p.channels * sum_bytes(layer.sum_type) >= vector_bytes(isa);
  if (p.twins && round_up(out, kDepthwiseSeven) <= round_up(out, kDepthwiseColumns)) return kDepthwiseSeven;
  if (p.twins || !p.near || (!whole && (!every || p.axis[2].step != 1))) return kDepthwiseColumns;
  if (!every || !whole) return kDepthwiseWide;
  const int64_t best =
      round_up(out, kDepthwiseSeven) < round_up(out, kDepthwiseWide) ? kDepthwiseSeven : kDepthwiseWide;
  // A narrow tile shares less, and is of one row.
  return kNarrowCosts * real(round_up(out, kDepthwiseColumns)) < real(round_up(out, best)) ? kDepthwiseColumns : best;
}

// Whether tiles of any kernel are of two rows of results: some source rows are read by both, and registers hold them.
bool pairs_rows(const DepthwisePlan &p, const polyconv_layer &layer, Isa isa) {
  const Axis &h = p.axis[1];
  const bool every = has_every_tile(layer, isa) && many_registers(isa);
  return every && !p.square && !p.grouped && p.near && p.tile_columns != kDepthwiseColumns &&
         p.channels * 4 >= vector_bytes(isa) && h.dilation == 1 && h.taps > h.step && h.out > 1;
}

// Rows of results of which a line of channels stays in the first cache with what it reads until its next vector comes.
int64_t nine_rows(const DepthwisePlan &p) {
  const Axis &h = p.axis[1], &w = p.axis[2];
  const int64_t read = std::min(w.in, kDepthwiseChunk * w.step), row = h.step * read + std::min(w.out, kDepthwiseChunk);
  const int64_t rows = (lines_kept(p) - (h.taps - h.step) * read) / row;
  return std::clamp<int64_t>(rows, 1, std::max<int64_t>(h.out, 1));
}

void set_tiles(DepthwisePlan &p, const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  const Axis &h = p.axis[1], &w = p.axis[2];
  const bool loops = layer.input.type == POLYCONV_F64 || layer.input.type == POLYCONV_U16;
  p.near = w.dilation == 1 && w.step <= 2 && !loops;
  p.nine = has_nine(p, layer, policy, isa);
  p.square = p.nine ? 0 : square_of(p, layer, isa);
  // At stride 2 a sweep of two rows shares little, and spills where there are few registers.
  p.twins = !many_registers(isa) && !p.nine && !p.grouped && p.near && layer.input.type == POLYCONV_F32 &&
            taps(layer) > 1 && p.channels * 4 >= 2 * vector_bytes(isa) && (!p.square || w.step == 2);
  if (p.twins) p.square = 0;
  const int64_t bytes = tensor_bytes(layer);
  const bool plane =
      layer.input.type == POLYCONV_F32 || layer.weights.size[kD] == 1; // a volume's rows are many streams
  const bool tiles = !p.square && !p.grouped && has_every_tile(layer, isa) && layer.weights.size[kH] > 1 && plane;
  p.ahead = (p.square && bytes >= kDepthwiseAheadBytes) || (tiles && bytes >= kDepthwiseTileAheadBytes);
  // Of rows that are fetched ahead at stride 2, fewer at a time stay in the second cache until they are read. Between
  // the limits seven rows that pass the caches by were up to 1.6 times as slow as four.
  const bool may_tall = !p.ahead || (h.step == 1 && (bytes < kStreamBytes || bytes >= kDepthwiseMemoryBytes));
  const bool tall = many_registers(isa) && p.square == 3 && may_tall && !p.grouped &&
                    (layer.input.type == POLYCONV_F32 || is_narrow(layer.input.type));
  p.walks = p.square == 3 && walks(p, layer, isa);
  p.tile_rows = p.walks ? kDepthwiseWalk : rows_of(p, tall, many_registers(isa));
  if (p.nine) p.tile_rows = p.direct ? nine_rows(p) : kDepthwiseFew;
  p.skips = !p.square && pads_with_nothing(p, layer);
  p.scales = !p.grouped && p.direct && taps(layer) == 1 && w.step <= 2 && !loops && p.channels * 4 >= vector_bytes(isa);
  p.tile_columns = p.scales             ? kDepthwiseChunk
                   : p.square || p.nine ? p.direct ? kDepthwiseChunk : kDepthwiseSweep
                                        : columns_of(p, layer, isa);
  if (pairs_rows(p, layer, isa)) p.tile_rows = kDepthwisePair;
  p.lines = (p.tile_rows - 1) * h.step + h.taps;
  const bool any = !p.square && !p.scales && !p.nine;
  const int64_t columns = round_up(std::min(w.out, kDepthwiseChunk), any ? p.tile_columns : 1);
  p.line_pixels = (columns - 1) * w.step + (w.taps - 1) * w.dilation + 1;
  p.row_groups = ceil_div(h.out, p.tile_rows);
}

// Parts of the channels, so that a row of results finds in the second cache what the one before has read.
int64_t parts_of_pass(const DepthwisePlan &p, const polyconv_layer &layer) {
  const int64_t read = p.axis[0].taps * p.lines * p.axis[2].in * layer.input.size[kC] * type_bytes(layer.input.type);
  const int64_t written = p.tile_rows * p.axis[2].out * p.channels * type_bytes(layer.result.type);
  return p.walks ? 1 : ceil_div(read + written, kDepthwisePassBytes);
}

// Blocks of channels, so many items that the tasks' shares are nearly equal, and the tasks.
void set_items(DepthwisePlan &p, const polyconv_layer &layer, int64_t tasks) {
  const int64_t units = std::max<int64_t>(p.channels / kDepthwiseUnit, 1);
  const int64_t groups = p.axis[0].out * p.row_groups * p.epilogue.result.size[kN];
  p.blocks = ceil_div(p.channels, kDepthwiseBlock);
  p.parts = 1;
  double least = 1e30;
  for (int64_t parts = 1; parts <= std::min(units, tasks); ++parts) {
    const double largest = real(ceil_div(groups * parts, tasks)) / real(parts) * (1 + 0.02 * real(parts));
    if (largest < 0.98 * least) least = largest, p.parts = parts;
  }
  p.parts = std::max(p.parts, std::min({parts_of_pass(p, layer), p.blocks, units}));
  p.blocks = p.walks ? p.parts : std::min(round_up(p.blocks, p.parts), units / p.parts * p.parts);
  p.items = groups * p.parts;
  p.tasks = std::clamp<int64_t>(p.items, 1, tasks);
}

// Cycles of all multiply-adds: each tap is one and, unless unrolled, a load and one of a pointer.
double multiply_cycles(const DepthwisePlan &p, const polyconv_layer &layer, double results) {
  return results * real(taps(layer)) *
         (p.square || p.nine ? 0.55
          : p.near           ? 0.75
                             : 1.3) *
         (layer.input.type == layer.sum_type ? 1.0 : 1.5);
}

// The same of groups, for `vectors` of results at each of `columns` columns of tiles: a pick takes as long as a
// multiply-add, longer from two vectors, and long where there is no instruction for it.
double grouped_cycles(const DepthwisePlan &p, const polyconv_layer &layer, Isa isa, int64_t lanes, double columns) {
  const int64_t group_out = p.channels / layer.groups;
  const int64_t groups = group_out >= lanes && group_out % lanes == 0 ? 1 : ceil_div(lanes, group_out);
  const bool one = groups * p.group_in <= lanes && (lanes % group_out == 0 || group_out % lanes == 0);
  const double pick = (isa == kBaseline          ? 6.0
                       : one                     ? 0.6
                       : vector_bytes(isa) == 32 ? 1.6
                                                 : 1.1) +
                      (layer.input.type == layer.sum_type ? 0.0 : 0.5);
  const double multiply = layer.sum_type == POLYCONV_S32 ? 1.5 : isa == kBaseline ? 1.0 : 0.55;
  const Axis &h = p.axis[1], &w = p.axis[2];
  const double rows = real(p.tile_rows), products = real(taps(layer));
  const double picks = p.square ? real(w.step * ((p.tile_rows - 1) * h.step + h.taps)) : products;
  const double begin = p.square ? 20.0 : 3 + 0.4 * products;
  return columns *
         (real(p.group_in) * (rows * products * multiply + picks * pick + (p.square ? 3.0 : 0.2 * products)) + begin);
}

// Microseconds of one thread. Each source pixel of a chunk is looked up once; a row that waits for its epilogue adds to
// it.
double serial_us(const DepthwisePlan &p, const polyconv_layer &layer, Isa isa, int64_t lanes) {
  const double vectors = real(ceil_div(p.channels, lanes));
  const double groups = real(p.row_groups * p.axis[0].out * layer.output.size[kN]);
  const double sweeps = groups * real(ceil_div(p.axis[2].out, p.tile_columns));
  const double columns =
      groups * real(p.square || p.scales || p.nine ? p.axis[2].out : round_up(p.axis[2].out, p.tile_columns));
  const double results = columns * real(p.tile_rows) * vectors;
  double cycles =
      p.grouped ? grouped_cycles(p, layer, isa, lanes, columns * vectors) : multiply_cycles(p, layer, results);
  cycles += results * (p.direct ? 0.5 : 12.0) + (p.square ? 30.0 * real(p.group_in) * vectors : 20.0) * sweeps;
  cycles += groups * real(p.axis[0].taps * p.lines * p.line_pixels);
  return cycles * cycle_us(isa);
}

} // namespace

DepthwisePlan depthwise_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  DepthwisePlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  p.zero_point = is_quantised(layer) ? layer.input_zero_point : 0;
  const int32_t type = layer.result.type;
  const bool integers = p.epilogue.integer && !p.epilogue.save;
  p.narrow = p.epilogue.quick && is_narrow(type) && layer.input.type == type;
  p.direct = (p.epilogue.simple || integers || p.narrow) && layer.result.stride[kC] == 1;
  p.channels = layer.output.size[kC];
  p.group_in = layer.weights.size[kC];
  p.grouped = p.group_in > 1 || p.channels != layer.input.size[kC];
  p.row_stride = round_up(p.channels, kDepthwiseUnit);
  set_tiles(p, layer, policy, isa);

  const int64_t bytes = sum_bytes(layer.sum_type), lanes = vector_bytes(isa) / bytes;
  p.rows_at = p.nine ? 0 : p.axis[0].taps * p.lines * p.line_pixels * 8;
  p.sums_at = p.nine ? 0 : round_up(p.rows_at + p.axis[0].taps * p.lines * 8, 64);
  p.scratch_bytes = p.sums_at + (p.direct ? 0 : p.tile_rows * p.tile_columns * kDepthwiseSums * bytes);
  const double us = p.serial_us = serial_us(p, layer, isa, lanes);
  const double moved = real(tensor_bytes(layer));
  set_items(p, layer, tasks_for(policy, std::max(us, moved / kCacheBytesPerUs)));
  p.estimate_us = estimate_us(p.tasks, us, moved * (p.square && p.ahead ? kFromMemory : kFromCaches));
  return p;
}

} // namespace polyconv::cpu
