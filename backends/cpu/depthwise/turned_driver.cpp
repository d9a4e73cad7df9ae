// turned_driver.cpp - plans and runs depthwise convolution with channels first by way of pixels. Compiled for the
// baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/turned_driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/depthwise/driver.hpp"
#include "cpu/plane/driver.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr double kTurnCycles = 0.5;   // an element, to or from pixels, with its part of what is moved
constexpr double kFinishCycles = 1.5; // an element, where results are more than stored
constexpr double kStripUs = 0.2;      // a strip, however small
constexpr double kFromMemory = 0.5;   // of the time that kBytesPerUs allows: planes are read a piece at a time

// The layer of one image of `unit` channels side by side, without anything behind its sums.
polyconv_layer pixels_of(polyconv_layer layer, int64_t unit) {
  layer.groups = unit;
  layer.weights.size[kK] = unit;
  layer.epilogue = {};
  layer.epilogue.residual_scale = layer.epilogue.out_scale = 1;
  layer.save = POLYCONV_SAVE_NONE;
  for (polyconv_tensor *t : {&layer.input, &layer.output, &layer.result}) {
    t->offset = 0, t->type = POLYCONV_F32;
    t->size[kN] = 1, t->size[kC] = unit;
    int64_t stride = 1;
    for (const int axis : {kC, kW, kH, kD, kN}) t->stride[axis] = stride, stride *= t->size[axis];
  }
  return layer;
}

// As many channels as share the list of a small image's pixels, while they stay in the cache and keep all threads busy.
// Pixels of 128 channels would share eight sets of the first cache.
int64_t unit_of(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  const int64_t pixels = spatial(layer.input) + spatial(layer.output), channels = layer.input.size[kC];
  int64_t most = many_registers(isa) ? kDepthwiseBlock : kDepthwiseBlock - kDepthwiseUnit;
  while (most > kDepthwiseUnit &&
         (pixels > kTurnedStripBytes / (most * 4) ||
          (policy.threads > 1 && ceil_div(channels, most) * layer.input.size[kN] < 4 * policy.threads)))
    most = round_up(most / 2, kDepthwiseUnit);
  return round_up(ceil_div(channels, ceil_div(channels, most)), kDepthwiseUnit);
}

// Strips of rows of nearly equal height whose source and results stay in the cache.
void set_strips(TurnedPlan &p, const polyconv_layer &layer) {
  const Axis &h = p.pixels.axis[1];
  const int64_t line_in = layer.input.size[kD] * layer.input.size[kW] * p.unit * 4;
  const int64_t line_out = layer.output.size[kD] * layer.output.size[kW] * p.unit * 4;
  const int64_t reach = (h.taps - 1) * h.dilation + 1, step = std::min(h.step, reach);
  const int64_t rows = (kTurnedStripBytes - reach * line_in) / std::max<int64_t>(step * line_in + line_out, 1);
  p.strips = ceil_div(h.out, std::clamp<int64_t>(rows, 1, std::max<int64_t>(h.out, 1)));
  p.strip_rows = ceil_div(h.out, std::max<int64_t>(p.strips, 1));
  p.strips = ceil_div(h.out, std::max<int64_t>(p.strip_rows, 1));
  const int64_t lines = std::clamp<int64_t>((p.strip_rows - 1) * h.step + reach, 0, layer.input.size[kH]);
  p.source_at = round_up(p.pixels.scratch_bytes, 64);
  p.result_at = p.source_at + round_up(lines * line_in, 64);
  p.scratch_bytes = p.result_at + round_up(p.strip_rows * line_out, 64);
}

