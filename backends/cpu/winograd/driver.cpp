// driver.cpp - offers, packs and runs Winograd's convolution. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/winograd/plan.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kLeastChannels = 8;    // fewer, and the transforms are all there is
constexpr int64_t kBlockBytes = 3 << 19; // of a block's transforms and products: 1.5 MiB
constexpr int64_t kLeastTiles = 14,
                  kMost = 64; // of a block: as many as share a load of weights; and that a patch holds
constexpr double kInputCycles = 130, kResultCycles = 150; // of transforming a tile of 6 x 6 vectors, there and back

WinogradPlan winograd_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, int64_t m) {
  WinogradPlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  p.pad_value = layer.pad_value;
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  const int64_t lanes = vector_bytes(isa) / 4, elements = (m + 2) * (m + 2);
  p.channels = layer.input.size[kC], p.results = layer.output.size[kC];
  p.inputs_along = p.input.stride[kC] == 1;
  p.results_along = layer.result.stride[kC] == 1;
  p.padded_channels = round_up(p.channels, lanes);
  p.panel = 2 * lanes, p.panels = ceil_div(p.results, p.panel);
  p.tile_rows = ceil_div(p.axis[1].out, m), p.tile_columns = ceil_div(p.axis[2].out, m);
  p.tiles = layer.input.size[kN] * p.tile_rows * p.tile_columns;
  const int64_t width = p.padded_channels + p.panels * p.panel; // floats of an element of a tile
  const double products = real(p.tiles * elements) * real(p.channels) * real(p.panels * 2) / 2 / 0.75;
  const double transforms = real(p.tiles * elements) / 36 *
                            (kInputCycles * real(ceil_div(p.channels, lanes)) + kResultCycles * real(p.panels * 2));
  const double us = (products + transforms) * cycle_us(isa);
  p.tasks = tasks_for(policy, us);
  const int64_t fitting = kBlockBytes / (elements * width * 4);
  p.block = std::clamp(fitting / kLeastTiles * kLeastTiles, kLeastTiles, kMost);
  p.block = std::clamp<int64_t>(ceil_div(p.tiles, p.tasks), 1, p.block);
  p.blocks = ceil_div(p.tiles, p.block);
  p.tasks = std::clamp<int64_t>(p.blocks, 1, p.tasks);
  p.products_at = round_up(elements * p.block * p.padded_channels * 4, 64);
  p.patch_at = round_up(p.products_at + elements * p.block * p.panels * p.panel * 4, 64);
  p.rows_at = round_up(p.patch_at + (m + 2) * (p.block * m + 2) * lanes * 4, 64);
  p.scratch_bytes = round_up(p.rows_at + m * (p.block * m + lanes) * lanes * 4, 64);
  const double weights = 4 * real(elements * p.channels * p.results);
  const double bytes = weights * (weights > real(kWinogradWeightsBytes) ? real(p.blocks) : 1) +
                       4 * real(sdk::elements(layer.input) + sdk::elements(layer.result));
  p.estimate_us = estimate_us(p.tasks, us, bytes);
  return p;
}

// A line of G: what a filter's three weights become at each point.
void transform_weights(int64_t m, const double (&w)[3], double *out) {
  if (m == 2) {
    out[0] = w[0], out[1] = (w[0] + w[1] + w[2]) / 2, out[2] = (w[0] - w[1] + w[2]) / 2, out[3] = w[2];
    return;
  }
  out[0] = w[0] / 4;
  out[1] = -(w[0] + w[1] + w[2]) / 6, out[2] = -(w[0] - w[1] + w[2]) / 6;
  out[3] = w[0] / 24 + w[1] / 12 + w[2] / 6, out[4] = w[0] / 24 - w[1] / 12 + w[2] / 6;
  out[5] = w[2];
}

// One filter, (m + 2)^2 elements `step` apart.
void transform_filter(const polyconv_layer &l, const float *raw, int64_t m, int64_t k, int64_t c, int64_t step,
                      float *out) {
  const int64_t size = m + 2;
  double half[3][6];
  for (int64_t s = 0; s < 3; ++s) {
    double column[3];
    for (int64_t r = 0; r < 3; ++r) column[r] = static_cast<double>(raw[at(l.weights, k, c, 0, r, s)]);
    transform_weights(m, column, half[s]);
  }
  for (int64_t y = 0; y < size; ++y) {
    double line[6];
    transform_weights(m, {half[0][y], half[1][y], half[2][y]}, line);
    for (int64_t x = 0; x < size; ++x) out[(y * size + x) * step] = static_cast<float>(line[x]);
  }
}

