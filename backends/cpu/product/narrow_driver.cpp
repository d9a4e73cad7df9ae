// narrow_driver.cpp - plans and runs weight gradients of narrow groups. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/product/narrow_plan.hpp"

#include "cpu/bias/driver.hpp"
#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kNarrow = 32;                   // channels of a group: from here on dense_weights packs for less
constexpr int64_t kWide = 24;                     // from here on dense_weights, which fetches early, is near
constexpr int64_t kDepth = 256;                   // pixels of a unit: what a vector reads of them stays near
constexpr int64_t kItems = 16;                    // of work to aim for, whatever the number of threads
constexpr int64_t kMostListed = int64_t{1} << 20; // channels across by taps, and taps of an axis
constexpr int64_t kLine = 64;
constexpr double kFetchedBytes = 4 << 20; // of all tensors, from which on dense_weights gains by that

// Which side lies along the vectors, and how they share out the groups' channels.
void set_vectors(NarrowPlan &p, bool turned, int64_t lanes) {
  const int64_t in = p.input.size[kC] / p.groups, out = p.group_out;
  p.turned = turned;
  p.along = turned ? in : out, p.across = turned ? out : in;
  p.vector_groups = std::clamp<int64_t>(std::min(lanes / p.along, lanes / p.across), 1, p.groups);
  p.group_vectors = ceil_div(p.along, lanes);
  p.vectors = p.vector_groups > 1 ? ceil_div(p.groups, p.vector_groups) : p.groups * p.group_vectors;
}

// Cycles of one pixel and tap, all vectors: multiply-adds or loads, whichever are more, and a pick for each
// multiply-add.
double pixel_cycles(const NarrowPlan &p, Isa isa) {
  const double across = real(p.across), pieces = real(ceil_div(p.across, many_registers(isa) ? 16 : 8));
  const double pick = isa == kBaseline ? 8.0 : 0.75;
  return real(p.vectors) * (p.vector_groups > 1 ? 1.0 + pick * across : 0.8 * pieces + 0.5 * across);
}

// The better of both sides.
void choose_sides(NarrowPlan &p, int64_t lanes, Isa isa) {
  set_vectors(p, true, lanes);
  const double turned = pixel_cycles(p, isa);
  set_vectors(p, false, lanes);
  if (turned < 0.95 * pixel_cycles(p, isa)) set_vectors(p, true, lanes);
  const int64_t most = many_registers(isa) ? 16 : 8;
  p.piece = ceil_div(p.across, ceil_div(p.across, most));
}

NarrowPlan make_plan(const polyconv_layer &l, const polyconv_policy &policy, Isa isa, double *us) {
  NarrowPlan p{};
  p.input = l.input, p.gradient = l.output, p.weights = l.result;
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(l, i);
  p.groups = l.groups;
  p.group_out = l.output.size[kC] / l.groups;
  p.taps = taps(l);
  const int64_t lanes = vector_bytes(isa) / 4;
  choose_sides(p, lanes, isa);
  for (int64_t lane = 0; lane < lanes; ++lane)
    p.picks[lane] = static_cast<int32_t>(std::min(lane / p.along, p.vector_groups - 1) * p.across);
  const Axis &h = p.axis[1], &w = p.axis[2];
  p.chunks = std::max<int64_t>(ceil_div(w.out, kDepth + kDepth / 4), 1);
  p.columns = ceil_div(w.out, p.chunks);
  p.rows = std::clamp<int64_t>(kDepth / std::max<int64_t>(p.columns, 1), 1, std::max<int64_t>(h.out, 1));
  p.row_groups = ceil_div(h.out, p.rows);
  p.units = w.out > 0 ? l.output.size[kN] * p.axis[0].out * p.row_groups * p.chunks : 0;
  p.splits = std::clamp<int64_t>(ceil_div(kItems, p.vectors), 1, std::max<int64_t>(p.units, 1));
  p.vector_elements = p.taps * p.across * lanes;
  p.split_elements = p.vectors * p.vector_elements;
  const double pixels = real(l.output.size[kN] * spatial(l.output)), lines = pixels / std::max(real(w.out), 1.0);
  const double calls = real(p.vectors * p.taps) * (p.vector_groups > 1 ? 1 : real(ceil_div(p.across, p.piece)));
  const double sums = real(p.split_elements / lanes);
  // Pixels that share a set or two of the first cache come from the second one for every tap.
  const int64_t apart = std::max(l.input.stride[kW], l.output.stride[kW]) * 4;
  const double near = p.taps == 1 || apart % 2048 != 0 ? 1.0 : apart % 4096 != 0 ? 1.1 : 1.5;
  // Nothing is fetched early: beyond the second cache a core waits, more than packing of wide groups takes.
  const double moved = real(elements(l.input) + elements(l.output) + elements(l.weights)) * 4;
  const double waits = std::min(p.along, p.across) >= kWide && moved > kFetchedBytes ? 1.5 : 1.0;
  const double cycles = pixels * real(p.taps) * pixel_cycles(p, isa) * near * waits +
                        calls * (lines * 10 + real(p.units) * 40) + sums * (3 + real(p.splits));
  const double serial = cycles * cycle_us(isa);
  p.tasks = std::min(tasks_for(policy, serial), p.splits * p.vectors);
  p.parts = p.tasks == 1 ? 1 : std::min(ceil_div(p.tasks * 2, p.splits), p.vectors);
  p.tasks = std::min(p.tasks, p.splits * p.parts);
  *us = estimate_us(p.tasks, serial, moved);
  return p;
}

