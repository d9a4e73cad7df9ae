// geometry.cpp - cuts a gather (plan.hpp) into packed blocks, chunks and pieces. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/direct/geometry.hpp"

#include "cpu/direct/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

constexpr int64_t kMostChunk = 512, kLeastChunk = 48;
constexpr double kLineUs = 0.01, kRowUs = 0.03;

int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -ceil_div(-a, b);
}
int64_t element_bytes(const DirectPlan &p) {
  return sum_bytes(p.epilogue.sum_type);
}

} // namespace

DirectPlan make_gather(const polyconv_layer &layer) {
  DirectPlan p{};
  p.backward = layer.direction == POLYCONV_BACKWARD_DATA;
  p.source = p.backward ? layer.output : layer.input;
  p.epilogue = make_epilogue(layer);
  p.zero_point = sdk::is_quantised(layer) ? layer.input_zero_point : 0;
  const bool constant = layer.pad_mode == POLYCONV_PAD_CONSTANT;
  p.pad_value = constant && !p.backward ? layer.pad_value - p.zero_point : 0.0;
  // Not left out in float rows: a NaN in the weights reaches whatever reads padding through it.
  p.skip_padding = p.backward || (sdk::is_quantised(layer) && p.pad_value == 0.0);
  p.folds = p.backward && layer.pad_mode != POLYCONV_PAD_ZERO && !constant;
  for (int i = 0; i < 3; ++i) {
    p.axis[i] = make_axis(layer, i);
    p.rows[i] = p.backward ? p.axis[i].in : p.axis[i].out;
  }
  p.images = layer.output.size[sdk::kN];
  p.groups = layer.groups;
  const int64_t in = layer.weights.size[sdk::kC], out = layer.weights.size[sdk::kK] / layer.groups;
  p.reduce = p.backward ? out : in;
  p.produce = p.backward ? in : out;
  const Axis &w = p.axis[2];
  p.width = !p.backward ? w.out : p.folds ? w.before + w.in + w.after : w.in;
  p.step = p.backward ? w.step : 1;
  p.source_step = p.backward ? 1 : w.step;
  const int64_t from = p.folds ? 0 : w.before; // padded coordinate of the first result
  p.first_source = p.backward ? floor_div(from - (w.taps - 1) * w.dilation, w.step) : -w.before;
  return p;
}

namespace {

// What a multiply-add of a whole vector costs beside its own cycle, by scalars that share a vector load.
double loads_of(int64_t scalars) {
  return scalars == 1 ? 1.3 : scalars == 2 ? 1.1 : 1.0;
}

// Chooses the axis along the vectors and the packed block; returns multiply-adds done per one that counts.
double choose_block(DirectPlan &p, int64_t lanes) {
  const double produce = static_cast<double>(p.produce);
  const double steps = static_cast<double>(p.reduce * p.axis[0].taps * p.axis[1].taps * p.axis[2].taps);
  const auto store = [&](int axis) { // relative to the sums
    const double cost = p.epilogue.result.stride[axis] == 1 ? 4.0 : 2.0 * static_cast<double>(lanes);
    return cost / steps;
  };
  const int64_t vectors = ceil_div(p.produce, lanes);
  const double along = static_cast<double>(vectors * lanes) / produce * (vectors > 1 ? 1.0 : 1.15) + store(sdk::kC);
  const double columns = static_cast<double>(ceil_div(p.width, p.step));
  const double lines = static_cast<double>(round_up(ceil_div(p.width, p.step), lanes)) / columns;
  int64_t best = 1;
  double across = 0;
  for (int64_t block = 4; block >= 1; --block) {
    const double cost = static_cast<double>(round_up(p.produce, block)) / produce * lines * loads_of(block);
    if (block == 4 || cost < across) across = cost, best = block;
  }
  across += store(sdk::kW);
  p.channels_along = along < across;
  p.block = !p.channels_along ? best : vectors > 1 ? 2 * lanes : lanes;
  p.blocks = ceil_div(p.produce, p.block);
  p.packed_elements = p.groups * p.blocks * p.block * p.reduce * p.axis[0].taps * p.axis[1].taps * p.axis[2].taps;
  return p.channels_along ? along : across;
}

// The elements of a scratch row for a chunk.
void set_chunk(DirectPlan &p, int64_t chunk, int64_t lanes) {
  const Axis &w = p.axis[2];
  p.chunk = chunk;
  p.chunks = ceil_div(p.width, chunk);
  p.phase_count = std::min(p.step, chunk);
  const int64_t results = round_up(ceil_div(chunk, p.step), lanes) + lanes;
  const int64_t reach = (w.taps - 1) * w.dilation; // from the first tap to the last
  const int64_t tap_span = p.backward ? reach / p.step + 2 : reach / p.source_step;
  p.plane_elements = round_up(results + tap_span, lanes);
  p.plane_count = p.backward ? 1 : std::min(p.source_step, w.taps); // at most; make_tables counts
  // Rows that hold twice as much as taps read are not worth sharing what lies between.
  p.apart = real(w.taps) * real(results) * 2 < real(p.plane_count) * real(p.plane_elements);
  if (p.apart) p.plane_elements = results, p.plane_count = w.taps;
  p.row_elements = p.plane_count * p.plane_elements;
  p.sums_stride = p.channels_along ? p.block : round_up(chunk, lanes) + lanes;
  p.phase_elements = results;
}

// The most distinct source rows of `rows` neighbouring result rows, and the most pairs of one.
int64_t most_slots(const DirectPlan &p, const Axis &a, int64_t rows) {
  const int64_t reach = (a.taps - 1) * a.dilation;
  if (!p.backward) return std::min({rows * a.taps, (rows - 1) * a.step + reach + 1, a.in}) + 1; // 1: padding
  if (p.folds) return std::min(rows * a.taps * (1 + a.before + a.after), a.out);
  return std::min({rows * a.taps, (rows - 1 + reach) / a.step + 1, a.out});
}
int64_t most_entries(const DirectPlan &p, const Axis &a) {
  return p.folds ? a.taps * std::min(1 + a.before + a.after, a.out) : a.taps;
}

int64_t row_bytes(const DirectPlan &p, int64_t rows) {
  return p.depth_slots * most_slots(p, p.axis[1], rows) * p.reduce * p.row_elements * element_bytes(p);
}

} // namespace