class WinogradInstance final : public Instance {
 public:
  WinogradInstance(const polyconv_request &request, Isa isa, int64_t m)
      : layer_(*request.layers[0]), plan_(winograd_geometry(layer_, *request.policy, isa, m)), m_(m), isa_(isa) {
    axes_ = make_axis_tables(layer_, plan_.axis);
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  // [element][panel][input channel][output channel of the panel], 0 for output channels that do not exist.
  void pack(int, const void *raw, void *packed, void *) override {
    const WinogradPlan &p = plan_;
    const int64_t step = p.panels * p.channels * p.panel;
    run_each(parallel_, p.panels, threads_of(parallel_), [&](int64_t, int64_t panel) {
      for (int64_t i = panel * p.channels * p.panel; i < (panel + 1) * p.channels * p.panel; ++i) {
        const int64_t k = i / (p.channels * p.panel) * p.panel + i % p.panel, c = i / p.panel % p.channels;
        float *out = static_cast<float *>(packed) + i;
        if (k < p.results)
          transform_filter(layer_, static_cast<const float *>(raw), m_, k, c, step, out);
        else
          for (int64_t element = 0; element < (m_ + 2) * (m_ + 2); ++element) out[element * step] = 0;
      }
    });
  }

  void run(const polyconv_arguments &a, void *) const override {
    const LayerRun run = layer_run(plan_.epilogue, a);
    const auto task = m_ == 2 ? winograd_task2_by_isa[isa_] : winograd_task4_by_isa[isa_];
    run_items(parallel_, plan_.blocks, plan_.tasks, a.workspace, plan_.scratch_bytes,
              [&](const ItemShare &share) { task(plan_, run, share); });
  }

 private:
  const polyconv_layer layer_;
  WinogradPlan plan_;
  const int64_t m_;
  const Isa isa_;
  std::vector<int64_t> axes_; // what plan_ points into
  std::unique_ptr<Parallel> parallel_;
};

// Tiles of m x m results.
template <int64_t m>
bool winograd_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_strips(request, POLYCONV_FORWARD, offer)) return false;
  offer.math = POLYCONV_MATH_FAST;
  const polyconv_layer &l = *request.layers[0];
  if (l.input.type != POLYCONV_F32 || l.weights.type != POLYCONV_F32 || l.result.type != POLYCONV_F32)
    return offer.reject("takes f32 only");
  if (l.groups != 1) return offer.reject("takes one group, not %" PRId64, l.groups);
  if (l.weights.size[kD] != 1 || l.weights.size[kH] != 3 || l.weights.size[kW] != 3 || l.input.size[kD] != 1 ||
      l.output.size[kD] != 1)
    return offer.reject("takes filters of 3x3 in two dimensions");
  for (int axis = 1; axis < 3; ++axis)
    if (l.stride[axis] != 1 || l.dilation[axis] != 1) return offer.reject("takes no strides and no dilation");
  // Outputs that read nothing else are zero; here they would be what rounding leaves of their neighbours.
  for (int axis = 1; axis < 3; ++axis)
    if (l.pad_begin[axis] > 2 || l.pad_end[axis] > 2) return offer.reject("takes padding narrower than its filters");
  if (l.input.size[kC] < kLeastChannels || l.output.size[kC] < kLeastChannels)
    return offer.reject("takes %" PRId64 " and more channels", kLeastChannels);
  if (l.input.stride[kC] != 1 && l.input.stride[kW] != 1)
    return offer.reject("takes inputs whose channels or columns lie side by side");
  if (!takes_no_pooling(l, offer)) return false;
  const WinogradPlan p = winograd_geometry(l, *request.policy, isa, m);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  set_weights(offer, (m + 2) * (m + 2) * p.panels * p.panel * p.channels * 4, "cpu_winograd%d_%d:1",
              static_cast<int>(m), static_cast<int>(p.panel));
  offer.estimate_us = p.estimate_us;
  return true;
}

template <int64_t m>
std::unique_ptr<Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<WinogradInstance>(request, static_cast<Isa>(config), m);
}

} // namespace

const Kernel kernel_winograd2 = kernel_by_isa("winograd2", supports_by_isa<winograd_offer<2>>, create<2>,
                                              kActivationTraits, POLYCONV_KERNEL_TRANSFORM);
const Kernel kernel_winograd4 = kernel_by_isa("winograd4", supports_by_isa<winograd_offer<4>>, create<4>,
                                              kActivationTraits, POLYCONV_KERNEL_TRANSFORM);

} // namespace polyconv::cpu
