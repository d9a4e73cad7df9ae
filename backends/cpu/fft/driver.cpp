// driver.cpp - offers, packs and runs large filters by FFT. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/fft/plan.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kLeastTaps = 9, kMostTaps = 129;   // along an axis, the longer one
constexpr int64_t kLeastLog2 = 5, kMostLog2 = 8;     // of a tile's size: a pair of 256 x 256 has 512 KiB
constexpr double kPassCycles = 30, kMoveCycles = 12; // of four vectors in a pass of radix 4; of a vector in the rest

// Vector cycles of a pair of tiles, for one plane and its filters.
double pair_cycles(int64_t log2, int64_t lanes, int64_t filters) {
  const double square = std::ldexp(1.0, static_cast<int>(2 * log2)) / real(lanes); // vectors of a part
  const double transform = 2 * square / 4 * kPassCycles * real(ceil_div(log2, 2));
  return transform + 4 * square * kMoveCycles / 4 + real(filters) * (transform + 2 * square * kMoveCycles);
}

FftPlan fft_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  FftPlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  p.pad_value = layer.pad_value;
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  p.channels = layer.input.size[kC];
  p.filters = layer.output.size[kC] / p.channels;
  p.planes = layer.input.size[kN] * p.channels * layer.output.size[kD]; // of results
  const int64_t taps = std::max(p.axis[1].taps, p.axis[2].taps), lanes = vector_bytes(isa) / 4;
  double least = 0;
  for (int64_t log2 = kLeastLog2; log2 <= kMostLog2; ++log2) {
    const int64_t step = (int64_t{1} << log2) - taps + 1;
    if (step < 1) continue;
    const int64_t rows = ceil_div(p.axis[1].out, step), columns = ceil_div(p.axis[2].out, step);
    const double cycles = real(p.planes * ceil_div(rows * columns, 2)) * pair_cycles(log2, lanes, p.filters);
    if (p.size != 0 && cycles >= least) continue;
    least = cycles;
    p.log2 = log2, p.size = int64_t{1} << log2, p.step = step, p.rows = rows, p.columns = columns;
  }
  p.pairs = p.planes * ceil_div(p.rows * p.columns, 2);
  const double us = least * cycle_us(isa);
  p.tasks = std::clamp<int64_t>(p.pairs, 1, tasks_for(policy, us));
  p.pitch = p.size + 16, p.square = p.size * p.pitch;
  p.scratch_bytes = 4 * p.square * 4;
  p.estimate_us = estimate_us(p.tasks, us, 4 * real(sdk::elements(layer.input) + sdk::elements(layer.result)));
  return p;
}

class FftInstance final : public Instance {
 public:
  FftInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(fft_geometry(layer_, *request.policy, isa)),
        isa_(isa),
        axes_(make_axis_tables(layer_, plan_.axis)) {
    for (int64_t i = 0; i < plan_.size; ++i) {
      const double angle = 2 * 3.14159265358979323846 * real(i) / real(plan_.size);
      roots_.push_back(static_cast<float>(std::cos(angle)));
      roots_.push_back(static_cast<float>(-std::sin(angle)));
    }
    plan_.roots = roots_.data();
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  // The transforms of the mirrored filters, as a sum over neighbours is a convolution with those, over the number of
  // elements, as a transform there and back multiplies by it.
  void pack(int, const void *raw, void *packed, void *) override {
    const polyconv_tensor &w = layer_.weights;
    const int64_t n = plan_.size;
    for (int64_t k = 0; k < w.size[kK]; ++k) {
      float *spectrum = static_cast<float *>(packed) + k * 2 * plan_.square;
      std::fill_n(spectrum, 2 * plan_.square, 0.0f);
      for (int64_t r = 0; r < w.size[kH]; ++r)
        for (int64_t s = 0; s < w.size[kW]; ++s)
          spectrum[(n - r) % n * plan_.pitch + (n - s) % n] =
              load_as<float>(raw, w.type, at(w, k, 0, 0, r, s)) / static_cast<float>(n * n);
      fft_spectrum_by_isa[isa_](plan_, spectrum);
    }
  }

  void run(const polyconv_arguments &a, void *) const override {
    const LayerRun run = layer_run(plan_.epilogue, a);
    run_items(parallel_, plan_.pairs, plan_.tasks, a.workspace, plan_.scratch_bytes,
              [&](const ItemShare &share) { fft_task_by_isa[isa_](plan_, run, share); });
  }

 private:
  const polyconv_layer layer_;
  FftPlan plan_;
  const Isa isa_;
  std::vector<int64_t> axes_; // what plan_ points into, like roots_
  std::vector<float> roots_;
  std::unique_ptr<Parallel> parallel_;
};

bool fft_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_strips(request, POLYCONV_FORWARD, offer)) return false;
  offer.math = POLYCONV_MATH_FAST;
  const polyconv_layer &l = *request.layers[0];
  if (l.sum_type != POLYCONV_F32) return offer.reject("sums in f32 only");
  if (l.weights.size[kC] != 1) return offer.reject("takes one channel a group, not %" PRId64, l.weights.size[kC]);
  if (l.weights.size[kD] != 1 || l.stride[0] != 1 || l.pad_begin[0] + l.pad_end[0] != 0)
    return offer.reject("filters planes: depth has a kernel, stride or padding here");
  for (int axis = 1; axis < 3; ++axis)
    if (l.stride[axis] != 1 || l.dilation[axis] != 1) return offer.reject("takes no strides and no dilation");
  const int64_t least = std::min(l.weights.size[kH], l.weights.size[kW]);
  const int64_t most = std::max(l.weights.size[kH], l.weights.size[kW]);
  if (least < kLeastTaps || most > kMostTaps)
    return offer.reject("takes filters of %" PRId64 " to %" PRId64 " taps along each axis", kLeastTaps, kMostTaps);
  if (!takes_no_pooling(l, offer)) return false;
  const FftPlan p = fft_geometry(l, *request.policy, isa);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  set_weights(offer, l.weights.size[kK] * 2 * p.square * 4, "cpu_fft_%d:1", static_cast<int>(p.size));
  offer.estimate_us = p.estimate_us;
  return true;
}

} // namespace

const sdk::Kernel kernel_fft = kernel_by_isa("fft", supports_by_isa<fft_offer>, create_by_isa<FftInstance>,
                                             sdk::kActivationTraits, POLYCONV_KERNEL_TRANSFORM);

} // namespace polyconv::cpu
