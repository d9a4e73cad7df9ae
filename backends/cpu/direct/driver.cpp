// driver.cpp - offers, packs and runs the direct kernel. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/direct/driver.hpp"

#include "cpu/count.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>

namespace polyconv::cpu {
namespace {

constexpr int64_t kMostListed = int64_t{1} << 24; // of a side (axis.hpp), and of a pixel: 128 MiB each

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

// [group][block][tap D, H][summed channel][tap W][result channel of the block]; channels beyond the last are 0.
template <class T>
void pack_weights(const DirectPlan &p, const polyconv_layer &layer, const void *raw, void *packed) {
  T *out = static_cast<T *>(packed);
  const polyconv_tensor &w = layer.weights;
  const int64_t group_out = w.size[sdk::kK] / layer.groups;
  const auto weight = [&](int64_t g, int64_t made, int64_t summed, int64_t d, int64_t h, int64_t x) {
    const int64_t k = g * group_out + (p.backward ? summed : made), c = p.backward ? made : summed;
    T value = sdk::load_as<T>(raw, w.type, sdk::at(w, k, c, d, h, x));
    if (sdk::is_quantised(layer)) value -= static_cast<T>(layer.weights_zero_point);
    return value;
  };
  for (int64_t g = 0; g < p.groups; ++g)
    for (int64_t block = 0; block < p.blocks; ++block)
      for (int64_t d = 0; d < p.axis[0].taps; ++d)
        for (int64_t h = 0; h < p.axis[1].taps; ++h)
          for (int64_t summed = 0; summed < p.reduce; ++summed)
            for (int64_t x = 0; x < p.axis[2].taps; ++x)
              for (int64_t lane = 0; lane < p.block; ++lane) {
                const int64_t made = block * p.block + lane;
                *out++ = made < p.produce ? weight(g, made, summed, d, h, x) : T(0);
              }
}

} // namespace

void make_direct_tables(const polyconv_layer &layer, DirectPlan &p, DirectTables &tables) {
  tables.axes = make_axis_tables(layer, p.axis);
  const Axis &w = p.axis[2];
  if (p.backward) {
    tables.planes.push_back(0);
    const int64_t from = p.folds ? 0 : w.before;
    for (int64_t phase = 0; phase < p.phase_count; ++phase) {
      const auto first = static_cast<int64_t>(tables.taps.size());
      for (int64_t t = 0; t < w.taps; ++t) {
        const int64_t at = from + phase - t * w.dilation - p.first_source * w.step; // >= 0
        if (at % w.step == 0) tables.taps.push_back({at / w.step, t * p.block});
      }
      tables.phases.push_back({first, static_cast<int64_t>(tables.taps.size()) - first});
    }
  } else {
    tables.phases.push_back({0, w.taps});
    for (int64_t t = 0; t < w.taps; ++t) {
      const int64_t remainder = t * w.dilation % w.step;
      auto plane = std::find(tables.planes.begin(), tables.planes.end(), remainder);
      if (plane == tables.planes.end()) plane = tables.planes.insert(plane, remainder);
      tables.taps.push_back(
          {(plane - tables.planes.begin()) * p.plane_elements + t * w.dilation / w.step, t * p.block});
    }
  }
  p.plane_count = static_cast<int64_t>(tables.planes.size());
  p.planes = tables.planes.data();
  p.phases = tables.phases.data();
  p.taps = tables.taps.data();
}

namespace {

class DirectInstance final : public RowInstance {
 public:
  DirectInstance(const polyconv_request &request, Isa isa, DirectTask task)
      : layer_(*request.layers[0]), plan_(direct_geometry(layer_, *request.policy, isa)), task_(task) {
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
    DirectRun run = {with_arguments(plan_.epilogue, arguments), arguments.input, arguments.weights[0]};
    if (plan_.backward) run.source = arguments.output, run.epilogue.output = arguments.input;
    const auto one_task = [&](int64_t task) {
      const sdk::Share share = sdk::share(plan_.pieces, plan_.tasks, task);
      task_(plan_, run,
            {share.begin, share.end, static_cast<char *>(arguments.workspace) + task * plan_.scratch_bytes});
    };
    sdk::run_tasks(parallel_, plan_.tasks, one_task);
  }

  void run_rows(const polyconv_arguments &arguments, const RowWindow &window) const override {
    DirectPlan p = plan_;
    p.axis[1] = axis_of(window.rows);
    p.rows[1] = window.rows.count;
    p.row_blocks = ceil_div(window.rows.count, p.block_rows);
    p.pieces = p.groups * p.chunks * p.row_blocks * p.block_parts;
    const DirectRun run = {from_window(with_arguments(p.epilogue, arguments), window), arguments.input,
                           arguments.weights[0]};
    task_(p, run, {0, p.pieces, static_cast<char *>(arguments.workspace)});
  }

 private:
  polyconv_layer layer_;
  DirectPlan plan_;
  DirectTask task_;
  DirectTables tables_; // what plan_ points into
  std::unique_ptr<sdk::Parallel> parallel_;
};

} // namespace

bool takes_one_layer(const polyconv_request &request, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("convolves; it neither pools nor converts alone");
  if (request.count != 1) return offer.reject("takes one layer, not a chain of %d", request.count);
  const polyconv_layer &layer = *request.layers[0];
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t padding = std::max(layer.pad_begin[axis], layer.pad_end[axis]);
    if (padding > kMostListed)
      return offer.reject("lists what padding reads: takes %" PRId64 " at a side at most, not %" PRId64, kMostListed,
                          padding);
  }
  offer.math = POLYCONV_MATH_STRICT;
  return true;
}

bool can_list_a_pixel(const polyconv_layer &layer, sdk::Offer &offer) {
  const int64_t channels = layer.input.size[sdk::kC];
  return channels <= kMostListed ||
         offer.reject("lists a pixel of padding: takes %" PRId64 " channels at most, not %" PRId64, kMostListed,
                      channels);
}

bool takes_no_pooling(const polyconv_layer &layer, sdk::Offer &offer) {
  if (!sdk::has_pooling(layer)) return true;
  offer.rejects_pooling = 1;
  return offer.reject("stores what it sums; pooling is a step of its own");
}

bool fits_workspace(const polyconv_policy &policy, int64_t bytes, sdk::Offer &offer) {
  offer.workspace_bytes = bytes;
  if (bytes <= policy.workspace_limit) return true;
  return offer.reject("needs %" PRId64 " bytes of workspace; the limit is %" PRId64, bytes, policy.workspace_limit);
}

bool direct_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_one_layer(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (layer.direction == POLYCONV_BACKWARD_WEIGHTS)
    return offer.reject("computes outputs and input gradients, not weight gradients");
  if (!takes_no_pooling(layer, offer)) return false;
  const DirectPlan p = direct_geometry(layer, *request.policy, isa);
  if (!fits_workspace(*request.policy, p.tasks * p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  set_format(p, layer, offer);
  return true;
}

std::unique_ptr<sdk::Instance> direct_create(const polyconv_request &request, Isa isa, DirectTask task) {
  return std::make_unique<DirectInstance>(request, isa, task);
}

} // namespace polyconv::cpu
