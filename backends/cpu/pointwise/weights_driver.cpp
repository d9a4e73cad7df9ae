// weights_driver.cpp - plans and runs weight gradients of one tap. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/pointwise/weights_plan.hpp"

#include "cpu/bias/driver.hpp"
#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kBlockPixels = 256;            // whose two vectors of inputs are 32 KiB
constexpr int64_t kMostLines = int64_t{1} << 16; // that a plan lists

bool side_by_side(const polyconv_tensor &t) {
  return t.size[kC] == 1 || t.stride[kC] == 1;
}

// Whether the layer has one result an image, of a window whose elements lie as those of a filter do: then a filter is a
// row of so many channels.
bool is_one_window(const polyconv_layer &l) {
  const polyconv_tensor &w = l.result, &in = l.input;
  if (spatial(l.output) != 1 || !side_by_side(l.output)) return false;
  int64_t reach = 1;
  for (int axis = kC; axis <= kW; ++axis) {
    const int64_t dilation = axis >= kD ? l.dilation[axis - kD] : 1;
    if (w.size[axis] == 1) continue;
    if (w.stride[axis] <= 0 || w.stride[axis] != in.stride[axis] * dilation) return false;
    if (axis >= kD && (w.size[axis] - 1) * dilation >= in.size[axis]) return false;
    reach += (w.size[axis] - 1) * w.stride[axis];
  }
  return reach == elements(w) / std::max<int64_t>(w.size[kK], 1);
}

bool is_padded(const polyconv_layer &l) {
  return l.pad_begin[0] != 0 || l.pad_begin[1] != 0 || l.pad_begin[2] != 0;
}

// One tap reads no padding, and the channels of all three tensors lie side by side.
bool is_one_tap(const polyconv_layer &l) {
  if (taps(l) != 1 || !side_by_side(l.input) || !side_by_side(l.output) || !side_by_side(l.result)) return false;
  for (int axis = 0; axis < 3; ++axis)
    if ((l.output.size[kD + axis] - 1) * l.stride[axis] >= std::max<int64_t>(l.input.size[kD + axis], 1)) return false;
  return true;
}

// Every pixel of the output, in order: neighbours of a line, and lines that follow each other at the same stride, are
// one run, which ends where a block does.
void list_pixels(const polyconv_layer &l, const PointWeightsPlan &p, std::vector<PointRun> &runs,
                 std::vector<int64_t> &blocks) {
  const polyconv_tensor &in = l.input, &out = l.output;
  const int64_t lines = out.size[kN] * out.size[kD] * out.size[kH];
  int64_t room = 0; // pixels that the block still takes
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t h = line % out.size[kH], plane = line / out.size[kH], d = plane % out.size[kD],
                  n = plane / out.size[kD];
    PointRun rest = {n * in.stride[kN] + d * l.stride[0] * in.stride[kD] + h * l.stride[1] * in.stride[kH],
                     n * out.stride[kN] + d * out.stride[kD] + h * out.stride[kH], out.size[kW]};
    while (rest.count > 0) {
      if (room == 0) blocks.push_back(static_cast<int64_t>(runs.size())), room = kBlockPixels;
      const int64_t count = std::min(rest.count, room);
      PointRun *const before = blocks.back() < static_cast<int64_t>(runs.size()) ? &runs.back() : nullptr;
      if (before && before->input + before->count * p.input_step == rest.input &&
          before->gradient + before->count * p.gradient_step == rest.gradient)
        before->count += count;
      else
        runs.push_back({rest.input, rest.gradient, count});
      rest = {rest.input + count * p.input_step, rest.gradient + count * p.gradient_step, rest.count - count};
      room -= count;
    }
  }
  if (blocks.empty()) blocks.push_back(0); // no pixel: the sums are 0
  blocks.push_back(static_cast<int64_t>(runs.size()));
}

// What a plan points into.
struct Lists {
  std::vector<PointRun> runs;
  std::vector<int64_t> blocks;
};

