// geometry.cpp - plans the dense kernel: where its source lies, blocks and shares by what they cost. Compiled for the
// baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/dense/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cmath>

namespace polyconv::cpu {
namespace {

constexpr int64_t kMostBlocks = 4;   // of channels that share a strip: 1 MiB at most
constexpr int64_t kFewChannels = 16; // up to here one run of all taps of a line beats leaving padding out
constexpr int64_t kManyFilters = 128;
constexpr int64_t kLine = 64;
constexpr double kWeightsBytesPerUs = 80e3;               // of one thread at best: from the second cache
constexpr double kCachedBytes = 8e6, kTurnedBytes = 0.75; // of tensors that are turned: beyond a cache, as many more

DenseArithmetic arithmetic_of(const polyconv_layer &layer, Isa isa) {
  if (layer.sum_type == POLYCONV_F64) return DenseArithmetic::kF64;
  const bool dots = isa == kDots || isa == kByteDots;
  if (layer.sum_type == POLYCONV_S32) return dots ? DenseArithmetic::kQuads : DenseArithmetic::kPairs;
  return dots && layer.input.type == POLYCONV_BF16 ? DenseArithmetic::kBf16 : DenseArithmetic::kF32;
}

// Whether the epilogue is a simple one but for an f32 residual, which lies as the result does.
bool adds(const polyconv_layer &layer, const DensePlan &p) {
  const Epilogue &e = p.epilogue;
  return layer.sum_type == POLYCONV_F32 && layer.result.type == POLYCONV_F32 && !e.save && !e.slow &&
         !e.rules.has_scale && e.rules.residual_from != POLYCONV_RESIDUAL_NONE && e.rules.residual_scale == 1.0f &&
         layer.residual.type == POLYCONV_F32 && layer.residual.stride[p.along_w ? sdk::kW : sdk::kC] == 1;
}

// Whether tiles become results in registers: floats with at most a bias, a residual and relu, clipped perhaps, or f32's
// hard swish; integers with at most a bias.
bool stores_tiles(const DensePlan &p) {
  const Epilogue &e = p.epilogue;
  const bool last = e.result.stride[sdk::kC] == 1;
  const int32_t activation = e.rules.activation;
  const bool quick =
      activation == POLYCONV_ACT_NONE || activation == POLYCONV_ACT_RELU || activation == POLYCONV_ACT_CLIPPED_RELU;
  switch (p.arithmetic) {
    case DenseArithmetic::kF32:
      return (e.simple || p.adds) && (quick || activation == POLYCONV_ACT_HARD_SWISH) && (last || p.along_w);
    case DenseArithmetic::kBf16:
      return quick && ((e.simple && (last || p.along_w)) || (e.quick && e.result.type == POLYCONV_BF16 && last));
    case DenseArithmetic::kPairs:
    case DenseArithmetic::kQuads: return e.integer && !e.save && last;
    default: return false;
  }
}

// Whether sums are f32.
bool is_float(const DensePlan &p) {
  return p.arithmetic == DenseArithmetic::kF32 || p.arithmetic == DenseArithmetic::kBf16;
}

// The step of W where tiles of one vector share what their taps read; 0: they do not. One tap shares nothing, but may
// be of a pair of lines, and two are what a gradient at stride 2 has, at step 1.
int32_t shares(const DensePlan &p, Isa isa) {
  const Axis &w = p.axis[2];
  const bool few = p.group_out <= p.panel_channels / 2 && p.pixel > 1;
  const bool near = w.taps <= kDenseTaps && w.dilation == 1 && w.step <= (w.taps == kDenseTaps ? 2 : 1) && w.out > 1;
  const AxisOutputs all = outputs_inside(w, 0);
  if (w.taps == 1 && (p.taps == 1 || all.first > 0 || all.last < w.out || w.out > kDensePairMost)) return 0;
  return is_float(p) && many_registers(isa) && few && near && p.channel_blocks == 1 ? static_cast<int32_t>(w.step) : 0;
}

// What the layer alone decides.
DensePlan make_dense(const polyconv_layer &layer, Isa isa) {
  DensePlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  p.arithmetic = arithmetic_of(layer, isa);
  p.zero_point = layer.input_zero_point;
  if (p.arithmetic == DenseArithmetic::kQuads) { // kByteDots subtracts 128 as it multiplies
    p.offset = p.zero_point + (layer.input.type == POLYCONV_S8 ? 128 : 0) - (isa == kDots ? 0 : 128);
  }
  const bool zero = sdk::is_quantised(layer) && layer.pad_mode == POLYCONV_PAD_ZERO;
  p.pad_value = zero ? layer.input_zero_point : layer.pad_value;
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i), p.pitch[i] = p.axis[i].taps == 1 ? p.axis[i].step : 1;
  p.taps = sdk::taps(layer);
  p.groups = layer.groups;
  p.group_in = layer.weights.size[sdk::kC];
  p.group_out = layer.output.size[sdk::kC] / layer.groups;
  p.pixel = ceil_div(p.group_in, element_channels(p.arithmetic));
  p.tile_pixels = many_registers(isa) ? 14 : 6;
  p.panel_channels = 2 * vector_bytes(isa) / element_bytes(p);
  p.panels = ceil_div(p.group_out, p.panel_channels);
  const int64_t blocks =
      std::clamp<int64_t>(ceil_div(p.pixel * p.taps * p.panel_channels * element_bytes(p), kDensePanelBytes), 1,
                          std::max<int64_t>(p.pixel / kFewChannels, 1));
  p.channel_block = blocks == 1 ? p.pixel : round_up(ceil_div(p.pixel, blocks), kFewChannels);
  p.channel_blocks = ceil_div(p.pixel, p.channel_block);
  const polyconv_tensor &r = layer.result;
  p.along_w = r.stride[sdk::kW] == 1 && r.stride[sdk::kC] != 1 && p.group_out > 1;
  p.adds = adds(layer, p);
  p.stores_tiles = stores_tiles(p);
  p.shares = shares(p, isa);
  const bool one_step = p.arithmetic == DenseArithmetic::kF32 && p.axis[2].taps == 1 && p.pixel == 1; // of a run
  p.is_long = is_float(p) && many_registers(isa) && p.group_out <= p.panel_channels / 2 && (p.taps == 1 || one_step) &&
              p.channel_blocks == 1 && p.stores_tiles && !p.along_w;
  if (p.is_long) p.tile_pixels = kDenseLong;
  return p;
}

// Whether what padding of W such tiles meet is the first or the last pixel of a line alone; says which.
bool skips_ends(DensePlan &p) {
  const Axis &w = p.axis[2];
  for (int64_t t = 0; t < w.taps; ++t) {
    const AxisOutputs inside = outputs_inside(w, t);
    const bool first = inside.first > 0, last = inside.last < w.out;
    if (inside.first > (t == 0) || inside.last < w.out - (t == w.taps - 1)) return false;
    if (t == 0) p.skips_first = first;
    if (t == w.taps - 1) p.skips_last = last;
  }
  return true;
}

// Whether tiles that leave out at most their first or last pixel are all that zero padding of W needs.
bool leaves_padding_out(const DensePlan &p) {
  const Axis &w = p.axis[2];
  if (w.before == 0 && w.after == 0) return true;
  if (p.offset != 0) return false; // its share of a sum is that of all columns
  if (w.taps == 1 || p.pixel <= kFewChannels) return false;
  for (int64_t t = 0; t < w.taps; ++t) {
    const AxisOutputs c = outputs_inside(w, t);
    if (c.first < c.last && c.first + w.out - c.last > 1) return false;
  }
  return true;
}

// The layer whose images of one pixel are neighbours along W, wherever its channels lie. Not along H: windows of a
// chain step from row to row there.
polyconv_layer with_pixels_in_line(polyconv_layer layer) {
  for (polyconv_tensor *t : {&layer.input, &layer.output, &layer.result, &layer.residual, &layer.saved})
    if (sdk::spatial(*t) == 1) t->stride[sdk::kW] = t->stride[sdk::kN];
  return layer;
}

// Whether stored channels are the arithmetic's elements, side by side: of several channels those of a pixel fill
// theirs, and elements lie whole elements apart.
bool is_as_wanted(const DensePlan &p, const polyconv_tensor &in) {
  const int64_t several = element_channels(p.arithmetic);
  const bool same = several == 1 ? in.type == POLYCONV_F32 || in.type == POLYCONV_F64
                                 : in.type == POLYCONV_BF16 || in.type == POLYCONV_U8;
  for (const int i : {sdk::kN, sdk::kD, sdk::kH, sdk::kW})
    if (in.size[i] > 1 && in.stride[i] % several != 0) return false;
  return same && p.arithmetic != DenseArithmetic::kPairs && p.group_in % several == 0 &&
         (in.stride[sdk::kC] == 1 || in.size[sdk::kC] == 1);
}

// The output as lines of columns, and where the source is read.
void set_source(DensePlan &p, const polyconv_layer &layer) {
  const polyconv_tensor &in = layer.input;
  const bool valued = layer.pad_mode == POLYCONV_PAD_ZERO || layer.pad_mode == POLYCONV_PAD_CONSTANT;
  p.skips_lines = valued && p.pad_value == p.zero_point;
  p.padded = !(p.skips_lines && (p.shares ? skips_ends(p) : leaves_padding_out(p)));
  if (p.padded) p.skips_first = p.skips_last = 0;
  const int64_t bytes = element_bytes(p);
  // One tap that leaves pixels out is brought together where many filters read it: a line of a few tiles at a time
  // costs each panel more.
  const bool apart_for_many = p.taps == 1 && !takes_every_pixel(p.axis) && p.group_out >= kManyFilters;
  const bool as_wanted = is_as_wanted(p, in) && !p.padded && !apart_for_many;
  // Pixels whole pages apart fall into one set of the L1 cache.
  const bool one_result = p.taps > 1 && p.epilogue.whole_images && sdk::spatial(layer.output) == 1;
  const int64_t apart = one_result ? 1 : p.axis[2].step * in.stride[sdk::kW] / element_channels(p.arithmetic) * bytes;
  const bool few = !p.shares && p.pixel <= kFewChannels && p.axis[2].taps > 1 && p.axis[2].dilation == 1;
  p.in_place = as_wanted && apart % (p.taps > 1 ? 2048 : 4096) != 0 && !few;
  p.padded = p.padded || (few && !p.in_place);
  if (p.in_place)
    for (const int i : {sdk::kN, sdk::kD, sdk::kH, sdk::kW}) p.input.stride[i] /= element_channels(p.arithmetic);
  p.one_run = p.padded && !p.shares && p.axis[2].dilation == 1 && p.channel_blocks == 1;
  const bool in_line = takes_every_pixel(p.axis) && one_pixel_stride(in);
  p.flat = p.taps == 1 && p.epilogue.whole_images && (!p.in_place || in_line);
  p.images = layer.output.size[sdk::kN];
  p.over_images = p.in_place && one_result && p.images > 1 && one_image_stride(p.epilogue);
  p.depths = p.axis[0].out, p.lines = p.axis[1].out, p.columns = p.axis[2].out;
  p.column_step = p.axis[2].step, p.column_before = p.axis[2].before, p.column_pitch = p.pitch[2];
  if (p.over_images) p.columns = p.images, p.images = 1;
  if (!p.flat) return;
  p.skips_lines = 0;
  p.one_stride = in_line;
  p.columns *= p.depths * p.lines;
  p.depths = p.lines = p.column_step = p.column_pitch = 1;
  p.column_before = 0;
  if ((!p.in_place || one_image_stride(in)) && one_image_stride(p.epilogue)) p.columns *= p.images, p.images = 1;
}

bool is_dilated(const Axis &axis) {
  return axis.taps > 1 && axis.dilation > 1;
}

// Blocks of lines and tiles whose source stays in the cache, and the scratch for them. Every block reads all weights
// once, so that blocks are as large as one block of channels allows.
void set_blocks(DensePlan &p) {
  const int64_t bytes = element_bytes(p);
  const Axis &w = p.axis[2], &h = p.axis[1];
  p.tiles = ceil_div(p.columns, p.tile_pixels);
  const int64_t tile = ceil_div(p.columns, std::max<int64_t>(p.tiles, 1));
  cut_tiles(p);
  p.pairs = p.shares && p.stores_tiles && !p.along_w && p.lines > 1 && p.tile_size >= kDensePairLeast &&
            p.tile_size + (p.long_tiles > 0) <= kDensePairMost;
  if (w.taps == 1 && !p.pairs) p.shares = 0;
  const int64_t step = p.column_step / p.column_pitch;
  p.strip_pixel = p.pixel;
  // An odd number of cache lines between pixels spreads them over the sets of the L1 cache.
  if (!p.padded && step * p.pixel * bytes % 2048 == 0) p.strip_pixel += kLine / bytes;
  if (p.flat && p.pixel * bytes % 2048 == 0) p.strip_pixel = p.pixel + kLine / bytes;
  const int64_t pixel = p.in_place ? p.pixel : p.strip_pixel;
  const auto columns_in = [&](int64_t columns) { return (columns - 1) * step + (w.taps - 1) * w.dilation + 1; };
  // Dilated windows reach so far that a strip of few blocks of channels would be a block of few results.
  const bool dilated = is_dilated(h) || is_dilated(w);
  const int64_t at_once = p.in_place || dilated ? p.channel_blocks : std::min(p.channel_blocks, kMostBlocks);
  const int64_t reach = p.axis[0].taps * pixel * bytes / at_once;
  const auto lines_in = [&](int64_t lines) {
    return p.flat ? 1 : (lines - 1) * (h.step / p.pitch[1]) + (h.taps - 1) * h.dilation / p.pitch[1] + 1;
  };
  const auto fits = [&](int64_t lines, int64_t tiles) {
    return lines_in(lines) * columns_in(std::min(tiles * tile, p.columns)) * reach <= kDenseBlockBytes;
  };
  const auto cut = [&] {
    p.block_lines = 1, p.block_tiles = std::max<int64_t>(p.tiles, 1);
    while (p.block_tiles > 1 && !fits(1, p.block_tiles)) p.block_tiles = ceil_div(p.block_tiles, 2);
  };
  cut();
  while (p.block_tiles == p.tiles && p.block_lines < p.lines && fits(p.block_lines + 1, p.block_tiles)) ++p.block_lines;
  if (p.pairs && p.block_lines > 1 && p.block_lines < p.lines) p.block_lines -= p.block_lines % 2;
  // Of one output line the lines between its taps are not brought in.
  if (!p.in_place && is_dilated(h) && lines_in(p.block_lines) > h.taps * p.block_lines) {
    p.pitch[1] = h.dilation;
    cut();
  }
  p.strip_line = columns_in(std::min(p.block_tiles * tile, p.columns)) * p.strip_pixel;
  p.strip_lines = lines_in(p.block_lines);
  // In place they may go round where no column inside is so far: then nobody reads by them.
  const auto elements = [&](int64_t columns) {
    return static_cast<int64_t>(static_cast<uint64_t>(columns) * static_cast<uint64_t>(p.input.stride[sdk::kW]));
  };
  p.pixel_stride = p.over_images ? p.input.stride[sdk::kN] : p.in_place ? elements(w.step) : step * p.strip_pixel;
  p.tap_stride = p.in_place ? elements(w.dilation) : w.dilation * p.strip_pixel;
}

void set_scratch(DensePlan &p) {
  const int64_t bytes = element_bytes(p);
  const int64_t strip = p.in_place ? 0 : p.axis[0].taps * p.strip_lines * p.strip_line * bytes;
  const int64_t tile = p.tile_pixels * p.panel_channels * bytes;
  p.strip_at = 0;
  p.sums_at = round_up(strip, kLine);
  p.runs_at = p.sums_at + round_up(p.channel_blocks > 1 ? p.block_lines * p.block_tiles * tile : 0, kLine);
  constexpr int64_t kRunBytes = 48;
  p.scratch_bytes = round_up(p.runs_at + p.taps * kRunBytes, kLine);
}

// The part of an axis's taps that read something.
double inside_of(const Axis &axis) {
  int64_t taps = 0;
  for (int64_t t = 0; t < axis.taps; ++t) {
    const AxisOutputs some = outputs_inside(axis, t);
    taps += std::max<int64_t>(some.last - some.first, 0);
  }
  return real(taps) / real(std::max<int64_t>(axis.out * axis.taps, 1));
}

// Costs in multiply-adds of vectors, for one line or tile (a unit) against one panel, and of bringing in its source.
struct Costs {
  double multiply, source;
};

Costs costs_of(const DensePlan &p) {
  const double vector = real(p.panel_channels / 2), columns = real(p.columns), taps_k = real(p.taps * p.pixel);
  const double tiles = real(p.tiles), vectors = real(ceil_div(p.groups * p.group_out, p.panel_channels / 2));
  const double per_panel = std::clamp(vectors / real(p.groups * p.panels), 1.0, 2.0); // idle lanes cost as much
  // A tile of few pixels waits for its own sums, or has several chains of them; a tile and a run cost something of
  // their own.
  const double pixels = std::max(columns / std::max(tiles, 1.0), (p.chains ? 2 : p.pairs ? 4 : 8) / per_panel);
  const Axis &w = p.axis[2];
  const double runs = p.one_run || p.shares ? real(p.taps / w.taps) : real(p.taps);
  // Of 16 registers the beginning is as long for half of the sums; a run of one step has next to none.
  const double run = p.tile_pixels < 14 ? 30 : p.is_long ? 12 : 20;
  const bool few_lines = p.skips_lines && p.lines > 0;
  const double out = real(p.axis[1].out), padding = real(p.axis[1].before + p.axis[1].after);
  const double inside = few_lines && p.is_long    ? inside_of(p.axis[0]) * inside_of(p.axis[1])
                        : few_lines && p.taps > 1 ? 1 - std::min(padding / (out * real(p.axis[1].taps)), 0.9)
                                                  : 1;
  const double turned = p.along_w ? 17 : 0;
  const bool stored = p.stores_tiles && !p.along_w;
  // One channel a group: the lanes of a vector leave one by one.
  const double lane = p.epilogue.result.stride[sdk::kC] == 1 ? 20 : 75;
  const double alone = p.group_out > 1 ? 0 : lane * real(std::min(p.groups, p.panel_channels / 2));
  const double added = p.adds ? 3 : 0;
  const double swish = stored && p.epilogue.rules.activation == POLYCONV_ACT_HARD_SWISH ? 5 : 0; // a division
  const double finish = turned + alone + added + swish + (stored ? 3 : p.epilogue.simple || p.stores_tiles ? 16 : 40);
  Costs c;
  // One vector of weights meets as many broadcasts as multiply-adds: the loads decide, unless taps share them.
  const double loads = per_panel < 2 && !p.shares ? 1.25 : 1.0;
  c.multiply = tiles * (taps_k * inside * pixels * per_panel * loads + 50 + run * runs * (p.is_long ? inside : 1.0)) +
               columns * per_panel * finish;
  c.source = 0;
  if (!p.in_place) {
    const bool last = p.input.stride[sdk::kC] == 1 && p.arithmetic != DenseArithmetic::kPairs;
    const double again = 1 + real(std::max<int64_t>(p.strip_lines - p.block_lines * p.axis[1].step / p.pitch[1], 0)) /
                                 real(p.strip_lines);
    const bool merged = last && p.strip_pixel == p.pixel && p.input.stride[sdk::kW] == p.pixel;
    const double vectors_in = real(ceil_div(p.pixel, p.panel_channels / 2)) / real(p.pixel); // of an element
    const double element = merged         ? 4 / vector
                           : last         ? 4 * vectors_in + 4 / real(p.pixel)
                           : p.pixel >= 8 ? 12 * vectors_in
                                          : 4;
    double elements = columns * real(p.column_step / p.column_pitch * (p.axis[1].step / p.pitch[1])) * again;
    if (is_dilated(p.axis[1]) || is_dilated(w)) // what blocks have of each other's source
      elements =
          real(p.strip_lines * ceil_div(p.tiles, p.block_tiles) * p.strip_line / p.strip_pixel) / real(p.block_lines);
    c.source = elements * real(p.pixel * p.axis[0].taps) * element;
  }
  if (p.line_units > 1) c.multiply /= tiles, c.source /= tiles;
  return c;
}

double share_cost(const DensePlan &p, const Costs &costs, const Grid &grid) {
  const int64_t panels = largest_panels(grid);
  return real(largest_units(grid)) *
         (costs.multiply * real(panels) + costs.source * real(ceil_div(panels, std::max<int64_t>(p.panels, 1))));
}

// Cuts a share into up to `wanted` pieces where that costs next to nothing: between blocks; inside of them where the
// weights, which each piece reads, stay in the L2 cache; and between panels, which all read the block's source anyway,
// while bringing it in, which each task that takes part does, is little beside multiplying.
void set_pieces(DensePlan &p, const Costs &costs, int64_t wanted) {
  constexpr double kAgain = 0.03;
  if (wanted == 1) return;
  const int64_t units = largest_units(p.grid), panels = largest_panels(p.grid);
  const int64_t blocks = ceil_div(units, p.line_units == 1 ? p.block_lines : p.block_tiles);
  const int64_t weights = panels * p.panel_channels * p.taps * p.pixel * element_bytes(p);
  const bool small = p.in_place && weights <= kDenseCutBytes;
  p.grid.unit_pieces = small ? std::min(wanted, units) : ceil_div(blocks, ceil_div(blocks, wanted));
  const auto least = static_cast<int64_t>(std::ceil(costs.source / (kAgain * costs.multiply)));
  p.grid.panel_pieces =
      std::clamp(panels / std::max<int64_t>(least, 1), int64_t{1}, std::max<int64_t>(wanted / p.grid.unit_pieces, 1));
}

} // namespace

