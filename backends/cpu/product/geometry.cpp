// geometry.cpp - cuts weight gradients into panels, units, pieces and splits. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/product/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

constexpr int64_t kDepth = 256;         // pixels of a unit: its wide panel stays in the L1 cache
constexpr int64_t kPieceChannels = 256; // of either kind, at most
constexpr int64_t kItems = 16;          // of work to aim for, whatever the number of threads
constexpr int64_t kLine = 64;

int64_t lanes_of(const polyconv_layer &l, Isa isa) {
  return vector_bytes(isa) / sum_bytes(l.sum_type);
}

// The output as lines of columns: one line of all pixels where both tensors allow.
void set_lines(ProductPlan &p, const polyconv_layer &l) {
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(l, i);
  p.images = l.output.size[sdk::kN];
  p.columns = p.axis[2].out;
  const bool valued = l.pad_mode == POLYCONV_PAD_ZERO || l.pad_mode == POLYCONV_PAD_CONSTANT;
  p.pad_value = l.pad_mode == POLYCONV_PAD_CONSTANT ? l.pad_value : 0;
  p.clips = valued && p.pad_value == 0;
  const bool flat =
      sdk::taps(l) == 1 && takes_every_pixel(p.axis) && one_pixel_stride(l.input) && one_pixel_stride(l.output);
  if (flat) {
    p.columns = sdk::spatial(l.output);
    if (one_image_stride(l.input) && one_image_stride(l.output)) p.columns *= p.images, p.images = 1;
    p.axis[0] = p.axis[1] = {1, 1, 1, 1, 1, 0, 0, nullptr, nullptr, POLYCONV_PAD_ZERO};
    p.axis[2] = {p.columns, p.columns, 1, 1, 1, 0, 0, nullptr, nullptr, POLYCONV_PAD_ZERO};
  }
  p.lines = p.images * p.axis[0].out * p.axis[1].out;
  p.line_taps = p.axis[0].taps * p.axis[1].taps;
}

// Channels of a panel of each kind, and rows of a register tile.
void set_panels(ProductPlan &p, int64_t lanes, Isa isa) {
  const Axis &w = p.axis[2];
  if (p.diagonal) {
    p.merged = 1; // columns of padding are stored
    p.tall = p.tall_panels = p.tile_rows = 1;
    p.tall_width = p.wide = lanes;
    p.wide_panels = ceil_div(p.group_out, p.wide);
    return;
  }
  const int64_t most = std::min<int64_t>(many_registers(isa) ? 14 : 6, lanes);
  p.merged = w.taps > 1 && w.dilation == 1 && p.group_in <= most / 2;
  p.tall_panels = ceil_div(p.group_in, most);
  p.tall = p.tall_width = ceil_div(p.group_in, p.tall_panels);
  const int64_t rows = p.merged ? w.taps * p.tall : p.tall;
  p.tile_rows = ceil_div(rows, ceil_div(rows, many_registers(isa) ? 14 : 6));
  p.wide = 2 * lanes;
  p.wide_panels = ceil_div(p.group_out, p.wide);
}

void set_units(ProductPlan &p, int64_t lanes) {
  const Axis &w = p.axis[2], &h = p.axis[1], &d = p.axis[0];
  p.chunks = std::max<int64_t>(ceil_div(p.columns, kDepth + kDepth / 4), 1);
  p.chunk = ceil_div(p.columns, p.chunks);
  p.chunks = p.chunk > 0 ? ceil_div(p.columns, p.chunk) : 1;
  p.block_lines = std::clamp<int64_t>(kDepth / std::max<int64_t>(p.chunk, 1), 1, std::max<int64_t>(p.lines, 1));
  p.blocks = ceil_div(p.lines, p.block_lines);
  p.block_lines = p.blocks > 0 ? ceil_div(p.lines, p.blocks) : 1;
  p.units = p.columns > 0 ? p.blocks * p.chunks : 0;
  p.pitch = w.taps == 1 ? w.step : 1;
  p.step = w.step / p.pitch;
  p.row_columns = (p.chunk - 1) * p.step + (w.taps - 1) * w.dilation + 1;
  p.joins = w.taps == 1 && w.before == 0 && w.after == 0;
  // Lines of one image and depth share input rows.
  const int64_t stretches = p.block_lines / std::max<int64_t>(h.out, 1) + 2;
  const int64_t shared = p.block_lines * h.step + stretches * ((h.taps - 1) * h.dilation + 1);
  p.rows = d.taps * std::min(p.block_lines * h.taps, shared) + 1; // 1: padding
  p.tall_elements = round_up(p.rows * p.row_columns * p.tall_width + lanes, lanes);
  p.wide_elements = p.block_lines * p.chunk * p.wide;
}

