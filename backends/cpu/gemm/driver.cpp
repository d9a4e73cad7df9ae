// driver.cpp - offers a matrix product, packs its weights, fills its tables and runs it. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/gemm/driver.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/padding.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>

namespace polyconv::cpu {
namespace {

int64_t packed_weights_bytes(const GemmPlan &p) {
  return p.groups * p.panels * p.panel_channels * p.k * element_bytes(p);
}

int64_t workspace_bytes(const GemmPlan &p) {
  return p.pixel_parts * p.panel_parts * (p.packed_bytes + p.sums_bytes);
}

// Everything the packed bytes depend on beside the weight problem: element, which axis lies along the panels and how
// wide they are.
void set_format(const GemmPlan &p, sdk::Offer &offer) {
  static const char *const kElements[] = {"f32", "f64", "s16"};
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "cpu_gemm_%s_%c%d:1", kElements[static_cast<int>(p.arithmetic)],
                p.channels_along ? 'c' : 'p', static_cast<int>(p.panel_channels));
  offer.set_weights(0, format, packed_weights_bytes(p));
}

// Raw weights as the arithmetic's numbers.
template <class T>
T weight(const polyconv_layer &layer, const void *raw, int64_t index) {
  if constexpr (sizeof(T) == 2)
    return static_cast<T>(sdk::load_as<int32_t>(raw, layer.weights.type, index) - layer.weights_zero_point);
  else
    return sdk::load_as<T>(raw, layer.weights.type, index);
}

// One panel: [k][panel_channels], pairs of channels side by side where T is a half element. What no channel fills is 0.
template <class T>
void pack_panel(const GemmPlan &p, const polyconv_layer &layer, const void *raw, int64_t group, int64_t panel, T *out) {
  const int64_t per_element = sizeof(T) == 2 ? 2 : 1;
  const polyconv_tensor &w = layer.weights;
  std::fill(out, out + p.k * p.panel_channels * per_element, T(0));
  for (int64_t lane = 0; lane < p.panel_channels && panel * p.panel_channels + lane < p.group_out; ++lane) {
    const int64_t channel = group * p.group_out + panel * p.panel_channels + lane;
    for (int64_t c = 0; c < p.group_in; ++c) {
      int64_t k = c / per_element;
      for (int64_t d = 0; d < p.taps[0]; ++d)
        for (int64_t h = 0; h < p.taps[1]; ++h)
          for (int64_t x = 0; x < p.taps[2]; ++x, k += p.channel_elements)
            out[(k * p.panel_channels + lane) * per_element + c % per_element] =
                weight<T>(layer, raw, sdk::at(w, channel, c, d, h, x));
    }
  }
}

template <class T>
void pack_weights(const GemmPlan &p, const polyconv_layer &layer, const void *raw, void *packed) {
  T *out = static_cast<T *>(packed);
  const int64_t size = p.k * p.panel_channels * (sizeof(T) == 2 ? 2 : 1);
  for (int64_t group = 0; group < p.groups; ++group)
    for (int64_t panel = 0; panel < p.panels; ++panel, out += size) pack_panel(p, layer, raw, group, panel, out);
}

// The offsets that coordinates outside the input read, and the columns that need none of them.
std::vector<int64_t> make_tables(const polyconv_layer &layer, GemmPlan &p) {
  std::vector<int64_t> table;
  size_t begin[3][2];
  for (int i = 0; i < 3; ++i) {
    const GemmAxis &axis = p.axis[i];
    const auto append = [&](int64_t coordinate) {
      const int64_t inside = sdk::padded_index(coordinate, axis.size, layer.pad_mode);
      table.push_back(inside < 0 ? -1 : inside * axis.stride);
    };
    begin[i][0] = table.size();
    for (int64_t j = 1; j <= layer.pad_begin[i]; ++j) append(-j);
    begin[i][1] = table.size();
    for (int64_t j = 0; j < layer.pad_end[i]; ++j) append(axis.size + j);
  }
  const size_t inside = table.size();
  const GemmAxis &columns = p.axis[2];
  for (int64_t s = 0; s < p.taps[2]; ++s) {
    const int64_t shift = columns.before - s * columns.dilation; // input column = output column * step - shift
    table.push_back(std::clamp<int64_t>(shift > 0 ? ceil_div(shift, columns.step) : 0, 0, p.out[2]));
    const int64_t end = columns.size + shift;
    table.push_back(std::clamp<int64_t>(end > 0 ? ceil_div(end, columns.step) : 0, 0, p.out[2]));
  }
  for (int i = 0; i < 3; ++i) {
    p.axis[i].left = table.data() + begin[i][0];
    p.axis[i].right = table.data() + begin[i][1];
  }
  p.inside = table.data() + inside;
  return table;
}

class GemmInstance final : public sdk::Instance {
 public:
  GemmInstance(const polyconv_request &request, Isa isa, bool in_place, GemmTask task)
      : layer_(*request.layers[0]), plan_(gemm_geometry(layer_, *request.policy, isa, in_place)), task_(task) {
    tables_ = make_tables(layer_, plan_);
    if (tasks() > 1) parallel_ = sdk::make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override {
    switch (plan_.arithmetic) {
      case GemmArithmetic::kF32: return pack_weights<float>(plan_, layer_, raw, packed);
      case GemmArithmetic::kF64: return pack_weights<double>(plan_, layer_, raw, packed);
      case GemmArithmetic::kPairs: return pack_weights<int16_t>(plan_, layer_, raw, packed);
    }
  }

  void run(const polyconv_arguments &arguments, void *) const override {
    const GemmRun run = {with_arguments(plan_.epilogue, arguments), arguments.input, arguments.weights[0]};
    const auto one_task = [&](int64_t task) { task_(plan_, run, share_of(task, arguments.workspace)); };
    if (parallel_)
      (*parallel_)(tasks(), one_task);
    else
      one_task(0);
  }

 private:
  int64_t tasks() const { return plan_.pixel_parts * plan_.panel_parts; }

  GemmShare share_of(int64_t task, void *workspace) const {
    const GemmPlan &p = plan_;
    const sdk::Share units = sdk::share(ceil_div(p.pixels, p.pixel_unit), p.pixel_parts, task % p.pixel_parts);
    const sdk::Share panels = sdk::share(p.groups * p.panels, p.panel_parts, task / p.pixel_parts);
    char *scratch = static_cast<char *>(workspace) + task * (p.packed_bytes + p.sums_bytes);
    return {units.begin * p.pixel_unit, std::min(units.end * p.pixel_unit, p.pixels), panels.begin, panels.end, scratch,
            scratch + p.packed_bytes};
  }

  polyconv_layer layer_;
  GemmPlan plan_;
  GemmTask task_;
  std::vector<int64_t> tables_; // what plan_ points into
  std::unique_ptr<sdk::Parallel> parallel_;
};

} // namespace

bool gemm_takes(const polyconv_request &request, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("convolves; it neither pools nor converts alone");
  if (request.count != 1) return offer.reject("takes one layer, not a chain of %d", request.count);
  if (request.layers[0]->direction != POLYCONV_FORWARD) return offer.reject("takes forward convolutions, no gradients");
  return true;
}

bool gemm_offer(const polyconv_request &request, Isa isa, bool in_place, sdk::Offer &offer) {
  const polyconv_layer &layer = *request.layers[0];
  if (sdk::has_pooling(layer)) {
    offer.rejects_pooling = 1;
    return offer.reject("stores what it sums; pooling is a step of its own");
  }
  const GemmPlan p = gemm_geometry(layer, *request.policy, isa, in_place);
  offer.workspace_bytes = workspace_bytes(p);
  if (offer.workspace_bytes > request.policy->workspace_limit)
    return offer.reject("needs %" PRId64 " bytes of workspace; the limit is %" PRId64, offer.workspace_bytes,
                        request.policy->workspace_limit);
  offer.math = POLYCONV_MATH_STRICT;
  offer.estimate_us = p.estimate_us;
  set_format(p, offer);
  return true;
}

std::unique_ptr<sdk::Instance> gemm_create(const polyconv_request &request, Isa isa, bool in_place, GemmTask task) {
  return std::make_unique<GemmInstance>(request, isa, in_place, task);
}

} // namespace polyconv::cpu
