// weights_driver.cpp - plans and runs depthwise weight gradients. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/weights_plan.hpp"

#include "cpu/bias/driver.hpp"
#include "cpu/common/accepts.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kSplits = 16; // of the pixels, whatever the number of threads
constexpr int64_t kChunk = 128; // columns of a unit
constexpr int64_t kLine = 64;
constexpr double kFromMemory = 0.3; // of the time that kBytesPerUs allows, as units come in order

// Rows and columns of a unit, and its table of pixels.
void set_units(DepthwiseWeightsPlan &p, const polyconv_layer &layer) {
  const Axis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  p.chunk = std::min(w.out, kChunk);
  p.chunks = ceil_div(w.out, p.chunk);
  const double row = real(p.chunk * p.channels * type_bytes(layer.input.type)) * (real(h.step) * real(w.step) + 1);
  p.rows = std::clamp<int64_t>(static_cast<int64_t>(real(kDepthwiseUnitBytes) / row), 1, h.out);
  p.row_groups = ceil_div(h.out, p.rows);
  p.rows = ceil_div(h.out, p.row_groups);
  p.row_groups = ceil_div(h.out, p.rows);
  p.units = layer.output.size[kN] * d.out * p.row_groups * p.chunks;
  p.lines = (p.rows - 1) * h.step + (h.taps - 1) * h.dilation + 1;
  p.line_pixels = (p.chunk - 1) * w.step + (w.taps - 1) * w.dilation + 1;
  p.table_bytes = round_up(d.taps * p.lines * p.line_pixels * 8, kLine);
}

// Whether units follow each other in memory, in both tensors.
bool comes_in_order(const DepthwiseWeightsPlan &p, const polyconv_layer &layer) {
  const auto dense = [](const polyconv_tensor &t) {
    return t.stride[kW] == t.size[kC] && t.stride[kH] == t.size[kW] * t.stride[kW] && t.size[kD] == 1;
  };
  return p.chunks == 1 && dense(layer.input) && dense(layer.output) && one_image_stride(layer.input) &&
         one_image_stride(layer.output) && p.axis[1].step == p.axis[2].step && p.axis[1].step <= 2;
}

// Microseconds of one thread, tensors in the cache.
double serial_us(const DepthwiseWeightsPlan &p, Isa isa, int64_t lanes) {
  const double vectors = real(ceil_div(p.channels, lanes)), units = real(p.units), taps = real(p.taps);
  const double pixels = units * real(p.rows * p.chunk);
  // Kernels of other widths go in pieces, and pixels that share a set of the first cache are found in the second one.
  constexpr int64_t kApart = 2048;
  const bool whole = p.axis[2].taps == 3 || p.axis[2].taps == 5;
  const bool apart = p.input.stride[kW] * type_bytes(p.input.type) % kApart == 0;
  const double tap = whole ? 0.6 : apart ? 2.0 : 0.85;
  const double cycles = pixels * vectors * (tap * taps + 0.5 * real(ceil_div(p.taps, 9))) +
                        units * vectors * (1.5 * taps + 40) + units * real(p.axis[0].taps * p.lines * p.line_pixels) +
                        real(p.splits) * vectors * taps;
  return cycles * cycle_us(isa);
}

DepthwiseWeightsPlan make_plan(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, double *us) {
  DepthwiseWeightsPlan p{};
  p.input = layer.input, p.gradient = layer.output, p.weights = layer.result;
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  const int64_t bytes = sum_bytes(layer.sum_type), lanes = vector_bytes(isa) / bytes;
  p.taps = taps(layer);
  p.channels = layer.input.size[kC];
  p.row_stride = round_up(p.channels, kDepthwiseJoin);
  p.split_elements = p.taps * p.row_stride;
  set_units(p, layer);
  p.splits = std::clamp<int64_t>(p.units, 1, kSplits);
  p.parts = std::clamp<int64_t>(kSplits / 2 / p.splits, 1, ceil_div(p.channels, lanes));
  p.ahead = comes_in_order(p, layer) && p.parts == 1;
  const double serial = serial_us(p, isa, lanes);
  const double moved = real(elements(layer.input) + elements(layer.output)) * real(type_bytes(layer.input.type));
  p.tasks = std::min(tasks_for(policy, serial), p.splits * p.parts);
  p.sums_at = p.tasks * p.table_bytes;
  *us = estimate_us(p.tasks, serial, moved * kFromMemory);
  return p;
}

