// driver.cpp - packs and runs depthwise convolution with channels side by side. Compiled for the baseline CPU.
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
#include <cstdio>
#include <vector>

namespace polyconv::cpu {

// Of a pass that this build may lack.
namespace POLYCONV_DOTS_ISA {
void depthwise_bf16_task(const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share);
}

namespace {

using namespace sdk;

constexpr int64_t kLine = 64; // of a cache, bytes

// Results that tiles store line by line: half of a line past the caches, and the other half a row later, takes two to
// three times as long as through them.
bool may_pass_caches(const DepthwisePlan &p, Isa isa) {
  const bool lines = vector_bytes(isa) >= kLine || p.twins;
  return lines && p.direct && !p.narrow && p.channels * 4 % kLine == 0 &&
         steps_aligned(p.epilogue.result, {kN, kD, kH, kW}, kLine);
}

typedef void (*DepthwiseTask)(const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share);

DepthwiseTask task_of(const DepthwisePlan &p, Isa isa) {
#if POLYCONV_HAVE_DOTS && !defined(__aarch64__)
  if (isa == kDots) return POLYCONV_DOTS_ISA::depthwise_bf16_task;
#endif
  return p.grouped ? grouped_task_by_isa[isa] : depthwise_task_by_isa[isa];
}

class DepthwiseInstance final : public RowInstance {
 public:
  DepthwiseInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(depthwise_geometry(layer_, *request.policy, isa)),
        task_(task_of(plan_, isa)),
        may_pass_(may_pass_caches(plan_, isa)),
        may_stream_(may_pass_ && tensor_bytes(layer_) >= kStreamBytes),
        tables_(make_axis_tables(layer_, plan_.axis)),
        padding_(static_cast<size_t>(layer_.input.size[kC])) {
    const bool zero_point = is_quantised(layer_) && layer_.pad_mode == POLYCONV_PAD_ZERO;
    const double value = zero_point ? layer_.input_zero_point : layer_.pad_value;
    for (int64_t c = 0; c < layer_.input.size[kC]; ++c) store_as<double>(padding_.data(), layer_.input.type, c, value);
    plan_.padding = padding_.data();
    for (int64_t k = 0; plan_.grouped && k < plan_.row_stride; ++k)
      sources_.push_back(static_cast<int32_t>(source_of(layer_, std::min(k, plan_.channels - 1))));
    plan_.sources = sources_.data();
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override { depthwise_pack(plan_, layer_, raw, packed); }

  void run(const polyconv_arguments &a, void *) const override {
    const LayerRun run = layer_run(plan_.epilogue, a, may_stream_ && aligned(a.output, kLine));
    run_items(parallel_, plan_.items, plan_.tasks, a.workspace, plan_.scratch_bytes,
              [&](const ItemShare &share) { task_(plan_, run, share); });
  }

  void run_rows(const polyconv_arguments &a, const RowWindow &window) const override {
    DepthwisePlan p = plan_;
    p.axis[1] = axis_of(window.rows);
    p.input.size[kH] = p.axis[1].in;
    p.ahead = window.from_memory && p.square != 0;
    p.row_groups = ceil_div(window.rows.count, p.tile_rows);
    p.items = p.row_groups * p.parts;
    const LayerRun run = window_run(p.epilogue, a, window, window.to_memory && may_pass_ && aligned(a.output, kLine));
    task_(p, run, {0, p.items, static_cast<char *>(a.workspace)});
  }

 private:
  polyconv_layer layer_;
  DepthwisePlan plan_;
  DepthwiseTask task_;
  bool may_pass_, may_stream_;  // results may pass the caches by; and do, of tensors beyond these
  std::vector<int64_t> tables_; // what plan_ points into
  std::vector<double> padding_; // room for a pixel of any type
  std::vector<int32_t> sources_;
  std::unique_ptr<Parallel> parallel_;
};

} // namespace

bool depthwise_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  const polyconv_layer &layer = *request.layers[0];
  if (!takes_no_pooling(layer, offer) || !can_list_a_pixel(layer, offer)) return false;
  const DepthwisePlan p = depthwise_geometry(layer, *request.policy, isa);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  depthwise_format(p, layer, offer);
  return true;
}

std::unique_ptr<Instance> depthwise_create(const polyconv_request &request, Isa isa) {
  return std::make_unique<DepthwiseInstance>(request, isa);
}

namespace {

// Whole vectors of every instruction set, so that packed weights serve them all.
int64_t weights_bytes(const DepthwisePlan &p, const polyconv_layer &layer) {
  return p.row_stride * taps(layer) * p.group_in * sum_bytes(layer.sum_type);
}

// [tap][channel], of groups [unit][tap][channel of the group][channel of the unit], zero point subtracted; channels
// beyond the last are 0.
template <class T>
void pack_weights(const DepthwisePlan &p, const polyconv_layer &layer, const void *raw, void *packed) {
  T *out = static_cast<T *>(packed);
  const polyconv_tensor &w = layer.weights;
  const T zero_point = is_quantised(layer) ? static_cast<T>(layer.weights_zero_point) : T(0);
  const int64_t unit = p.grouped ? kDepthwiseUnit : p.row_stride;
  for (int64_t first = 0; first < p.row_stride; first += unit)
    for (int64_t d = 0; d < w.size[kD]; ++d)
      for (int64_t h = 0; h < w.size[kH]; ++h)
        for (int64_t x = 0; x < w.size[kW]; ++x)
          for (int64_t c = 0; c < p.group_in; ++c)
            for (int64_t k = first; k < first + unit; ++k)
              *out++ = k < p.channels ? load_as<T>(raw, w.type, at(w, k, c, d, h, x)) - zero_point : T(0);
}

} // namespace

void depthwise_pack(const DepthwisePlan &plan, const polyconv_layer &layer, const void *raw, void *packed) {
  switch (layer.sum_type) {
    case POLYCONV_F64: return pack_weights<double>(plan, layer, raw, packed);
    case POLYCONV_S32: return pack_weights<int32_t>(plan, layer, raw, packed);
    default: return pack_weights<float>(plan, layer, raw, packed);
  }
}

void depthwise_format(const DepthwisePlan &p, const polyconv_layer &layer, Offer &offer) {
  const char *element = layer.sum_type == POLYCONV_F64 ? "f64" : is_quantised(layer) ? "s32" : "f32";
  char format[POLYCONV_FORMAT_SIZE], zero_point[16] = "";
  if (layer.weights_zero_point) std::snprintf(zero_point, sizeof zero_point, "_z%d", layer.weights_zero_point);
  std::snprintf(format, sizeof format, "cpu_%s_%s%s:1", p.grouped ? "grouped" : "depthwise", element, zero_point);
  offer.set_weights(0, format, weights_bytes(p, layer));
}

} // namespace polyconv::cpu
