// geometry.cpp - plans the matrix kernel: how lines are stored, blocks and shares by what they cost. Compiled for the
// baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/aligned.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/matrix/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

constexpr int64_t kGatheredPositions = 64; // of a block: with their weights and results they stay in the L1 cache
constexpr int64_t kApartBytes = 1 << 10;   // planes a multiple of this apart would share few sets of the L1 cache

int64_t chunks_of(int64_t channels, MatrixProducts products) {
  return ceil_div(channels, matrix_chunk_channels(products));
}

// Whether results pass the caches by: whole lines of `bytes` and more.
bool passes_caches(const MatrixPlan &p, int64_t bytes) {
  const polyconv_tensor &r = p.epilogue.result;
  return p.quick && r.type != POLYCONV_F16 && p.group_out % kMatrixPanel == 0 &&
         steps_aligned(r, {sdk::kN, sdk::kD, sdk::kH, sdk::kW}, kMatrixRowBytes) &&
         sdk::elements(r) * type_bytes(r.type) >= bytes;
}

// What the layer alone decides.
MatrixPlan make_matrix(const polyconv_layer &layer, MatrixProducts products) {
  MatrixPlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  p.products = products;
  p.signed_input = layer.input.type == POLYCONV_S8;
  p.signed_weights = layer.weights.type == POLYCONV_S8 || layer.weights_zero_point != 0; // 128, see matrix_pack
  p.zero_point = layer.input_zero_point;
  const bool zero = sdk::is_quantised(layer) && layer.pad_mode == POLYCONV_PAD_ZERO;
  p.pad_value = zero ? layer.input_zero_point : layer.pad_value;
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  p.groups = layer.groups;
  p.group_in = layer.weights.size[sdk::kC];
  p.group_out = layer.output.size[sdk::kC] / layer.groups;
  const polyconv_tensor &r = layer.result;
  p.along_w = r.stride[sdk::kW] == 1 && r.stride[sdk::kC] != 1 && p.group_out > 1;
  const int32_t activation = p.epilogue.rules.activation;
  const bool quick = activation == POLYCONV_ACT_NONE || activation == POLYCONV_ACT_RELU;
  const bool floats = p.epilogue.simple || (p.epilogue.quick && sdk::is_float(r.type));
  p.quick = r.stride[sdk::kC] == 1 && ((floats && quick) || (p.epilogue.integer && !p.epilogue.save));
  p.stream = passes_caches(p, kStreamBytes);
  p.images = layer.output.size[sdk::kN];
  p.depths = p.axis[0].out, p.lines = p.axis[1].out, p.columns = p.axis[2].out;
  return p;
}

// Of a strip whose planes have `bytes` each, and what the last tile reads `behind` the last plane.
void set_planes(MatrixPlan &p, int64_t bytes, int64_t behind) {
  p.part_bytes = bytes % kApartBytes == 0 ? bytes + kMatrixRowBytes : bytes;
  p.chunk_bytes = matrix_parts(p.products) * p.part_bytes;
  p.strip_bytes = p.chunks * p.chunk_bytes + behind;
}

// Whether results of some positions find room in the L1 cache.
bool near_rows(const polyconv_tensor &result) {
  return result.stride[sdk::kW] * type_bytes(result.type) < kMatrixFar;
}

// Whether tiles are stored where they belong: results are the sums, and positions lie as the pixels of an image do.
// What leaves the tile registers does not pass the caches by.
void set_direct(MatrixPlan &p) {
  const Epilogue &e = p.epilogue;
  const bool sums = e.integer || (e.result.type == POLYCONV_F32 && matrix_parts(p.products) == 1 &&
                                  e.rules.activation == POLYCONV_ACT_NONE && !e.rules.has_bias);
  p.direct = p.quick && sums && e.whole_images && p.line_positions == p.columns;
  if (p.direct) p.stream = 0;
  const polyconv_tensor &r = e.result;
  p.asks = p.direct && near_rows(r) && sdk::elements(r) * type_bytes(r.type) >= kMatrixNear;
}