void set_chunks(DirectPlan &p, int64_t lanes) {
  p.depth_entries = p.depth_slots = most_entries(p, p.axis[0]);
  p.row_entries = most_entries(p, p.axis[1]);
  // Whole rows where a row's sums and sources stay in the cache.
  int64_t parts = p.folds || p.step >= p.width ? 1 : ceil_div(p.width, kMostChunk);
  for (;; parts *= 2) {
    const int64_t chunk = std::min(p.width, round_up(ceil_div(p.width, parts), p.step * lanes));
    set_chunk(p, chunk, lanes);
    if (p.folds || p.step >= p.width || chunk <= kLeastChunk * p.step || row_bytes(p, 1) <= kDirectRowBytes) break;
  }
}

void set_block_rows(DirectPlan &p, int64_t limit) {
  p.block_rows = 1;
  while (p.block_rows < std::min(limit, p.rows[1]) && row_bytes(p, p.block_rows + 1) <= kDirectRowBytes) ++p.block_rows;
  p.row_blocks = ceil_div(p.rows[1], p.block_rows);
  p.row_slots = std::max<int64_t>(most_slots(p, p.axis[1], p.block_rows), 1);
}

int64_t rows_bytes(const DirectPlan &p) {
  return p.depth_slots * p.row_slots * p.reduce * p.row_elements * element_bytes(p);
}

int64_t place_lists(DirectPlan &p, int64_t at) {
  p.entries_at = round_up(at, 64);
  p.slots_at = p.entries_at + (p.depth_entries + p.block_rows * p.row_entries) * 16;
  return round_up(p.slots_at + (p.block_rows + p.row_slots) * 8, 64);
}

namespace {

void set_pieces(DirectPlan &p, int64_t lanes) {
  set_chunks(p, lanes);
  // More rows a piece load fewer rows twice; but every task should have some pieces.
  const int64_t strips = p.images * p.groups * p.rows[0] * p.chunks;
  const int64_t most = ceil_div(p.rows[1] * strips, 4 * p.tasks);
  set_block_rows(p, std::min(kMostRows, std::max<int64_t>(most, 1)));
  const int64_t pieces = strips * p.row_blocks;
  p.block_parts = pieces < 2 * p.tasks && pieces > 0 ? std::min(p.blocks, ceil_div(2 * p.tasks, pieces)) : 1;
  p.pieces = pieces * p.block_parts;
  p.tasks = std::max<int64_t>(std::min(p.tasks, p.pieces), 1);
}

void set_scratch(DirectPlan &p) {
  const int64_t bytes = element_bytes(p);
  p.sums_at = round_up(rows_bytes(p), 64);
  const int64_t sums = p.channels_along ? round_up(p.chunk, 16) * p.block : p.block * p.sums_stride;
  p.phase_sums_at = round_up(p.sums_at + sums * bytes, 64);
  const bool phases = !p.channels_along && p.step > 1;
  p.terms_at = place_lists(p, p.phase_sums_at + (phases ? p.block * p.phase_count * p.phase_elements * bytes : 0));
  p.scratch_bytes = round_up(p.terms_at + p.depth_entries * p.row_entries * 16, 64);
}

} // namespace