// What the layer and the instruction set decide; `us` is one thread's time.
PointWeightsPlan make_plan(const polyconv_layer &l, Isa isa, double *us) {
  PointWeightsPlan p{};
  p.type = l.input.type;
  const bool one_window = is_one_window(l);
  p.outputs = l.output.size[kC];
  p.inputs = one_window ? elements(l.weights) / std::max<int64_t>(l.weights.size[kK], 1) : l.input.size[kC];
  // Images of one pixel follow each other as pixels do.
  const bool one_pixel = spatial(l.output) == 1;
  p.input_step = one_pixel ? l.input.stride[kN] : l.stride[2] * l.input.stride[kW];
  p.gradient_step = one_pixel ? l.output.stride[kN] : l.output.stride[kW];
  p.input_at = l.input.offset, p.gradient_at = l.output.offset, p.weights_at = l.result.offset;
  p.filter = l.result.stride[kK];
  p.rows = many_registers(isa) ? 14 : 6;
  p.lanes = vector_bytes(isa) / type_bytes(p.type);
  const double pixels = real(l.output.size[kN] * spatial(l.output)), outputs = real(p.outputs);
  const double vectors = real(ceil_div(p.inputs, p.lanes));
  const double lines = one_pixel ? 1 : real(l.output.size[kN] * l.output.size[kD] * l.output.size[kH]);
  const double tiles = outputs / real(p.rows) * std::max(vectors / 2, 1.0);
  const double blocks = std::max(pixels / real(kBlockPixels), 1.0);
  const double cycles = pixels * outputs * vectors / 2 * 1.1 + tiles * lines * 6 + outputs * vectors * blocks * 2;
  *us = cycles * cycle_us(isa);
  return p;
}

class PointWeightsInstance final : public Instance {
 public:
  PointWeightsInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]), plan_(make_plan(layer_, isa, &us_)), bias_(make_bias(layer_)), isa_(isa) {
    list_pixels(layer_, plan_, lists_.runs, lists_.blocks);
    plan_.runs = lists_.runs.data();
    plan_.blocks = lists_.blocks.data();
    plan_.block_count = static_cast<int64_t>(lists_.blocks.size()) - 1;
    const auto cost = [](const Grid &grid) { return real(largest_units(grid) * largest_panels(grid)); };
    plan_.grid = cut_grid(ceil_div(plan_.outputs, plan_.rows), ceil_div(plan_.inputs, 2 * plan_.lanes),
                          tasks_for(*request.policy, us_), cost);
    if (tasks_of(plan_.grid) > 1) parallel_ = make_parallel(*request.policy);
  }

  void run(const polyconv_arguments &a, void *) const override {
    const WeightsRun run = {a.input, a.output, a.weights[0]};
    run_grid(parallel_, plan_.grid, nullptr, 0,
             [&](const GridShare &share) { point_weights_task_by_isa[isa_](plan_, run, share); });
    run_bias(bias_, layer_, isa_, parallel_, a, static_cast<char *>(a.workspace));
  }

 private:
  polyconv_layer layer_;
  double us_ = 0;
  PointWeightsPlan plan_;
  BiasPlan bias_;
  Isa isa_;
  Lists lists_;
  std::unique_ptr<Parallel> parallel_;
};

bool point_weights_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_one_layer(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!goes(POLYCONV_BACKWARD_WEIGHTS, l, offer)) return false;
  if (l.groups != 1) return offer.reject("takes one group, not %" PRId64, l.groups);
  const int32_t type = l.input.type;
  if ((type != POLYCONV_F32 && type != POLYCONV_F64) || l.output.type != type || l.result.type != type)
    return offer.reject("reads and writes in place: takes f32 and f64");
  if (is_padded(l) || (!is_one_window(l) && !is_one_tap(l))) {
    const bool one_tap = taps(l) == 1 && !is_padded(l);
    if (one_tap) offer.wants_layout = 1 + POLYCONV_CHANNELS_LAST;
    return offer.reject(one_tap ? "reads channels side by side"
                                : "takes one tap without padding, or one window an image, and gradients side by side");
  }
  double us = 0;
  const PointWeightsPlan p = make_plan(l, isa, &us);
  const int64_t lines = l.output.size[kN] * l.output.size[kD] * l.output.size[kH];
  if (lines + lines * l.output.size[kW] / kBlockPixels > kMostLines)
    return offer.reject("lists lines of pixels: takes %" PRId64 " at most", kMostLines);
  const double moved = real(elements(l.input) + elements(l.output) + elements(l.weights)) * real(type_bytes(type));
  const int64_t tiles = ceil_div(p.outputs, p.rows) * ceil_div(p.inputs, 2 * p.lanes);
  offer.estimate_us = estimate_us(std::min(tasks_for(*request.policy, us), std::max<int64_t>(tiles, 1)), us, moved);
  return fits_workspace(request, 1, bias_bytes(make_bias(l)), offer);
}

} // namespace

const sdk::Kernel kernel_pointwise_weights =
    kernel_by_isa("pointwise_weights", supports_by_isa<point_weights_offer>, create_by_isa<PointWeightsInstance>, 0);

} // namespace polyconv::cpu