// One tap: positions are the pixels of an image, or of all.
void set_flat(MatrixPlan &p, const polyconv_layer &layer) {
  const polyconv_tensor &in = layer.input;
  const int64_t element = p.products == MatrixProducts::kIntegers ? 1 : 2;
  p.flat = 1;
  p.strips = 1;
  p.one_stride = !p.gathered && takes_every_pixel(p.axis) && one_pixel_stride(in);
  p.in_place = p.one_stride && matrix_parts(p.products) == 1 && in.stride[sdk::kC] == 1 &&
               p.group_in % matrix_chunk_channels(p.products) == 0;
  p.columns *= p.depths * p.lines;
  p.depths = p.lines = 1;
  if ((!p.in_place || one_image_stride(in)) && one_image_stride(p.epilogue)) p.columns *= p.images, p.images = 1;
  const bool rows = p.gathered && matrix_parts(p.products) == 1; // a pixel's chunks lie side by side
  p.position_bytes = p.in_place ? in.stride[sdk::kW] * element : rows ? p.chunks * kMatrixRowBytes : kMatrixRowBytes;
  p.line_positions = p.columns;
  p.pitch[0] = p.axis[1].step, p.pitch[1] = p.axis[2].step;
  p.phases = 1;
  const bool parts = matrix_parts(p.products) > 1;
  const int64_t tile_bytes = p.chunks * matrix_parts(p.products) * kMatrixRowBytes;
  p.split_beside = parts && p.one_stride && one_image_stride(in) && in.stride[sdk::kC] == 1 &&
                   p.group_in % matrix_chunk_channels(p.products) == 0 && p.group_bytes <= kMatrixNear &&
                   kMatrixPositions * tile_bytes <= kMatrixSplitBytes;
  p.panels_inside =
      p.split_beside || (kMatrixPositions * tile_bytes <= kMatrixInsideBytes && p.group_bytes <= kMatrixPanelsBytes);
  if (p.split_beside) p.strips = kMatrixSplitStrips;
  p.weights_past = p.in_place && kMatrixPositions * tile_bytes >= kMatrixLongBytes && p.group_bytes <= kMatrixNear;
  // Parts make a pixel long: with half of the L2 cache enough of them meet a panel that comes from further away.
  const int64_t block_bytes = parts ? 2 * kMatrixBlockBytes : kMatrixBlockBytes;
  const int64_t fitting = p.gathered                       ? kGatheredPositions
                          : p.panels_inside && !p.in_place ? kMatrixInsideBytes / tile_bytes
                                                           : block_bytes / tile_bytes;
  p.block_lines = std::max<int64_t>(fitting / kMatrixPositions, p.panels_inside ? 1 : 2) * kMatrixPositions;
  p.block_lines = std::min(p.block_lines, round_up(std::max<int64_t>(p.columns, 1), kMatrixPositions));
  if (p.in_place) {
    p.chunk_bytes = kMatrixRowBytes;
    p.strip_bytes = kMatrixRows * p.position_bytes;
  } else if (rows) {
    p.chunk_bytes = kMatrixRowBytes;
    p.strip_bytes = p.block_lines * p.position_bytes;
  } else {
    set_planes(p, p.block_lines * kMatrixRowBytes, 0);
  }
  p.units = p.images * ceil_div(p.columns, kMatrixPositions);
  set_direct(p);
  p.wide = p.direct && p.panels_inside && p.group_out % (2 * kMatrixPanel) == 0 && near_rows(p.epilogue.result);
  p.rows_beside = parts && p.quick && p.epilogue.result.type == POLYCONV_F32;
}

