// driver.cpp - offers, packs and runs the dense kernel. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dense/driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/aligned.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <type_traits>
#include <vector>

namespace polyconv::cpu {
namespace {

constexpr int64_t kLine = 64; // bytes

// Sums of the weights of each line of taps, behind the weights (DenseArguments::line_sums).
int64_t weights_bytes(const DensePlan &p) {
  return p.groups * p.panels * p.panel_channels * p.taps * p.pixel * element_bytes(p);
}
int64_t line_sums(const DensePlan &p) {
  return p.arithmetic == DenseArithmetic::kQuads ? p.axis[0].taps * p.axis[1].taps * p.panel_channels : 0;
}

// Whether a volume of one channel, whose few filters have one tap along a long W, goes tap by tap: much of its windows
// is padding, which is left out then.
bool goes_tap_by_tap(const polyconv_layer &l, Isa isa) {
  constexpr int64_t kLong = 64;
  const int64_t *const taps = l.weights.size + sdk::kD, *const out = l.output.size + sdk::kD;
  return l.input.type == POLYCONV_F32 && many_registers(isa) && l.weights.size[sdk::kC] == 1 && taps[2] == 1 &&
         l.output.size[sdk::kC] <= l.groups * vector_bytes(isa) / 4 && out[2] >= kLong && out[0] < 2 * taps[0] &&
         out[1] < 2 * taps[1];
}

// One run of taps is a line of W: of few channels in three dimensions it should be the line with most of them. (No
// chain takes such layers, whose windows are rows as the problem has them.)
bool is_walked_otherwise(const polyconv_layer &l, Isa isa) {
  constexpr int64_t kFewInputs = 16;
  const int64_t *const taps = l.weights.size + sdk::kD;
  if (goes_tap_by_tap(l, isa)) return false;
  const bool dense = l.dilation[0] == 1 && l.dilation[1] == 1 && l.dilation[2] == 1;
  return dense && taps[0] > 1 && std::max(taps[0], taps[1]) > taps[2] && l.weights.size[sdk::kC] <= kFewInputs;
}

polyconv_layer as_walked(const polyconv_layer &l, Isa isa) {
  return is_walked_otherwise(l, isa) ? with_most_taps_last(l) : l;
}

// Everything the packed bytes depend on beside the weight problem: element, panel and block of channels, order of axes.
void set_format(const DensePlan &p, const polyconv_layer &layer, Isa isa, sdk::Offer &offer) {
  static const char *const kElements[] = {"f32", "f64", "s16", "bf16", "s8"};
  set_weights(offer, weights_bytes(p) + p.groups * p.panels * line_sums(p) * 4, "cpu_dense_%s_%d%s:1",
              kElements[static_cast<int>(p.arithmetic)], static_cast<int>(p.panel_channels),
              is_walked_otherwise(layer, isa) ? "_walked" : "");
}

// One weight as the arithmetic's number; as its bits where that is bf16.
template <class T>
T weight(const polyconv_layer &layer, const void *raw, int64_t index) {
  if constexpr (std::is_same_v<T, sdk::bf16>)
    return static_cast<const sdk::bf16 *>(raw)[index];
  else if constexpr (sizeof(T) <= 2)
    return static_cast<T>(sdk::load_as<int32_t>(raw, layer.weights.type, index) - layer.weights_zero_point);
  else
    return sdk::load_as<T>(raw, layer.weights.type, index);
}

// The weights of one channel and tap for a panel, of elements `step` channels wide: what no channel fills is 0.
template <class T>
void pack_lanes(const DensePlan &p, const polyconv_layer &layer, const void *raw, int64_t index, int64_t filled,
                int64_t step, T *out) {
  const int64_t stride = layer.weights.stride[sdk::kK];
  int64_t lane = 0;
  if constexpr (std::is_same_v<T, float>)
    if (layer.weights.type == POLYCONV_F32) {
      const float *in = static_cast<const float *>(raw) + index;
      for (; lane < filled; ++lane) out[lane] = in[lane * stride];
    }
  for (; lane < filled; ++lane) out[lane * step] = weight<T>(layer, raw, index + lane * stride);
  for (; lane < p.panel_channels; ++lane) out[lane * step] = T{};
}

// One panel: [channel block][tap][channel][output channel], the channels of an element side by side. `sums` as
// line_sums has them.
template <class T>
void pack_panel(const DensePlan &p, const polyconv_layer &layer, const void *raw, int64_t group, int64_t panel, T *out,
                int32_t *sums) {
  const int64_t several = element_channels(p.arithmetic);
  const polyconv_tensor &w = layer.weights;
  const int64_t first = panel * p.panel_channels, filled = std::min(p.panel_channels, p.group_out - first);
  std::fill(sums, sums + line_sums(p), 0);
  for (int64_t block = 0; block < p.pixel; block += p.channel_block)
    for (int64_t tap = 0; tap < p.taps; ++tap)
      for (int64_t c = block; c < std::min(block + p.channel_block, p.pixel); ++c, out += p.panel_channels * several)
        for (int64_t i = 0; i < several; ++i) {
          const int64_t channel = c * several + i, line = tap / w.size[sdk::kW];
          const int64_t index = sdk::at(w, group * p.group_out + first, channel, line / w.size[sdk::kH],
                                        line % w.size[sdk::kH], tap % w.size[sdk::kW]);
          pack_lanes(p, layer, raw, index, channel < p.group_in ? filled : 0, several, out + i);
          if constexpr (sizeof(T) == 1)
            for (int64_t k = 0; k < p.panel_channels; ++k) sums[line * p.panel_channels + k] += out[k * several + i];
        }
}

// Panels are shared among the threads.
template <class T>
void pack_weights(const DensePlan &p, const polyconv_layer &layer, const std::unique_ptr<sdk::Parallel> &parallel,
                  const void *raw, void *packed) {
  const int64_t size = p.taps * p.pixel * p.panel_channels * element_channels(p.arithmetic);
  auto *sums = reinterpret_cast<int32_t *>(static_cast<char *>(packed) + weights_bytes(p));
  run_each(parallel, p.groups * p.panels, threads_of(parallel), [&](int64_t, int64_t i) {
    pack_panel(p, layer, raw, i / p.panels, i % p.panels, static_cast<T *>(packed) + i * size, sums + i * line_sums(p));
  });
}

// Tiles become f32 results beyond the caches that are whole lines.
bool may_stream(const DensePlan &p) {
  const polyconv_tensor &r = p.epilogue.result;
  return p.arithmetic == DenseArithmetic::kF32 && p.stores_tiles && p.epilogue.simple && !p.along_w &&
         p.group_out * 4 % kLine == 0 && steps_aligned(r, {sdk::kN, sdk::kD, sdk::kH, sdk::kW}, kLine) &&
         sdk::elements(r) * 4 >= kStreamBytes;
}

class DenseInstance final : public RowInstance {
 public:
  DenseInstance(const polyconv_request &request, Isa isa, DenseTaskFunction task)
      : layer_(as_walked(*request.layers[0], isa)),
        plan_(dense_geometry(layer_, *request.policy, isa)),
        task_(task),
        may_stream_(may_stream(plan_)) {
    axes_ = make_axis_tables(layer_, plan_.axis);
    const Axis &w = plan_.axis[2];
    for (int64_t t = 0; t < w.taps; ++t) {
      const AxisOutputs some = outputs_inside(w, t), all = {0, plan_.columns};
      const bool any = some.first < some.last && plan_.over_images;
      inside_.push_back(plan_.padded || plan_.flat || any ? all : some);
    }
    plan_.inside = inside_.data();
    if (tasks_of(plan_.grid) > 1) parallel_ = sdk::make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override {
    switch (plan_.arithmetic) {
      case DenseArithmetic::kF32: return pack_weights<float>(plan_, layer_, parallel_, raw, packed);
      case DenseArithmetic::kF64: return pack_weights<double>(plan_, layer_, parallel_, raw, packed);
      case DenseArithmetic::kPairs: return pack_weights<int16_t>(plan_, layer_, parallel_, raw, packed);
      case DenseArithmetic::kBf16: return pack_weights<sdk::bf16>(plan_, layer_, parallel_, raw, packed);
      case DenseArithmetic::kQuads: return pack_weights<int8_t>(plan_, layer_, parallel_, raw, packed);
    }
  }

  void run(const polyconv_arguments &arguments, void *) const override {
    const char *weights = static_cast<const char *>(arguments.weights[0]);
    const bool stream = may_stream_ && aligned(arguments.output, kLine);
    const DenseArguments run = {with_arguments(plan_.epilogue, arguments), arguments.input, weights, stream,
                                reinterpret_cast<const int32_t *>(weights + weights_bytes(plan_))};
    run_grid(parallel_, plan_.grid, arguments.workspace, plan_.scratch_bytes,
             [&](const GridShare &share) { task_(plan_, run, share); });
  }

  void run_rows(const polyconv_arguments &arguments, const RowWindow &window) const override {
    DensePlan p = plan_;
    p.axis[1] = axis_of(window.rows);
    p.chains = 0; // the sums of a window are those of any other
    const AxisOutputs all = {0, window.rows.count * p.axis[2].out};
    if (p.flat) {
      p.columns = all.last;
      p.tiles = p.units = p.line_units = ceil_div(p.columns, ceil_div(plan_.columns, plan_.tiles));
      cut_tiles(p);
      p.inside = &all;
      if (p.one_stride && !p.in_place) p.input.offset += window.rows.first * p.input.stride[sdk::kH];
    } else {
      p.lines = window.rows.count;
      p.units = p.lines * p.line_units;
    }
    const char *weights = static_cast<const char *>(arguments.weights[0]);
    const DenseArguments run = {from_window(with_arguments(p.epilogue, arguments), window), arguments.input, weights, 0,
                                reinterpret_cast<const int32_t *>(weights + weights_bytes(p))};
    task_(p, run, {0, p.units, 0, p.groups * p.panels, 0, static_cast<char *>(arguments.workspace)});
  }

 private:
  polyconv_layer layer_;
  DensePlan plan_;
  DenseTaskFunction task_;
  bool may_stream_;
  std::vector<int64_t> axes_; // what plan_ points into
  std::vector<AxisOutputs> inside_;
  std::unique_ptr<sdk::Parallel> parallel_;
};

} // namespace

bool dense_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_strips(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (!takes_no_pooling(layer, offer)) return false;
  const DensePlan p = dense_geometry(as_walked(layer, isa), *request.policy, isa);
  if (!fits_workspace(request, tasks_of(p.grid), p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  set_format(p, layer, isa, offer);
  return true;
}

std::unique_ptr<sdk::Instance> dense_create(const polyconv_request &request, Isa isa, DenseTaskFunction task) {
  return std::make_unique<DenseInstance>(request, isa, task);
}

namespace {

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return dense_create(request, static_cast<Isa>(config), dense_task_by_isa[config]);
}

} // namespace

const sdk::Kernel kernel_dense = kernel_by_isa("dense", supports_by_isa<dense_offer>, create);

} // namespace polyconv::cpu