// Pieces as large as the cache allows, but enough of them for as many items as there should be.
void set_pieces(ProductPlan &p, int64_t bytes) {
  const int64_t most_splits = std::max<int64_t>(p.units / 2, 1);
  int64_t tall = std::min(p.tall_panels, std::max<int64_t>(kPieceChannels / p.tall, 1));
  int64_t wide = std::min(p.wide_panels, std::max<int64_t>(kPieceChannels / p.wide, 1));
  const int64_t fit = kProductTallBytes / (p.tall_elements * bytes);
  (p.diagonal ? wide : tall) = std::clamp<int64_t>(fit, 1, p.diagonal ? wide : tall);
  const auto pieces = [&] { return p.groups * ceil_div(p.tall_panels, tall) * ceil_div(p.wide_panels, wide); };
  while (pieces() * most_splits < kItems && tall * wide > 1)
    if (wide * p.wide >= tall * p.tall && wide > 1)
      wide = ceil_div(wide, 2);
    else
      tall = ceil_div(tall, 2);
  p.tall_pieces = ceil_div(p.tall_panels, tall), p.tall_block = ceil_div(p.tall_panels, p.tall_pieces);
  p.wide_pieces = ceil_div(p.wide_panels, wide), p.wide_block = ceil_div(p.wide_panels, p.wide_pieces);
  p.tall_pieces = ceil_div(p.tall_panels, p.tall_block), p.wide_pieces = ceil_div(p.wide_panels, p.wide_block);
  p.pieces = p.groups * p.tall_pieces * p.wide_pieces;
  p.splits = std::clamp<int64_t>(ceil_div(kItems, p.pieces), 1, most_splits);
  p.tile_elements = p.line_taps * p.axis[2].taps * p.tall * p.wide;
  p.sums = p.tall_block * p.wide_block * p.tile_elements;
}

void set_scratch(ProductPlan &p, int64_t bytes) {
  const auto behind = [](int64_t at, int64_t size) { return round_up(at + size, kLine); };
  p.wide_at = behind(0, (p.diagonal ? p.wide_block : p.tall_block) * p.tall_elements * bytes);
  p.rows_at = behind(p.wide_at, p.wide_block * p.wide_elements * bytes);
  p.list_at = behind(p.rows_at, p.rows * 8);
  p.runs_at = behind(p.list_at, p.line_taps * (p.block_lines + 1) * 8);
  p.ahead_at = behind(p.runs_at, p.line_taps * p.block_lines * 24);
  p.sums_at = behind(p.ahead_at, (kProductStretches + 1) * int64_t{sizeof(ProductStretch)});
  p.partial_bytes = p.splits == 1 ? 0 : p.sums * bytes;
  p.scratch_bytes = behind(p.sums_at, p.splits == 1 ? p.sums * bytes : 0);
}

// Cycles of one thread, in vectors of the arithmetic.
double cycles_of(const ProductPlan &p, const polyconv_layer &l, int64_t lanes) {
  const double pixels = real(p.lines) * real(p.columns), taps = real(sdk::taps(l));
  if (p.diagonal) { // a load and a half for each multiply-add
    const double vectors = real(p.wide_panels);
    return vectors * (pixels * (taps * 0.75 + 3 + real(l.stride[1]) * real(l.stride[2]) * 3) +
                      real(p.lines * p.chunks * p.line_taps) * 12 + taps * real(p.splits));
  }
  const double rows = p.merged ? std::max(real(p.tile_rows), 4.0) / real(p.tile_rows) : 1;
  const double wide = real(round_up(p.group_out, lanes)) * (p.group_out <= lanes ? 1.2 : 1.0) / real(lanes);
  // Between the pixels of a strided tile lie others: the first cache holds half of a unit.
  const double strided = p.step > 1 ? 1.15 : 1.0;
  const double products = real(p.groups) * pixels * taps * real(p.group_in) * wide / 2 * rows * strided;
  const double tiles = p.merged ? real(p.line_taps * ceil_div(p.axis[2].taps * p.tall, p.tile_rows)) : taps;
  const double runs = real(p.groups * p.lines * p.chunks) * tiles * real(p.tall_panels * p.wide_panels) * 10;
  const double input = real(p.groups * p.wide_pieces) * real(sdk::elements(l.input)) / real(p.groups) / real(lanes);
  const double gradient = real(p.tall_pieces) * real(sdk::elements(l.output)) / real(lanes);
  const double weights = real(sdk::elements(l.weights)) * (1 + real(p.splits) / 4);
  return products + runs + (input + gradient) * 3 + weights;
}

} // namespace

ProductPlan product_geometry(const polyconv_layer &l, const polyconv_policy &policy, Isa isa, double *us) {
  ProductPlan p = {};
  p.input = l.input, p.gradient = l.output, p.weights = l.result;
  p.diagonal = l.groups > 1 && l.weights.size[sdk::kC] == 1 && l.weights.size[sdk::kK] == l.groups;
  p.groups = p.diagonal ? 1 : l.groups;
  p.group_in = l.weights.size[sdk::kC];
  p.group_out = l.weights.size[sdk::kK] / p.groups;
  const int64_t bytes = sum_bytes(l.sum_type), lanes = lanes_of(l, isa);
  set_lines(p, l);
  set_panels(p, lanes, isa);
  set_units(p, lanes);
  set_pieces(p, bytes);
  set_scratch(p, bytes);
  const double serial = cycles_of(p, l, lanes) * cycle_us(isa);
  p.tasks = std::min(tasks_for(policy, serial), p.pieces * p.splits);
  const double moved = real(sdk::elements(l.input) + sdk::elements(l.output) + sdk::elements(l.weights)) * real(bytes);
  *us = estimate_us(p.tasks, serial, moved);
  return p;
}

} // namespace polyconv::cpu