// Positions of a line: as many columns as its taps read, less the padding that it shares with the next line; no fewer
// than it has results, or those of wide padding would belong to two lines.
void set_line(MatrixPlan &p, const polyconv_layer &layer) {
  const Axis &w = p.axis[2];
  const bool one_column = p.merged || w.taps == 1;
  const int64_t step = one_column ? 1 : w.step;
  const int64_t reach = one_column ? 0 : (w.taps - 1) * w.dilation;
  p.position_bytes = step * (p.runs ? p.chunks : 1) * kMatrixRowBytes; // of runs, chunks lie side by side
  p.pitch[1] = one_column && !p.merged ? w.step : 1;
  p.stored_columns = (p.columns - 1) * step + reach + 1;
  const bool valued = layer.pad_mode == POLYCONV_PAD_ZERO || layer.pad_mode == POLYCONV_PAD_CONSTANT;
  const int64_t after = std::max<int64_t>(p.stored_columns - w.before - w.in, 0);
  const int64_t shared = one_column || !valued ? 0 : std::min(after, w.before);
  p.line_positions = std::max(p.columns, ceil_div(p.stored_columns - shared, step));
}

void set_block(MatrixPlan &p, int64_t lines) {
  const Axis &h = p.axis[1], &w = p.axis[2];
  const int64_t reach = (p.line_taps - 1) * h.dilation / p.phases;
  p.block_lines = lines;
  p.phase_bytes = (lines + reach) * p.line_positions * p.position_bytes;
  p.plane_bytes = p.phases * p.phase_bytes;
  // The last line shares its padding with nobody: the next plane begins with that of another part or chunk.
  const int64_t shared = p.stored_columns * kMatrixRowBytes - p.line_positions * p.position_bytes;
  // The last tile and its taps read on behind the last line.
  const int64_t behind = kMatrixPositions * p.position_bytes + w.taps * w.dilation * kMatrixRowBytes;
  if (p.runs)
    p.chunk_bytes = kMatrixRowBytes, p.strip_bytes = p.axis[0].taps * p.plane_bytes + behind;
  else
    set_planes(p, p.axis[0].taps * p.plane_bytes + std::max<int64_t>(shared, 0), behind);
}

void set_lines(MatrixPlan &p, const polyconv_layer &layer) {
  const Axis &h = p.axis[1];
  set_line(p, layer);
  const bool one_phase = p.line_taps == 1 || p.joined > 1;
  p.phases = one_phase ? 1 : h.step;
  p.pitch[0] = one_phase ? h.step : 1;
  set_block(p, 1);
  const int64_t planes = p.runs ? 1 : p.chunks * matrix_parts(p.products);
  const int64_t fixed = p.strip_bytes, line = planes * p.axis[0].taps * p.phases * p.line_positions * p.position_bytes;
  const int64_t more = line > 0 ? (kMatrixBlockBytes - fixed) / line : 0;
  set_block(p, std::clamp<int64_t>(1 + more, 1, std::max<int64_t>(p.lines, 1)));
  p.strips = std::clamp<int64_t>(kMatrixStripsBytes / p.strip_bytes, 1, kMatrixStrips);
  p.units = p.images * p.depths * p.lines;
  p.weights_past = p.panel_bytes >= kMatrixLongPanelBytes && p.group_bytes <= kMatrixPanelsNear;
  p.down_lines = p.line_taps * p.line_positions * p.position_bytes > kMatrixLinesBytes;
  set_direct(p);
}

// Whether results are made beside products: those that pass the caches, of few products, where they would take as long
// again. Results that stay in the caches are made at once, which is faster by a quarter and more. Two panels of bf16
// together make pieces of 128 bytes, which pass the caches at nearly twice the rate of 64.
void set_results(MatrixPlan &p) {
  constexpr int64_t kFewProducts = 7; // of two tiles by two
  const polyconv_tensor &r = p.epilogue.result;
  const bool few = p.quick && p.products == MatrixProducts::kBf16 && r.type == POLYCONV_BF16 &&
                   p.epilogue.whole_images && p.line_positions == p.columns && p.group_out % kMatrixPanel == 0 &&
                   p.chunks * p.tap_count <= kFewProducts;
  const bool pairs = few && p.panels_inside && p.panels % 2 == 0;
  if (pairs) p.stream = passes_caches(p, kMatrixStreamPieces);
  p.results_beside = few && p.stream;
  p.together = pairs && p.stream ? 2 : 1;
}

