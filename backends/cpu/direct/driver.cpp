// driver.cpp - offers, packs and runs the direct kernel. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/direct/driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <numeric>

namespace polyconv::cpu {
namespace {

constexpr int64_t kMostPhases = int64_t{1} << 20;

// The packed bytes depend on the element, direction (which channels are summed), block and zero point.
void set_format(const DirectPlan &p, const polyconv_layer &layer, sdk::Offer &offer) {
  const bool wide = layer.sum_type == POLYCONV_F64;
  const char *element = wide ? "f64" : sdk::is_quantised(layer) ? "s32" : "f32";
  char format[POLYCONV_FORMAT_SIZE], zero_point[16] = "";
  if (layer.weights_zero_point) std::snprintf(zero_point, sizeof zero_point, "_z%d", layer.weights_zero_point);
  std::snprintf(format, sizeof format, "cpu_direct_%s_%c%d%s:1", element, p.backward ? 'b' : 'f',
                static_cast<int>(p.block), zero_point);
  offer.set_weights(0, format, p.packed_elements * (wide ? 8 : 4));
}

// Zero points of each channel come with a run, and so do the weights less them: then run packs, into the workspace.
bool packs_in_run(const polyconv_layer &layer) {
  return (layer.traits & POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS) != 0;
}

int64_t workspace_bytes(const DirectPlan &p, const polyconv_layer &layer) {
  const int64_t scratch = p.tasks * p.scratch_bytes; // whole cache lines
  return packs_in_run(layer) ? scratch + p.packed_elements * int64_t{sizeof(int32_t)} : scratch;
}

// [group][block][tap D, H][summed channel][tap W][result channel of the block]; channels beyond the last are 0. Packs
// groups and blocks [begin, end), counted together. `zero_points` are those of each channel of the result, or NULL.
template <class T>
void pack_blocks(const DirectPlan &p, const polyconv_layer &layer, const void *raw, const void *zero_points,
                 int64_t begin, int64_t end, void *packed) {
  T *out = static_cast<T *>(packed) + begin * (p.packed_elements / (p.groups * p.blocks));
  const polyconv_tensor &w = layer.weights;
  const int64_t group_out = w.size[sdk::kK] / layer.groups;
  const auto weight = [&](int64_t g, int64_t made, int64_t summed, int64_t d, int64_t h, int64_t x) {
    const int64_t k = g * group_out + (p.backward ? summed : made), c = p.backward ? made : summed;
    T value = sdk::load_as<T>(raw, w.type, sdk::at(w, k, c, d, h, x));
    if (zero_points) return value - sdk::load_as<T>(zero_points, w.type, g * p.produce + made);
    if (sdk::is_quantised(layer)) value -= static_cast<T>(layer.weights_zero_point);
    return value;
  };
  for (int64_t i = begin; i < end; ++i)
    for (int64_t d = 0; d < p.axis[0].taps; ++d)
      for (int64_t h = 0; h < p.axis[1].taps; ++h)
        for (int64_t summed = 0; summed < p.reduce; ++summed)
          for (int64_t x = 0; x < p.axis[2].taps; ++x)
            for (int64_t lane = 0; lane < p.block; ++lane) {
              const int64_t made = i % p.blocks * p.block + lane;
              *out++ = made < p.produce ? weight(i / p.blocks, made, summed, d, h, x) : T(0);
            }
}

template <class T>
void pack_weights(const DirectPlan &p, const polyconv_layer &layer, const void *raw, void *packed) {
  pack_blocks<T>(p, layer, raw, nullptr, 0, p.groups * p.blocks, packed);
}

// Taps whose sources lie in planes of their own where p.apart, else in planes by their remainder modulo the step, in
// order of the first tap of each: they repeat.
void list_forward(const DirectPlan &p, DirectTables &tables) {
  const Axis &w = p.axis[2];
  const int64_t period = p.apart ? w.taps : w.step / std::gcd(w.step, w.dilation);
  for (int64_t t = 0; t < std::min(period, w.taps); ++t)
    tables.planes.push_back(p.apart ? t * w.dilation : t * w.dilation % w.step);
  for (int64_t t = 0; t < w.taps; ++t) {
    const int64_t at = p.apart ? 0 : t * w.dilation / w.step;
    tables.taps.push_back({t % period * p.plane_elements + at, t * p.block});
  }
  tables.phases.push_back({0, w.taps});
}

// Taps by phase, in order: tap t meets the results whose padded coordinates lie a multiple of the step behind it.
void list_backward(const DirectPlan &p, DirectTables &tables) {
  const Axis &w = p.axis[2];
  const int64_t from = p.folds ? 0 : w.before;
  struct Met {
    int64_t phase, tap;
  };
  std::vector<Met> met;
  for (int64_t t = 0; t < w.taps; ++t) {
    const int64_t ahead = (t * w.dilation - from) % w.step, phase = ahead < 0 ? ahead + w.step : ahead;
    if (phase < p.phase_count) met.push_back({phase, t});
  }
  std::stable_sort(met.begin(), met.end(), [](const Met &a, const Met &b) { return a.phase < b.phase; });
  if (!p.apart || met.empty()) tables.planes.push_back(0);
  auto next = met.begin();
  for (int64_t phase = 0; phase < p.phase_count; ++phase) {
    const auto first = static_cast<int64_t>(tables.taps.size());
    for (; next != met.end() && next->phase == phase; ++next) {
      const int64_t at = (from + phase - next->tap * w.dilation - p.first_source * w.step) / w.step; // >= 0, even
      const auto plane = static_cast<int64_t>(tables.planes.size());
      tables.taps.push_back({p.apart ? plane * p.plane_elements : at, next->tap * p.block});
      if (p.apart) tables.planes.push_back(at);
    }
    tables.phases.push_back({first, static_cast<int64_t>(tables.taps.size()) - first});
  }
}

} // namespace

void make_direct_tables(const polyconv_layer &layer, DirectPlan &p, DirectTables &tables) {
  tables.axes = make_axis_tables(layer, p.axis);
  if (p.backward)
    list_backward(p, tables);
  else
    list_forward(p, tables);
  p.plane_count = static_cast<int64_t>(tables.planes.size());
  p.planes = tables.planes.data();
  p.phases = tables.phases.data();
  p.taps = tables.taps.data();
}

namespace {

class DirectInstance final : public RowInstance {
 public:
  DirectInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]), plan_(direct_geometry(layer_, *request.policy, isa)), isa_(isa) {
    make_direct_tables(layer_, plan_, tables_);
    if (plan_.tasks > 1) parallel_ = sdk::make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override {
    switch (layer_.sum_type) {
      case POLYCONV_F64: return pack_weights<double>(plan_, layer_, raw, packed);
      case POLYCONV_S32: return pack_weights<int32_t>(plan_, layer_, raw, packed);
      default: return pack_weights<float>(plan_, layer_, raw, packed);
    }
  }

  void run(const polyconv_arguments &arguments, void *) const override {
    LayerRun run = layer_run(plan_.epilogue, arguments);
    if (packs_in_run(layer_)) run.weights = packed_here(arguments);
    if (plan_.backward) run.input = arguments.output, run.epilogue.output = arguments.input;
    run_items(parallel_, plan_.pieces, plan_.tasks, arguments.workspace, plan_.scratch_bytes,
              [&](const ItemShare &share) { direct_task_by_isa[isa_](plan_, run, share); });
  }

  void run_rows(const polyconv_arguments &arguments, const RowWindow &window) const override {
    DirectPlan p = plan_;
    p.axis[1] = axis_of(window.rows);
    p.rows[1] = window.rows.count;
    p.row_blocks = ceil_div(window.rows.count, p.block_rows);
    p.pieces = p.groups * p.chunks * p.row_blocks * p.block_parts;
    const LayerRun run = window_run(p.epilogue, arguments, window);
    direct_task_by_isa[isa_](p, run, {0, p.pieces, static_cast<char *>(arguments.workspace)});
  }

 private:
  // The weights less their channels' zero points, behind every task's scratch.
  const void *packed_here(const polyconv_arguments &arguments) const {
    void *const packed = static_cast<char *>(arguments.workspace) + plan_.tasks * plan_.scratch_bytes;
    run_each(parallel_, plan_.groups * plan_.blocks, plan_.tasks, [&](int64_t, int64_t block) {
      pack_blocks<int32_t>(plan_, layer_, arguments.weights[0], arguments.weights_zero_point[0], block, block + 1,
                           packed);
    });
    return packed;
  }

  polyconv_layer layer_;
  DirectPlan plan_;
  Isa isa_;
  DirectTables tables_; // what plan_ points into
  std::unique_ptr<sdk::Parallel> parallel_;
};

bool direct_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_one_layer(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (layer.direction == POLYCONV_BACKWARD_WEIGHTS)
    return offer.reject("computes outputs and input gradients, not weight gradients");
  if (!takes_no_pooling(layer, offer) || !folds_near(layer, offer)) return false;
  const DirectPlan p = direct_geometry(layer, *request.policy, isa);
  if (p.phase_count > kMostPhases)
    return offer.reject("lists results by their remainder modulo the stride: takes %" PRId64 " at most, not %" PRId64,
                        kMostPhases, p.phase_count);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  if (packs_in_run(layer) && !fits_workspace(request, 1, workspace_bytes(p, layer), offer)) return false;
  constexpr double kPackUs = 0.002; // of a weight
  offer.estimate_us = p.estimate_us;
  if (packs_in_run(layer))
    offer.estimate_us += kPackUs * real(p.packed_elements) / real(p.tasks);
  else
    set_format(p, layer, offer);
  return true;
}

} // namespace

const sdk::Kernel kernel_direct = kernel_by_isa("direct", supports_by_isa<direct_offer>, create_by_isa<DirectInstance>,
                                                sdk::kActivationTraits | POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS);

} // namespace polyconv::cpu
