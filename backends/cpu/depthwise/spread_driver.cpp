// spread_driver.cpp - plans, packs and runs gradients of data at stride 2. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/aligned.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr double kFromCaches = 0.18; // of the time that kBytesPerUs allows, as rows come in order
constexpr const char *kFormat = "cpu_depthwise_spread_f32:1";

int64_t tensor_bytes(const polyconv_layer &l) {
  return (elements(l.input) + elements(l.output)) * 4;
}

int64_t rows_of_taps(const SpreadPlan &p) {
  return p.axis[0].taps * p.axis[1].taps;
}

int64_t weights_elements(const SpreadPlan &p) {
  return rows_of_taps(p) * 2 * p.window * p.row_stride;
}

// Result column x = 2 j + r reads source o through tap k where x + before = 2 o + k. So column r of pair j reads
// sources up to `last + j`, through taps `tap`, `tap` + 2, ... from there back.
struct SpreadColumn {
  int64_t last, tap, count;
};
SpreadColumn column_of(const Axis &w, int64_t r) {
  const int64_t tap = (r + w.before) % 2;
  return {(r + w.before - tap) / 2, tap, tap < w.taps ? (w.taps - tap + 1) / 2 : 0};
}

void set_window(SpreadPlan &p) {
  const SpreadColumn column[2] = {column_of(p.axis[2], 0), column_of(p.axis[2], 1)};
  const auto begin = [&](int r) { return column[r].last - column[r].count + 1; };
  p.first = std::min(begin(0), begin(1));
  p.window = std::max(column[0].last, column[1].last) + 1 - p.first;
  for (int r = 0; r < 2; ++r) p.begin[r] = begin(r) - p.first, p.end[r] = column[r].last + 1 - p.first;
}

SpreadPlan spread_geometry(const polyconv_layer &l, const polyconv_policy &policy, Isa isa) {
  SpreadPlan p{};
  p.source = l.output;
  p.epilogue = make_epilogue(l);
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(l, i);
  p.channels = l.input.size[kC];
  p.row_stride = round_up(p.channels, kDepthwiseUnit);
  set_window(p);
  p.pairs = ceil_div(p.axis[2].in, 2);
  const bool seven = round_up(p.pairs, kDepthwiseSeven) < round_up(p.pairs, kDepthwiseWide);
  p.tile = seven ? kDepthwiseSeven : kDepthwiseWide;
  p.list = round_up(p.pairs, p.tile) + p.window - 1;
  p.rows_at = rows_of_taps(p) * p.list * 8;
  p.scratch_bytes = round_up(p.rows_at + rows_of_taps(p) * 8, 64);
  p.items = l.input.size[kN] * p.axis[0].in * p.axis[1].in;
  const double rows = real(p.items), vectors = real(ceil_div(p.channels, vector_bytes(isa) / 4));
  const double lines = real(rows_of_taps(p)) / real(p.axis[0].step * p.axis[1].step);
  const double cycles = rows * real(round_up(p.pairs, p.tile)) * vectors * (0.6 * lines * real(p.axis[2].taps) + 3) +
                        rows * (lines * real(p.list) + 100);
  p.tasks = std::clamp<int64_t>(p.items, 1, tasks_for(policy, cycles * cycle_us(isa)));
  p.estimate_us = estimate_us(p.tasks, cycles * cycle_us(isa), real(tensor_bytes(l)) * kFromCaches);
  return p;
}

class SpreadInstance final : public Instance {
 public:
  SpreadInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(spread_geometry(layer_, *request.policy, isa)),
        isa_(isa),
        vector_(vector_bytes(isa)),
        padding_(static_cast<size_t>(plan_.channels)) {
    plan_.padding = padding_.data();
    may_stream_ = tensor_bytes(layer_) >= kStreamBytes && plan_.channels * 4 % vector_ == 0 &&
                  steps_aligned(plan_.epilogue.result, {kN, kD, kH, kW}, vector_);
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override {
    const SpreadPlan &p = plan_;
    const polyconv_tensor &w = layer_.weights;
    float *out = static_cast<float *>(packed);
    std::fill(out, out + weights_elements(p), 0.0f);
    for (int64_t line = 0; line < rows_of_taps(p); ++line)
      for (int r = 0; r < 2; ++r, out += p.window * p.row_stride) {
        const SpreadColumn column = column_of(p.axis[2], r);
        for (int64_t i = 0; i < column.count; ++i)
          for (int64_t c = 0; c < p.channels; ++c)
            out[(p.end[r] - 1 - i) * p.row_stride + c] = load_as<float>(
                raw, w.type, at(w, c, 0, line / p.axis[1].taps, line % p.axis[1].taps, column.tap + 2 * i));
      }
  }

  void run(const polyconv_arguments &a, void *) const override {
    LayerRun run = layer_run(plan_.epilogue, a, may_stream_ && aligned(a.input, vector_));
    run.input = a.output, run.epilogue.output = a.input;
    run_items(parallel_, plan_.items, plan_.tasks, a.workspace, plan_.scratch_bytes,
              [&](const ItemShare &share) { spread_task_by_isa[isa_](plan_, run, share); });
  }

 private:
  polyconv_layer layer_;
  SpreadPlan plan_;
  Isa isa_;
  int64_t vector_;
  bool may_stream_;
  std::vector<float> padding_;
  std::unique_ptr<Parallel> parallel_;
};

} // namespace

bool spread_takes(const polyconv_request &request, Isa isa) {
  if (request.op != POLYCONV_OP_CONVOLVE || request.count != 1 || !many_registers(isa)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int64_t channels = l.input.size[kC];
  const bool value = l.pad_mode == POLYCONV_PAD_ZERO || l.pad_mode == POLYCONV_PAD_CONSTANT;
  const bool depthwise = l.groups == channels && l.weights.size[kC] == 1 && l.output.size[kC] == channels;
  return l.direction == POLYCONV_BACKWARD_DATA && value && depthwise && channels * 4 >= vector_bytes(isa) &&
         l.stride[2] == 2 && l.dilation[2] == 1 && l.output.type == POLYCONV_F32 && l.weights.type == POLYCONV_F32 &&
         l.output.stride[kC] == 1 && l.result.stride[kC] == 1 && !has_pooling(l) && make_epilogue(l).simple;
}

bool spread_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  if (!takes_strips(request, offer) || !can_list_a_pixel(l, offer)) return false;
  const SpreadPlan p = spread_geometry(l, *request.policy, isa);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  offer.set_weights(0, kFormat, weights_elements(p) * 4);
  return true;
}

std::unique_ptr<Instance> spread_create(const polyconv_request &request, Isa isa) {
  return std::make_unique<SpreadInstance>(request, isa);
}

} // namespace polyconv::cpu