// Cycles of a unit against one panel, of bringing in its source, and of a panel's weights for each block.
struct Costs {
  double multiply, source, weights;
};

Costs costs_of(const MatrixPlan &p) {
  const double parts = real(matrix_parts(p.products));
  const double products = p.products == MatrixProducts::kSix     ? 6
                          : p.products == MatrixProducts::kThree ? 3
                          : p.products == MatrixProducts::kF16   ? 4
                                                                 : 1;
  const double positions =
      p.flat ? kMatrixPositions : real(round_up(p.block_lines * p.line_positions, kMatrixRows)) / real(p.block_lines);
  const double filled = real(std::min<int64_t>(p.group_out, kMatrixPanel)) > kMatrixRows ? 1.0 : 0.6;
  const double steps = real(p.tap_count * p.chunks) * products;
  const double finish = (p.direct ? 1 : p.quick ? 4 : 24) + (p.along_w ? 6 : 0);
  Costs c;
  c.multiply = positions / kMatrixPositions * (steps * 80 * filled + 60) + positions * finish;
  const bool side_by_side = p.input.stride[sdk::kC] == 1;
  const double chunk = (parts > 1 ? 5 * parts : 3) + (side_by_side ? 0 : 12) + (p.merged ? (p.runs ? 5 : 30) : 0);
  const double stored = p.flat ? kMatrixPositions
                               : real(p.stored_columns * p.axis[0].taps) *
                                     (real(p.phases) + real(p.axis[1].taps - 1) / real(p.block_lines));
  c.source = p.in_place ? 0 : stored * real(p.chunks) * chunk;
  if (p.gathered) c.source += stored * real(p.axis[0].taps * p.axis[1].taps) * 12;
  c.weights = p.split_beside ? 0 : real(p.panel_bytes) / 16; // there they stay in the L2 cache from block to block
  return c;
}

double share_cost(const MatrixPlan &p, const Costs &c, const Grid &grid) {
  const int64_t panels = largest_panels(grid), units = largest_units(grid);
  const int64_t block = p.flat ? p.block_lines / kMatrixPositions : p.block_lines * p.strips;
  const double blocks = real(ceil_div(units, std::max<int64_t>(block, 1)));
  return real(units) * (c.multiply * real(panels) + c.source * real(ceil_div(panels, p.panels))) +
         blocks * real(panels) * c.weights;
}

// Whether what a pixel takes of a line is one run of elements.
bool has_runs(const MatrixPlan &p, const polyconv_layer &layer) {
  return p.groups == 1 && p.axis[2].dilation == 1 && layer.input.stride[sdk::kC] == 1 &&
         layer.input.stride[sdk::kW] == p.group_in && p.group_in * sdk::taps(layer) <= kMatrixGathered;
}

// Products of two tiles by two with `lines` lines joined.
int64_t merged_products(const MatrixPlan &p, int64_t lines) {
  return p.axis[0].taps * ceil_div(p.axis[1].taps, lines) * chunks_of(lines * p.group_in * p.axis[2].taps, p.products);
}

// How many lines a pixel of merged taps should hold: those of a stride are stored once however many lines read them.
// A line behind the last tap meets weights of zero, which NaN would survive.
int64_t lines_to_join(const MatrixPlan &p) {
  const Axis &h = p.axis[1];
  const bool whole = h.taps % h.step == 0 || p.products == MatrixProducts::kIntegers;
  if (!p.runs || !whole || h.dilation > 1 || h.step > h.taps) return 1;
  return merged_products(p, h.step) < merged_products(p, 1) ? h.step : 1;
}

