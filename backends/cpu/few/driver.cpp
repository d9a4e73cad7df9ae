// driver.cpp - plans, offers, packs and runs the kernel for few filters. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/few/plan.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr double kFromMemory = 0.3; // of the time that kBytesPerUs allows, as rows come in order

// Microseconds of one thread.
double serial_us(const FewPlan &p, int64_t lanes, Isa isa) {
  const double filters = real(p.filters), pixels = kFewPixels[many_registers(isa)][p.filters];
  const double tiles = real(p.items * p.groups) * real(ceil_div(p.axis[2].out, p.chunks)) / pixels + real(p.items);
  const double taps = real(p.lines * p.axis[2].taps), vectors = real(ceil_div(p.channels, lanes));
  const double step = std::max(pixels * filters, pixels + filters + 1) / 2;
  const double across = 45.0 / 16 * real(round_up(static_cast<int64_t>(pixels) * p.filters, lanes));
  double cycles = tiles * (taps * (vectors * step + pixels) + across + 20);
  cycles += real(p.items) * (taps * real(p.line_pixels) / real(p.axis[2].taps) + 30);
  if (!p.direct) cycles += tiles * pixels * (p.epilogue.result.stride[kC] == 1 ? 20 : 60);
  return cycles * cycle_us(isa);
}

FewPlan make_plan(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  FewPlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  const int64_t lanes = vector_bytes(isa) / 4;
  const Axis &w = p.axis[2];
  p.groups = layer.groups;
  p.channels = layer.weights.size[kC];
  p.filters = layer.output.size[kC] / p.groups;
  p.group_weights = taps(layer) * round_up(p.channels, lanes) * p.filters;
  const polyconv_tensor &r = layer.result;
  const bool in_line = (r.stride[kC] == 1 || p.filters == 1) && r.stride[kW] == p.filters;
  p.direct = p.epilogue.simple && p.groups == 1 && in_line;
  p.lines = p.axis[0].taps * p.axis[1].taps;
  const int64_t pixels = kFewPixels[many_registers(isa)][p.filters];
  const int64_t columns = round_up(std::min(w.out, kFewChunk), pixels);
  p.line_pixels = std::max<int64_t>(columns - 1, 0) * w.step + (w.taps - 1) * w.dilation + 1;
  p.chunks = std::max<int64_t>(ceil_div(w.out, kFewChunk), 1);
  p.items = layer.output.size[kN] * p.axis[0].out * p.axis[1].out * p.chunks;
  p.sums_at = round_up(p.lines * p.line_pixels * 8, 64);
  p.scratch_bytes = p.sums_at + (p.direct ? 0 : round_up(columns * p.filters * 4, 64));
  const double us = serial_us(p, lanes, isa);
  const double moved = real(elements(layer.input) * type_bytes(layer.input.type) +
                            elements(layer.result) * type_bytes(layer.result.type));
  p.tasks = std::clamp<int64_t>(p.items, 1, tasks_for(policy, us));
  p.estimate_us = estimate_us(p.tasks, us + group_lines_us(layer), moved * kFromMemory);
  return p;
}

class FewInstance final : public Instance {
 public:
  FewInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(make_plan(layer_, *request.policy, isa)),
        lanes_(vector_bytes(isa) / 4),
        isa_(isa),
        axes_(make_axis_tables(layer_, plan_.axis)),
        padding_(static_cast<size_t>(layer_.input.size[kC])) {
    for (int64_t c = 0; c < layer_.input.size[kC]; ++c)
      store_as<double>(padding_.data(), layer_.input.type, c, layer_.pad_value);
    plan_.padding = padding_.data();
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  // [group][tap][vector of channels][filter][lane]; lanes beyond the last channel are 0.
  void pack(int, const void *raw, void *packed, void *) override {
    const polyconv_tensor &w = layer_.weights;
    float *out = static_cast<float *>(packed);
    for (int64_t group = 0; group < plan_.groups; ++group)
      for (int64_t tap = 0; tap < taps(layer_); ++tap)
        for (int64_t first = 0; first < plan_.channels; first += lanes_)
          for (int64_t k = 0; k < plan_.filters; ++k)
            for (int64_t c = first; c < first + lanes_; ++c) {
              const int64_t line = tap / w.size[kW];
              *out++ = c < plan_.channels ? load_as<float>(raw, w.type,
                                                           at(w, group * plan_.filters + k, c, line / w.size[kH],
                                                              line % w.size[kH], tap % w.size[kW]))
                                          : 0.0f;
            }
  }

  void run(const polyconv_arguments &a, void *) const override {
    const LayerRun run = layer_run(plan_.epilogue, a);
    run_items(parallel_, plan_.items, plan_.tasks, a.workspace, plan_.scratch_bytes,
              [&](const ItemShare &share) { few_task_by_isa[isa_](plan_, run, share); });
  }

 private:
  polyconv_layer layer_;
  FewPlan plan_;
  int64_t lanes_;
  Isa isa_;
  std::vector<int64_t> axes_;   // what plan_ points into
  std::vector<double> padding_; // room for a pixel of any type
  std::unique_ptr<Parallel> parallel_;
};

bool few_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_strips(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (layer.sum_type != POLYCONV_F32 || layer.weights.type != layer.input.type)
    return offer.reject("takes f32, f16 and bf16");
  const int64_t filters = layer.output.size[kC] / layer.groups;
  if (filters > kFewFilters)
    return offer.reject("takes up to %d filters of a group, not %" PRId64, kFewFilters, filters);
  if (layer.input.stride[kC] != 1 && layer.input.size[kC] > 1)
    return wants_layout(POLYCONV_CHANNELS_LAST, "lays input channels along the vectors: takes them side by side",
                        offer);
  if (!takes_no_pooling(layer, offer) || !can_list_a_pixel(layer, offer)) return false;
  const FewPlan p = make_plan(layer, *request.policy, isa);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  set_weights(offer, p.groups * p.group_weights * 4, "cpu_few_%d:1", static_cast<int>(vector_bytes(isa) / 4));
  return true;
}

} // namespace

const sdk::Kernel kernel_few = kernel_by_isa("few", supports_by_isa<few_offer>, create_by_isa<FewInstance>);

} // namespace polyconv::cpu
