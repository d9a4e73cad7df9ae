// stages.cpp - from layers to stages: poolings split off, and tensors for rows that only a strip's task sees. Compiled
// for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/chain/driver.hpp"

#include "cpu/common/count.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kReadable = 160; // elements behind a row, as tiles read whole vectors

bool has_rows_to_run(const polyconv_layer &layer) {
  return elements(layer.input) > 0 && elements(layer.output) > 0 && elements(layer.result) > 0;
}

// Padding that reaches so far that the rows of a band are not neighbours.
bool rows_stay_near(const polyconv_layer &layer, int index, Offer &offer) {
  const int64_t pads = layer.pad_begin[1] + layer.pad_end[1];
  const int64_t reach = (layer.weights.size[kH] - 1) * layer.dilation[1] + 1;
  if (pads == 0 || layer.pad_mode == POLYCONV_PAD_ZERO || layer.pad_mode == POLYCONV_PAD_CONSTANT) return true;
  if (layer.pad_mode == POLYCONV_PAD_CIRCULAR)
    return offer.reject("layer %d: its first rows read its last ones (circular padding), which are not there yet",
                        index);
  const int64_t most = std::max(layer.pad_begin[1], layer.pad_end[1]);
  if (most < reach) return true;
  return offer.reject("layer %d: vertical padding of %" PRId64 " rows reaches beyond the kernel's %" PRId64, index,
                      most, reach);
}

bool takes(const polyconv_layer &layer, int index, Offer &offer) {
  if (layer.direction != POLYCONV_FORWARD)
    return offer.reject("layer %d: takes forward convolutions, no gradients", index);
  if (layer.save != POLYCONV_SAVE_NONE)
    return offer.reject("layer %d: saves nothing, as what lies between layers is never stored", index);
  const bool flat = layer.input.size[kD] == 1 && layer.output.size[kD] == 1 && layer.result.size[kD] == 1;
  if (!flat || layer.weights.size[kD] != 1) return offer.reject("layer %d: goes by rows of 2D images, not 3D", index);
  if (!has_rows_to_run(layer)) return offer.reject("layer %d: has nothing to compute", index);
  return rows_stay_near(layer, index, offer);
}

// Axis 1 (H) or 2 (W) of a pooling.
Axis pool_axis(const polyconv_layer &layer, int axis) {
  const polyconv_pool &pool = layer.epilogue.pool;
  return {layer.output.size[2 + axis],
          layer.result.size[2 + axis],
          pool.window[axis],
          pool.stride[axis],
          1,
          pool.pad_begin[axis],
          pool.pad_end[axis],
          nullptr,
          nullptr,
          POLYCONV_PAD_ZERO};
}

ChainStage convolution(const polyconv_layer &layer, int32_t index) {
  ChainStage s{};
  s.layer = layer;
  s.op = POLYCONV_OP_CONVOLVE;
  s.index = index;
  s.rows = make_axis(layer, 1);
  s.columns = make_axis(layer, 2);
  return s;
}

// Splits the pooling off `main`, as plans do between two steps: what is left writes the activated values.
ChainStage pooling(const polyconv_layer &layer, int32_t index, ChainStage &main) {
  ChainStage s{};
  s.op = POLYCONV_OP_POOL;
  s.index = index;
  s.residual = kNoStage;
  s.rows = pool_axis(layer, 1);
  s.columns = pool_axis(layer, 2);
  s.layer = layer;
  s.layer.epilogue = {};
  s.layer.epilogue.residual_scale = 1;
  s.layer.epilogue.pool = layer.epilogue.pool;
  s.layer.epilogue.out_scale = layer.epilogue.out_scale;
  s.layer.epilogue.out_zero_point = layer.epilogue.out_zero_point;
  polyconv_tensor &between = main.layer.output;
  between.type = layer.sum_type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
  main.layer.result = s.layer.input = s.layer.output = between;
  main.layer.epilogue.pool = {};
  main.layer.epilogue.out_scale = 1;
  main.layer.epilogue.out_zero_point = 0;
  return s;
}

// The stage that makes the rows of layer `layer`.
int32_t last_stage_of(const ChainPlan &plan, int32_t layer) {
  int32_t stage = 0;
  while (stage + 1 < plan.count && plan.stages[stage + 1].index <= layer) ++stage;
  return stage;
}

int32_t residual_stage(const ChainPlan &plan, int32_t from) {
  switch (from) {
    case POLYCONV_RESIDUAL_NONE: return kNoStage;
    case POLYCONV_RESIDUAL_BUFFER: return kCallersBuffer;
    case POLYCONV_RESIDUAL_INPUT: return kChainInput;
    default: return last_stage_of(plan, from - POLYCONV_RESIDUAL_LAYER);
  }
}

// The rows of a stage's result that are kept, in its layout.
polyconv_tensor kept_tensor(ChainStage &s, bool in_strips) {
  polyconv_tensor t = s.layer.result;
  if (s.highest > 0) t.type = POLYCONV_F32;
  const int64_t channels = t.size[kC], bytes = type_bytes(t.type);
  const bool last = channels > 1 && t.stride[kC] == 1;
  int64_t row = last ? channels * s.wide : s.wide;
  if (in_strips) row = round_up(row, kColumns) + kReadable;
  // Rows of an image that are whole pages apart would share the sets of the first cache, and a core would take loads of
  // one for stores to another.
  if (channels == 1 && row * bytes % 4096 == 0) row += 320 / bytes;
  s.planes = last ? 1 : channels;
  s.row_bytes = row * bytes;
  t.offset = 0;
  t.stride[kC] = last ? 1 : s.kept * row;
  t.stride[kW] = last ? channels : 1;
  t.stride[kH] = row;
  t.stride[kD] = t.stride[kN] = s.planes * s.kept * row;
  return t;
}