DirectPlan direct_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  DirectPlan p = make_gather(layer);
  const int64_t lanes = vector_bytes(isa) / element_bytes(p);
  const double waste = choose_block(p, lanes);
  // Integers multiply more slowly.
  const double rate = flops_per_us(isa, layer.sum_type) / (layer.sum_type == POLYCONV_S32 ? 1.4 : 1.0);
  double arithmetic = sdk::flops(layer) * waste / rate;
  p.tasks = tasks_for(policy, arithmetic);
  set_pieces(p, lanes);
  set_scratch(p);
  const double again = static_cast<double>(p.depth_entries * p.row_slots * p.row_blocks * p.block_parts) /
                       static_cast<double>(std::max<int64_t>(p.source.size[sdk::kH], 1));
  const int64_t read = p.source.stride[sdk::kW] * p.source_step;
  // Finishing pixels shows where there is little to multiply, as does loading every second one of planes, as in the
  // first layer of most networks. Fitted on AVX2 and AVX-512, and to forward layers alone.
  constexpr double kFinishCycles = 5;                                  // a vector
  const bool fitted = vector_bytes(isa) == 32 && !many_registers(isa); // AVX2, which other processors have no name for
  const bool finishes =
      (fitted || vector_bytes(isa) == 64) && !p.backward && p.channels_along && layer.result.stride[sdk::kC] == 1;
  const bool turns = finishes && layer.input.stride[sdk::kC] != 1;
  const double element = read == 1 ? 5.0 / static_cast<double>(lanes) : turns ? 2.2 : 1.5;
  const double loads = static_cast<double>(sdk::elements(p.source)) * std::max(again, 1.0);
  arithmetic += loads * element * 2.0 * static_cast<double>(lanes) / rate;
  const double vectors = static_cast<double>(sdk::elements(layer.result)) / static_cast<double>(lanes);
  if (finishes) arithmetic += vectors * kFinishCycles * cycle_us(isa);
  // Of a strided gradient with planes each column leaves channel by channel, and next to what other phases left.
  constexpr double kScatterCycles = 4;
  if (fitted && p.backward && p.channels_along && p.step > 1 && layer.result.stride[sdk::kC] != 1)
    arithmetic += static_cast<double>(sdk::elements(layer.result)) * kScatterCycles * cycle_us(isa);
  // What a source row of a channel and a row of results cost, however short.
  const double pieces = static_cast<double>(p.pieces), per_piece = static_cast<double>(p.depth_slots * p.row_slots);
  const double rows = pieces / static_cast<double>(p.block_parts) * static_cast<double>(p.block_rows * p.blocks);
  arithmetic += pieces * per_piece * static_cast<double>(p.reduce) * kLineUs + rows * kRowUs;
  // One channel a group: each row of sums is gathered for one filter alone.
  if (p.reduce == 1 && p.groups > 1) arithmetic *= (p.backward ? 1.4 : 1.0) * (p.axis[2].step > 1 ? 1.3 : 1.0);
  // Every piece reads its blocks' weights, anew where they are more than the caches keep.
  const double weights = static_cast<double>(p.packed_elements * element_bytes(p));
  const double passes = pieces / static_cast<double>(std::max<int64_t>(p.groups * p.block_parts, 1));
  const double moved = static_cast<double>(sdk::elements(p.source) + sdk::elements(layer.result)) * 4.0 +
                       weights * (weights < static_cast<double>(kStreamBytes) ? 1.0 : passes);
  p.serial_us = arithmetic;
  p.estimate_us = estimate_us(p.tasks, arithmetic + group_lines_us(layer), moved);
  return p;
}

} // namespace polyconv::cpu
