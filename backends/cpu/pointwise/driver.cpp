// driver.cpp - plans, offers, packs and runs the pointwise kernel. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/pointwise/plan.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/aligned.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

constexpr int64_t kLine = 64; // bytes

constexpr int64_t kCopiedPanels = 4, kCopiedChannels = 160;

// As in tile.hpp: wide tiles where there are few output channels.
int64_t tile_vectors(int64_t channels, Isa isa) {
  const bool wide = many_registers(isa);
  return channels > (wide ? 4 : 2) ? 2 : wide ? 6 : 4;
}

// What the largest share costs, in multiply-adds of vectors.
double share_cost(const PointwisePlan &p, const Grid &grid) {
  const int64_t vector = p.lanes, shared = p.units - p.images * p.tiles;
  const int64_t own = ceil_div(p.pixels - p.joined_pixels, vector); // of an image
  const int64_t alone = own % 2 * p.images + shared;                // in tiles that wait for their loads
  const double vectors = (real(own * p.images + shared) + 0.2 * real(alone)) / real(p.units); // of a tile
  const double part = real(largest_panels(grid)) / real(grid.panels);
  const double channels = part * real(p.groups * p.group_out), k = real(p.group_in);
  const double finish = p.stores_tiles ? 3 : p.epilogue.simple ? 8 : 40;
  // The first panel fetches its pixels from all over memory: a line for every channel.
  const double fetch = 64 / real(vector) * k, call = 50 * channels / real(p.panel_channels);
  return real(largest_units(grid)) * (vectors * (channels * (k + finish) + fetch) + call);
}

// The tiles of all images, and which share their last pixels' vectors.
void join_images(PointwisePlan &p) {
  const int64_t vector = p.lanes, rest = p.pixels % vector;
  p.joined = rest > 0 && p.pixels > vector && p.images > 0 ? std::min(vector / rest, p.images) : 1;
  p.joined_pixels = p.joined > 1 ? rest : 0;
  p.tiles = ceil_div(p.pixels - p.joined_pixels, p.tile_pixels);
  p.units = p.images * p.tiles + (p.joined > 1 ? ceil_div(p.images, p.joined) : 0);
}

PointwisePlan make_plan(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  PointwisePlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  const int32_t activation = p.epilogue.rules.activation;
  p.stores_tiles = p.epilogue.simple && (activation == POLYCONV_ACT_NONE || activation == POLYCONV_ACT_RELU);
  p.images = layer.output.size[sdk::kN];
  p.pixels = sdk::spatial(layer.output);
  p.groups = layer.groups;
  p.group_in = layer.weights.size[sdk::kC];
  p.group_out = layer.output.size[sdk::kC] / layer.groups;
  p.panels = ceil_div(p.group_out, many_registers(isa) ? 14 : 6);
  p.panel_channels = ceil_div(p.group_out, p.panels);
  // Where a panel is low it reads a tile's pixels often, and of so many planes they are in the first cache no more.
  p.copies = !many_registers(isa) && p.panels >= kCopiedPanels && p.group_in >= kCopiedChannels;
  p.lanes = vector_bytes(isa) / 4;
  p.tile_pixels = p.lanes * tile_vectors(p.group_out, isa);
  join_images(p);
  p.sums_at = round_up(p.group_in * p.tile_pixels * 4, 64);
  p.scratch_bytes = p.sums_at + p.panel_channels * p.tile_pixels * 4;

  const double step_us = cycle_us(isa) / 2;
  const auto cost = [&](const Grid &grid) { return share_cost(p, grid); };
  const int64_t panels = p.groups * p.panels, tasks = tasks_for(policy, cost({p.units, panels, 1, 1, 1, 1}) * step_us);
  p.grid = cut_grid(p.units, panels, tasks, cost);
  const double largest = cost(p.grid) * step_us;
  cut_units(p.grid, largest);
  const int64_t used = tasks_of(p.grid);
  const double bytes = 4 * real(sdk::elements(layer.input) + sdk::elements(layer.result) +
                                p.groups * p.panels * p.panel_channels * p.group_in);
  p.estimate_us = estimate_us(used, largest * real(used), bytes);
  return p;
}