// Few channels: pixels that hold all taps of W, of some lines, or all taps, as the fewest cycles come out for 32
// positions: products for all panels, and the runs that are copied.
void choose_pixels(MatrixPlan &p, const polyconv_layer &layer) {
  constexpr int64_t kProducts = 64, kRun = 4 * kMatrixPositions;
  const Axis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  const int64_t row = chunks_of(p.group_in * w.taps, p.products), apart = w.taps * chunks_of(p.group_in, p.products);
  const int64_t all = chunks_of(p.group_in * sdk::taps(layer), p.products), lines = d.taps * h.taps;
  const bool runs = has_runs(p, layer);
  p.merged = w.taps > 1 && 3 * row <= 2 * apart;
  p.gathered = runs && p.epilogue.whole_images && 4 * all <= 3 * lines * (p.merged ? row : apart);
  p.runs = runs && p.merged && matrix_parts(p.products) == 1;
  p.joined = p.merged ? lines_to_join(p) : 1;
  if (p.gathered && p.runs) {
    const int64_t stored = d.taps * ceil_div(h.step, p.joined) * chunks_of(p.joined * p.group_in * w.taps, p.products);
    p.gathered =
        p.panels * all * kProducts + lines * kRun < p.panels * merged_products(p, p.joined) * kProducts + stored * kRun;
  }
  if (p.gathered) p.merged = p.runs = 0, p.joined = 1;
}

} // namespace

MatrixPlan matrix_geometry(const polyconv_layer &layer, const polyconv_policy &policy, MatrixProducts products) {
  MatrixPlan p = make_matrix(layer, products);
  p.panels = ceil_div(p.group_out, kMatrixPanel);
  choose_pixels(p, layer);
  const Axis &w = p.axis[2];
  p.line_taps = ceil_div(p.axis[1].taps, p.joined);
  p.channels = p.group_in * (p.gathered ? sdk::taps(layer) : p.merged ? p.joined * w.taps : 1);
  p.chunks = chunks_of(p.channels, products);
  p.tap_count = p.gathered ? 1 : p.axis[0].taps * p.line_taps * (p.merged ? 1 : w.taps);
  p.panel_bytes = p.tap_count * p.chunks * matrix_parts(products) * 2 * kMatrixTileBytes;
  if (products == MatrixProducts::kIntegers) p.panel_bytes += 2 * kMatrixRowBytes;
  p.group_bytes = p.panels * p.panel_bytes;
  if (p.gathered || (sdk::taps(layer) == 1 && p.epilogue.whole_images))
    set_flat(p, layer);
  else
    set_lines(p, layer);
  set_results(p);
  p.scratch_bytes = round_up(2 * p.together * kMatrixSums * 4 + p.strips * p.strip_bytes, kMatrixRowBytes);
  constexpr double kCyclesPerUs = 2600;
  const Costs costs = costs_of(p);
  const auto cost = [&](const Grid &grid) { return share_cost(p, costs, grid); };
  const int64_t panels = p.groups * p.panels;
  p.grid = cut_grid(p.units, panels, tasks_for(policy, cost({p.units, panels, 1, 1, 1, 1}) / kCyclesPerUs), cost);
  const double largest = cost(p.grid) / kCyclesPerUs;
  const int64_t tasks = tasks_of(p.grid);
  const double element = products == MatrixProducts::kIntegers ? 1 : 2,
               out = layer.result.type == POLYCONV_F32 ? 4 : element;
  const double bytes = real(sdk::elements(layer.input)) * element + real(sdk::elements(layer.result)) * out +
                       real(p.groups * p.group_bytes);
  p.estimate_us = estimate_us(tasks, largest * real(tasks), bytes);
  return p;
}

std::vector<int64_t> matrix_taps(const MatrixPlan &p) {
  if (p.flat) return {0};
  std::vector<int64_t> taps;
  const Axis &h = p.axis[1], &w = p.axis[2];
  for (int64_t t = 0; t < p.axis[0].taps; ++t)
    for (int64_t r = 0; r < p.line_taps; ++r) {
      const int64_t y = r * h.dilation;
      const int64_t line =
          t * p.plane_bytes + y % p.phases * p.phase_bytes + y / p.phases * p.line_positions * p.position_bytes;
      for (int64_t s = 0; s < (p.merged ? 1 : w.taps); ++s) taps.push_back(line + s * w.dilation * kMatrixRowBytes);
    }
  return taps;
}

} // namespace polyconv::cpu