class TurnedInstance final : public RowInstance {
 public:
  TurnedInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]), plan_(turned_geometry(layer_, *request.policy, isa)), isa_(isa) {
    tables_ = make_axis_tables(layer_, plan_.pixels.axis);
    padding_.assign(static_cast<size_t>(plan_.unit), static_cast<float>(layer_.pad_value));
    plan_.pixels.padding = padding_.data();
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override {
    DepthwisePlan all = plan_.pixels;
    all.channels = plan_.channels;
    depthwise_pack(all, layer_, raw, packed);
  }

  void run(const polyconv_arguments &a, void *) const override {
    const LayerRun run = layer_run(plan_.epilogue, a);
    run_items(parallel_, plan_.items, plan_.tasks, a.workspace, plan_.scratch_bytes, [&](const ItemShare &share) {
      depthwise_turned_task_by_isa[isa_](plan_, run,
                                         {share.first, share.last, plan_.pixels.axis[1], plan_.pixels.axis[2],
                                          plan_.strip_rows, plan_.strips, share.scratch});
    });
  }

  void run_rows(const polyconv_arguments &a, const RowWindow &window) const override {
    const LayerRun run = window_run(plan_.epilogue, a, window);
    const int64_t strips = ceil_div(window.rows.count, plan_.strip_rows);
    depthwise_turned_task_by_isa[isa_](plan_, run,
                                       {0, plan_.units * strips, axis_of(window.rows), axis_of(window.columns),
                                        plan_.strip_rows, strips, static_cast<char *>(a.workspace)});
  }

 private:
  polyconv_layer layer_;
  TurnedPlan plan_;
  Isa isa_;
  std::vector<int64_t> tables_; // what plan_ points into
  std::vector<float> padding_;
  std::unique_ptr<Parallel> parallel_;
};

} // namespace

bool turned_takes(const polyconv_layer &layer) {
  const int64_t channels = layer.input.size[kC];
  const bool scales = taps(layer) == 1 && layer.stride[0] * layer.stride[1] * layer.stride[2] == 1; // planes, in place
  const bool value = layer.pad_mode == POLYCONV_PAD_ZERO || layer.pad_mode == POLYCONV_PAD_CONSTANT;
  // Parts of a strided gradient read the taps of one kernel where they lie: those that pack and those that do not would
  // not share it.
  const bool whole = channels == 1 || layer.weights.stride[kK] == taps(layer);
  return !scales && whole && layer.sum_type == POLYCONV_F32 && layer.weights.size[kC] == 1 &&
         layer.output.size[kC] == channels && layer.groups == channels && value &&
         (layer.input.stride[kW] == 1 || layer.input.size[kW] == 1);
}

TurnedPlan turned_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  TurnedPlan p{};
  polyconv_policy alone = policy;
  alone.threads = 1;
  p.unit = unit_of(layer, policy, isa);
  p.pixels = depthwise_geometry(pixels_of(layer, p.unit), alone, isa);
  p.pixels.walks = 0;
  p.pixels.ahead = 0; // what it reads is in the cache
  p.pixels.parts = 1; // a unit is one
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  p.channels = layer.input.size[kC];
  p.units = ceil_div(p.channels, p.unit);
  p.pixels.row_stride = round_up(p.channels, kDepthwiseUnit);
  set_strips(p, layer);
  p.items = layer.output.size[kN] * p.units * p.strips;

  const double images = real(layer.output.size[kN] * p.units), strips = real(p.strips);
  const double lines = real(layer.input.size[kH]) + (strips - 1) * real((p.pixels.axis[1].taps - 1));
  const double in = images * lines * real(layer.input.size[kD] * layer.input.size[kW] * p.unit);
  const double out = images * real(spatial(layer.output) * p.unit);
  const double cycles = (in + out) * kTurnCycles + (p.epilogue.simple ? 0 : out * kFinishCycles);
  p.serial_us = images * p.pixels.serial_us + cycles * cycle_us(isa) + images * strips * kStripUs;
  const int64_t fit = std::max<int64_t>(policy.workspace_limit / std::max<int64_t>(p.scratch_bytes, 1), 1);
  p.tasks = std::clamp<int64_t>(p.items, 1, std::min(tasks_for(policy, p.serial_us), fit));
  const double moved = real(elements(layer.input) * type_bytes(layer.input.type) +
                            elements(layer.result) * type_bytes(layer.result.type));
  p.estimate_us = estimate_us(p.tasks, p.serial_us, moved * kFromMemory);
  return p;
}

bool turned_pays(const polyconv_request &request, Isa isa) {
  return turned_takes(*request.layers[0]) && beats_planes(request, isa, turned_geometry);
}

bool turned_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  const polyconv_layer &layer = *request.layers[0];
  if (!takes_no_pooling(layer, offer)) return false;
  const TurnedPlan p = turned_geometry(layer, *request.policy, isa);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  depthwise_format(p.pixels, layer, offer);
  return true;
}

std::unique_ptr<Instance> turned_create(const polyconv_request &request, Isa isa) {
  return std::make_unique<TurnedInstance>(request, isa);
}

} // namespace polyconv::cpu