int64_t bias_at(const NarrowPlan &p) {
  return round_up(p.splits * p.split_elements * 4, kLine);
}

// The (channel across, tap) in the order of their weights.
std::vector<ProductColumn> make_table(const NarrowPlan &p, int64_t lanes) {
  const polyconv_tensor &w = p.weights;
  std::vector<ProductColumn> table;
  for (int64_t c = 0; c < p.across; ++c)
    for (int64_t tap = 0; tap < p.taps; ++tap) {
      const int64_t x = tap % w.size[kW], y = tap / w.size[kW] % w.size[kH], z = tap / w.size[kW] / w.size[kH];
      table.push_back({(tap * p.across + c) * lanes,
                       c * w.stride[p.turned ? kK : kC] + z * w.stride[kD] + y * w.stride[kH] + x * w.stride[kW]});
    }
  std::stable_sort(table.begin(), table.end(),
                   [](const ProductColumn &a, const ProductColumn &b) { return a.weight < b.weight; });
  return table;
}

class NarrowInstance final : public Instance {
 public:
  NarrowInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(make_plan(layer_, *request.policy, isa, &us_)),
        bias_(make_bias(layer_)),
        isa_(isa),
        table_(make_table(plan_, vector_bytes(isa) / 4)) {
    plan_.table = table_.data();
    for (int i = 0; i < 3; ++i) {
      for (int64_t tap = 0; tap < plan_.axis[i].taps; ++tap) inside_[i].push_back(outputs_inside(plan_.axis[i], tap));
      plan_.inside[i] = inside_[i].data();
    }
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  void run(const polyconv_arguments &a, void *) const override {
    const NarrowPlan &p = plan_;
    const NarrowRun run = {a.input, a.output, a.weights[0], static_cast<float *>(a.workspace)};
    run_each(parallel_, p.splits * p.parts, plan_.tasks, [&](int64_t, int64_t item) {
      narrow_weights_sum_by_isa[isa_](p, run, {item / p.parts, item % p.parts});
    });
    run_each(parallel_, p.vectors, plan_.tasks,
             [&](int64_t, int64_t vector) { narrow_weights_end_by_isa[isa_](p, run, vector); });
    run_bias(bias_, layer_, isa_, parallel_, a, static_cast<char *>(a.workspace) + bias_at(p));
  }

 private:
  polyconv_layer layer_;
  double us_ = 0;
  NarrowPlan plan_;
  BiasPlan bias_;
  Isa isa_;
  std::vector<ProductColumn> table_; // what plan_ points into
  std::vector<AxisOutputs> inside_[3];
  std::unique_ptr<Parallel> parallel_;
};

bool pads_with_zero(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_ZERO || (l.pad_mode == POLYCONV_PAD_CONSTANT && l.pad_value == 0);
}

bool narrow_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_strips(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.input.type != POLYCONV_F32 || l.output.type != POLYCONV_F32 || l.result.type != POLYCONV_F32)
    return offer.reject("reads and writes in place: takes f32");
  const int64_t in = l.weights.size[kC], out = l.output.size[kC] / l.groups;
  if (l.groups > 1 && in == 1 && out == 1) return offer.reject("takes no depthwise layers");
  if (std::min(in, out) > kNarrow)
    return offer.reject("takes groups of up to %" PRId64 " channels or filters, not %" PRId64 " and %" PRId64, kNarrow,
                        in, out);
  const auto side_by_side = [](const polyconv_tensor &t) { return t.size[kC] == 1 || t.stride[kC] == 1; };
  if (!side_by_side(l.input) || !side_by_side(l.output))
    return wants_layout(POLYCONV_CHANNELS_LAST, "lays channels along the vectors: takes them side by side", offer);
  if (!pads_with_zero(l)) return offer.reject("leaves padding out: takes zeros");
  if (in * out * taps(l) > kMostListed)
    return offer.reject("lists the weights of a group: takes %" PRId64 " at most", kMostListed);
  const NarrowPlan p = make_plan(l, *request.policy, isa, &offer.estimate_us);
  return fits_workspace(request, 1, bias_at(p) + bias_bytes(make_bias(l)), offer);
}

} // namespace

const sdk::Kernel kernel_narrow_weights =
    kernel_by_isa("narrow_weights", supports_by_isa<narrow_offer>, create_by_isa<NarrowInstance>, 0);

} // namespace polyconv::cpu