int64_t bias_at(const DepthwiseWeightsPlan &p, const polyconv_layer &layer) {
  return round_up(p.sums_at + p.splits * p.split_elements * sum_bytes(layer.sum_type), kLine);
}

class DepthwiseWeightsInstance final : public Instance {
 public:
  DepthwiseWeightsInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(make_plan(layer_, *request.policy, isa, &us_)),
        bias_(make_bias(layer_)),
        isa_(isa),
        axes_(make_axis_tables(layer_, plan_.axis)),
        padding_(static_cast<size_t>(plan_.channels)) {
    const double value = layer_.pad_mode == POLYCONV_PAD_CONSTANT ? layer_.pad_value : 0;
    for (int64_t c = 0; c < plan_.channels; ++c) store_as<double>(padding_.data(), layer_.input.type, c, value);
    plan_.padding = padding_.data();
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  void run(const polyconv_arguments &a, void *) const override {
    const DepthwiseWeightsPlan &p = plan_;
    char *const workspace = static_cast<char *>(a.workspace);
    const DepthwiseWeightsRun run = {a.input, a.output, a.weights[0], workspace + p.sums_at};
    run_each(parallel_, p.splits * p.parts, p.tasks, [&](int64_t task, int64_t item) {
      depthwise_weights_sum_by_isa[isa_](p, run, {item / p.parts, item % p.parts, workspace + task * p.table_bytes});
    });
    run_each(parallel_, ceil_div(p.channels, kDepthwiseJoin), p.tasks,
             [&](int64_t, int64_t item) { depthwise_weights_end_by_isa[isa_](p, run, item * kDepthwiseJoin); });
    run_bias(bias_, layer_, isa_, parallel_, a, workspace + bias_at(p, layer_));
  }

 private:
  polyconv_layer layer_;
  double us_ = 0;
  DepthwiseWeightsPlan plan_;
  BiasPlan bias_;
  Isa isa_;
  std::vector<int64_t> axes_;   // what plan_ points into
  std::vector<double> padding_; // room for `channels` elements of any type
  std::unique_ptr<Parallel> parallel_;
};

bool depthwise_weights_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_strips(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (layer.groups == 1 || layer.weights.size[kC] != 1 || layer.weights.size[kK] != layer.groups)
    return offer.reject("takes one channel a group and one filter of each");
  if (layer.input.stride[kC] != 1 || layer.output.stride[kC] != 1)
    return wants_layout(POLYCONV_CHANNELS_LAST, "lays channels along the vectors: takes them side by side", offer);
  if (layer.stride[2] > 2 || layer.dilation[2] != 1)
    return offer.reject("unrolls taps along W at stride 1 or 2 and not dilated");
  if (layer.input.type != layer.output.type) return offer.reject("takes input and gradient of one type");
  if (!can_list_a_pixel(layer, offer)) return false;
  const DepthwiseWeightsPlan p = make_plan(layer, *request.policy, isa, &offer.estimate_us);
  return fits_workspace(request, 1, bias_at(p, layer) + bias_bytes(make_bias(layer)), offer);
}

} // namespace

const sdk::Kernel kernel_depthwise_weights =
    kernel_by_isa("depthwise_weights", supports_by_isa<depthwise_weights_offer>,
                  create_by_isa<DepthwiseWeightsInstance>, POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cpu
