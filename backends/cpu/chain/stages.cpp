// stages.cpp - from layers to stages: poolings split off, and tensors for rows that only a strip's task sees. Compiled
// for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/chain/driver.hpp"

#include "cpu/count.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>

namespace polyconv::cpu {
namespace {

using namespace sdk;

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

// A pooling's rows as those of an unpadded axis: windows end where the tensor does.
Axis pool_rows(const polyconv_layer &layer) {
  const polyconv_pool &pool = layer.epilogue.pool;
  return {layer.output.size[kH], layer.result.size[kH], pool.window[1], pool.stride[1], 1,
          pool.pad_begin[1],     pool.pad_end[1],       nullptr,        nullptr};
}

ChainStage convolution(const polyconv_layer &layer, int32_t index) {
  ChainStage s{};
  s.layer = layer;
  s.op = POLYCONV_OP_CONVOLVE;
  s.index = index;
  s.rows = make_axis(layer, 1);
  return s;
}

// Splits the pooling off `main`, as plans do between two steps: what is left writes the activated values.
ChainStage pooling(const polyconv_layer &layer, int32_t index, ChainStage &main) {
  ChainStage s{};
  s.op = POLYCONV_OP_POOL;
  s.index = index;
  s.residual = kNoStage;
  s.rows = pool_rows(layer);
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

// `rows` kept rows of a tensor of the plan's, in its layout.
polyconv_tensor kept_tensor(const polyconv_tensor &whole, ChainStage &s) {
  polyconv_tensor t = whole;
  const int64_t channels = t.size[kC], width = t.size[kW], bytes = type_bytes(t.type);
  const bool last = channels > 1 && t.stride[kC] == 1;
  int64_t row = last ? channels * width : width;
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

void set_rows(polyconv_tensor &t, int64_t rows) {
  t.size[kN] = 1;
  t.size[kH] = rows;
}

} // namespace

RowSpan rows_read(const Axis &rows, int64_t first, int64_t last) {
  const int64_t from = first * rows.step - rows.before;
  const int64_t to = (last - 1) * rows.step - rows.before + reach_of(rows);
  RowSpan span = {std::clamp<int64_t>(from, 0, rows.in), std::clamp<int64_t>(to, 0, rows.in)};
  const auto include = [&](int64_t row) {
    if (row < 0) return;
    if (span.begin >= span.end) span = {row, row + 1};
    span = {std::min(span.begin, row), std::max(span.end, row + 1)};
  };
  for (int64_t y = from; y < std::min<int64_t>(to, 0); ++y) include(rows.left[-1 - y]);
  for (int64_t y = std::max(from, rows.in); y < to; ++y) include(rows.right[y - rows.in]);
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

void set_band(ChainPlan &plan, int64_t band) {
  plan.band = std::min(band, plan.rows);
  plan.bands = ceil_div(plan.rows, plan.band);
  int64_t wanted = plan.band;
  for (int32_t i = plan.count - 1; i >= 0; --i) {
    ChainStage &s = plan.stages[i];
    s.most = s.kept = std::min(wanted, s.rows.out);
    wanted = (s.most - 1) * s.rows.step + reach_of(s.rows);
  }
  for (int32_t i = 0; i < plan.count; ++i) { // residuals wait while the stages between run ahead
    if (plan.stages[i].residual < 0) continue;
    ChainStage &from = plan.stages[plan.stages[i].residual];
    for (int32_t between = plan.stages[i].residual + 1; between <= i; ++between)
      from.kept += reach_of(plan.stages[between].rows) - 1;
    from.kept = std::min(from.kept, from.rows.out);
  }
  plan.scratch_at = 0;
  for (int32_t i = 0; i < plan.count; ++i) {
    ChainStage &s = plan.stages[i];
    set_rows(s.layer.input, (s.most - 1) * s.rows.step + reach_of(s.rows));
    if (i + 1 < plan.count) s.layer.result = s.layer.output = kept_tensor(s.layer.result, s);
    if (s.op == POLYCONV_OP_CONVOLVE) set_rows(s.layer.output, s.most);
    set_rows(s.layer.result, s.most);
    if (s.residual >= 0) s.layer.residual = plan.stages[s.residual].layer.result;
    if (s.residual != kNoStage) set_rows(s.layer.residual, s.most);
    if (i + 1 == plan.count) break;
    plan.stages[i + 1].layer.input = s.layer.result;
    s.at = plan.scratch_at;
    plan.scratch_at += round_up(s.planes * s.kept * s.row_bytes, 64);
  }
}

} // namespace polyconv::cpu