// Tiles become results beyond the caches, whose planes begin on a line.
bool may_stream(const PointwisePlan &p) {
  const polyconv_tensor &r = p.epilogue.result;
  return p.stores_tiles && steps_aligned(r, {sdk::kN, sdk::kC}, kLine) && sdk::elements(r) * 4 >= kStreamBytes;
}

class PointwiseInstance final : public sdk::Instance {
 public:
  PointwiseInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(make_plan(layer_, *request.policy, isa)),
        isa_(isa),
        may_stream_(may_stream(plan_)) {
    if (tasks_of(plan_.grid) > 1) parallel_ = sdk::make_parallel(*request.policy);
  }

  // [group][panel][channel][output channel of the panel]; panels are shared among the threads.
  void pack(int, const void *raw, void *packed, void *) override {
    run_each(parallel_, plan_.groups * plan_.panels, threads_of(parallel_), [&](int64_t, int64_t i) {
      pack_panel(static_cast<const float *>(raw), i / plan_.panels, i % plan_.panels,
                 static_cast<float *>(packed) + i * plan_.group_in * plan_.panel_channels);
    });
  }

  void run(const polyconv_arguments &arguments, void *) const override {
    const LayerRun run = layer_run(plan_.epilogue, arguments, may_stream_ && aligned(arguments.output, kLine));
    run_grid(parallel_, plan_.grid, arguments.workspace, plan_.scratch_bytes,
             [&](const GridShare &share) { pointwise_task_by_isa[isa_](plan_, run, share); });
  }

 private:
  void pack_panel(const float *raw, int64_t group, int64_t panel, float *out) const {
    const PointwisePlan &p = plan_;
    const polyconv_tensor &w = layer_.weights;
    const sdk::Share rows = sdk::share(p.group_out, p.panels, panel);
    const float *column = raw + w.offset + (group * p.group_out + rows.begin) * w.stride[sdk::kK];
    for (int64_t c = 0; c < p.group_in; ++c, column += w.stride[sdk::kC], out += p.panel_channels)
      for (int64_t lane = 0; lane < p.panel_channels; ++lane)
        out[lane] = lane < rows.end - rows.begin ? column[lane * w.stride[sdk::kK]] : 0.0f;
  }

  polyconv_layer layer_;
  PointwisePlan plan_;
  Isa isa_;
  bool may_stream_;
  std::unique_ptr<sdk::Parallel> parallel_;
};

bool takes(const polyconv_layer &layer, const Epilogue &epilogue, sdk::Offer &offer) {
  using namespace sdk;
  const polyconv_tensor &in = layer.input;
  if (!goes(POLYCONV_FORWARD, layer, offer)) return false;
  if (in.type != POLYCONV_F32 || layer.weights.type != POLYCONV_F32) return offer.reject("takes f32, read in place");
  if (taps(layer) != 1) return offer.reject("takes one tap, not %d", static_cast<int>(taps(layer)));
  if (spatial(in) == 1) return offer.reject("takes planes: one pixel leaves vectors of pixels empty");
  for (int i = 0; i < 3; ++i)
    if (layer.stride[i] != 1 || layer.pad_begin[i] != 0 || layer.pad_end[i] != 0)
      return offer.reject("takes stride 1 without padding");
  if (spatial(in) != spatial(layer.output)) return offer.reject("takes every pixel: output padding leaves some out");
  if (!one_pixel_stride(in) || in.stride[kW] != 1 || !epilogue.whole_images || epilogue.result.stride[kW] != 1)
    return wants_layout(POLYCONV_CHANNELS_FIRST,
                        "reads and writes in place: the pixels of input and output must lie side by side", offer);
  return true;
}

bool pointwise_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_one_layer(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  const PointwisePlan p = make_plan(layer, *request.policy, isa);
  if (!takes(layer, p.epilogue, offer) || !takes_no_pooling(layer, offer)) return false;
  if (!fits_workspace(request, tasks_of(p.grid), p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  set_weights(offer, p.groups * p.panels * p.panel_channels * p.group_in * 4, "cpu_pointwise_f32_%d:1",
              static_cast<int>(p.panel_channels));
  return true;
}

} // namespace

const sdk::Kernel kernel_pointwise =
    kernel_by_isa("pointwise", supports_by_isa<pointwise_offer>, create_by_isa<PointwiseInstance>);

} // namespace polyconv::cpu