DensePlan dense_geometry(const polyconv_layer &given, const polyconv_policy &policy, Isa isa) {
  const polyconv_layer layer = with_pixels_in_line(given);
  DensePlan p = make_dense(layer, isa);
  set_source(p, layer);
  // The sums of a pixel alone must not differ from those of one of many where bits shall be those of any batch.
  p.chains = p.columns == 1 && policy.determinism < POLYCONV_DETERMINISM_INVARIANT;
  set_blocks(p);
  set_scratch(p);
  const int64_t lines = p.images * p.depths * p.lines;
  p.line_units = p.block_tiles < p.tiles || lines < 4 * policy.threads ? std::max<int64_t>(p.tiles, 1) : 1;
  if (p.lines > 1 && p.line_units > 1 && lines >= policy.threads) p.line_units = 1;
  p.units = lines * p.line_units;
  const Costs costs = costs_of(p);
  const double pairs = p.arithmetic == DenseArithmetic::kPairs ? 1.5 : 1.0; // a multiplication and an addition
  const double step_us = cycle_us(isa) / 2 * pairs;
  const int64_t panels = p.groups * p.panels;
  const auto cost = [&](const Grid &grid) { return share_cost(p, costs, grid); };
  p.serial_us = cost({p.units, panels, 1, 1, 1, 1}) * step_us;
  // Of a few pixels the weights decide, which come from the last cache or from memory.
  const double weights_us = real(panels * p.panel_channels * p.taps * p.pixel * element_bytes(p)) / kWeightsBytesPerUs;
  p.grid = cut_grid(p.units, panels, tasks_for(policy, std::max(p.serial_us, weights_us)), cost);
  const double largest = cost(p.grid) * step_us;
  set_pieces(p, costs, pieces_for(p.grid, largest));
  const int64_t tasks = tasks_of(p.grid);
  const double images = real(sdk::elements(layer.input) * 4 + sdk::elements(layer.result) * 4);
  const int64_t lanes = p.panel_channels / 2, filters = p.groups * round_up(p.group_out, lanes);
  double bytes = images + real(filters * p.taps * p.pixel * element_bytes(p));
  // Turning waits for memory, a piece of a line at a time; weights are not turned.
  if (p.along_w && !p.in_place) bytes += kTurnedBytes * std::max(images - kCachedBytes, 0.0);
  // Of 16 bits a line has the channels of twice as many groups, each of which finds it in the cache more often.
  const double lines_us = group_lines_us(layer) * (p.arithmetic == DenseArithmetic::kBf16 ? 0.5 : 1.0);
  p.estimate_us = estimate_us(tasks, largest * real(tasks) + lines_us, bytes);
  return p;
}

} // namespace polyconv::cpu