void set_size(polyconv_tensor &t, int64_t rows, int64_t columns) {
  t.size[kN] = 1;
  t.size[kH] = rows;
  t.size[kW] = columns;
}

// Residuals wait while the stages between run ahead.
void keep_residuals(ChainPlan &plan) {
  for (int32_t i = 0; i < plan.count; ++i) {
    if (plan.stages[i].residual < 0) continue;
    ChainStage &from = plan.stages[plan.stages[i].residual];
    for (int32_t between = plan.stages[i].residual + 1; between <= i; ++between)
      from.kept += reach_of(plan.stages[between].rows) - 1;
    from.kept = std::min(from.kept, from.rows.out);
  }
}

} // namespace

Span read_by(const Axis &axis, int64_t first, int64_t last) {
  const int64_t from = first * axis.step - axis.before;
  const int64_t to = (last - 1) * axis.step - axis.before + reach_of(axis);
  Span span = {std::clamp<int64_t>(from, 0, axis.in), std::clamp<int64_t>(to, 0, axis.in)};
  const auto include = [&](int64_t i) {
    if (i < 0) return;
    if (span.begin >= span.end) span = {i, i + 1};
    span = {std::min(span.begin, i), std::max(span.end, i + 1)};
  };
  // What padding reads repeats after twice the input at most, and where it is a value it reads nothing.
  if (axis.pad_mode == POLYCONV_PAD_ZERO || axis.pad_mode == POLYCONV_PAD_CONSTANT) return span;
  for (int64_t i = std::max(from, -2 * axis.in); i < std::min<int64_t>(to, 0); ++i)
    include(POLYCONV_ISA::inside(axis, i));
  for (int64_t i = std::max(from, axis.in); i < std::min(to, 3 * axis.in); ++i) include(POLYCONV_ISA::inside(axis, i));
  return span;
}

bool chain_stages(const polyconv_request &request, ChainPlan &plan, Offer &offer) {
  plan.count = 0;
  for (int32_t i = 0; i < request.count; ++i) {
    const polyconv_layer &layer = *request.layers[i];
    if (!takes(layer, i, offer)) return false;
    ChainStage &main = plan.stages[plan.count];
    main = convolution(layer, i);
    main.residual = residual_stage(plan, layer.epilogue.residual_from);
    if (main.residual != kNoStage) main.layer.epilogue.residual_from = POLYCONV_RESIDUAL_BUFFER;
    if (main.residual == kChainInput) main.layer.residual = request.layers[0]->input;
    ++plan.count;
    if (has_pooling(layer)) {
      plan.stages[plan.count] = pooling(layer, i, main);
      ++plan.count;
    }
  }
  plan.images = request.layers[0]->input.size[kN];
  plan.rows = plan.stages[plan.count - 1].rows.out;
  return true;
}

bool takes_columns(const ChainPlan &plan) {
  for (int32_t i = 0; i < plan.count; ++i) {
    const ChainStage &s = plan.stages[i];
    const bool apart = s.layer.input.size[kC] == 1 || s.layer.input.stride[kC] != 1;
    const bool planes = s.family && s.family->filters_planes && apart;
    const bool read_in_place = s.layer.input.type == s.layer.sum_type; // else lines are converted in chunks anyway
    const bool near = s.layer.pad_mode != POLYCONV_PAD_CIRCULAR && s.columns.before < reach_of(s.columns) &&
                      s.columns.after < reach_of(s.columns);
    if (!planes || !read_in_place || !near || s.residual >= 0) return false;
  }
  return true;
}

void set_band(ChainPlan &plan, int64_t band, int64_t width) {
  const ChainStage &end = plan.stages[plan.count - 1];
  plan.band = std::min(band, end.rows.out);
  plan.bands = ceil_div(end.rows.out, plan.band);
  plan.width = std::min(width, end.columns.out);
  plan.strips = ceil_div(end.columns.out, plan.width);
  int64_t rows = plan.band, columns = plan.width;
  for (int32_t i = plan.count - 1; i >= 0; --i) {
    ChainStage &s = plan.stages[i];
    s.most = s.kept = std::min(rows, s.rows.out);
    s.wide = plan.strips > 1 ? std::min(columns, s.columns.out) : s.columns.out;
    rows = (s.most - 1) * s.rows.step + reach_of(s.rows);
    columns = (s.wide - 1) * s.columns.step + reach_of(s.columns) + kColumns; // they begin at whole vectors
  }
  keep_residuals(plan);
  plan.scratch_at = 0;
  for (int32_t i = 0; i < plan.count; ++i) {
    ChainStage &s = plan.stages[i];
    const int64_t read = (s.wide - 1) * s.columns.step + reach_of(s.columns);
    set_size(s.layer.input, (s.most - 1) * s.rows.step + reach_of(s.rows), plan.strips > 1 ? read : s.columns.in);
    if (i + 1 < plan.count) s.layer.result = s.layer.output = kept_tensor(s, plan.strips > 1);
    if (s.op == POLYCONV_OP_CONVOLVE) set_size(s.layer.output, s.most, s.wide);
    set_size(s.layer.result, s.most, s.wide);
    if (s.residual >= 0) s.layer.residual = plan.stages[s.residual].layer.result;
    if (s.residual != kNoStage) set_size(s.layer.residual, s.most, s.wide);
    if (i + 1 == plan.count) break;
    plan.stages[i + 1].layer.input = s.layer.result;
    s.at = plan.scratch_at;
    plan.scratch_at += round_up(s.planes * s.kept * s.row_bytes, 64);
  }
}

} // namespace polyconv::cpu
