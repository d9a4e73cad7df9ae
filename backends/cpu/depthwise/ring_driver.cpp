// ring_driver.cpp - plans and runs depthwise convolution by rings of source rows. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/aligned.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/depthwise/turned_driver.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kLine = 64, kRowsBytes = 24;     // RingRows
constexpr int64_t kLeastChunk = 2 * kRingColumns;  // columns: fewer bring in too much of each other's source
constexpr int64_t kJoinedPixels = kDepthwiseChunk; // of rows that are turned back at once
constexpr int64_t kLeastBand = 4;                  // rows of results
// Cycles of a vector: of results beside their taps, brought in, and turned one way; and of a row of a unit.
constexpr double kTapCycles = 0.75, kResultCycles = 5, kSourceCycles = 2.5, kTurnCycles = 4, kFinishCycles = 12,
                 kRowCycles = 30;
constexpr int64_t kWorth = 10;            // multiply-adds of a vector, from which on bringing it in shows little
constexpr int64_t kWide = 28;             // columns from which on turning row by row is as quick as whole strips
constexpr double kCacheBytesPerUs = 80e3; // of one thread, from and to the second cache
constexpr double kFromMemory = 0.3;       // of the time that kBytesPerUs allows

// As many columns as keep the rows that a row of results reads in the first cache, of nearly equal chunks; not fewer
// than share what they read.
int64_t chunk_of(const RingPlan &p, int64_t reach) {
  const Axis &w = p.axis[2];
  const int64_t pixels = kRingBytes / (p.axis[0].taps * reach * kDepthwiseUnit * 4);
  const int64_t most = (pixels - (w.taps - 1) * w.dilation - 1) / w.step + 1;
  const int64_t chunks = ceil_div(w.out, std::max(most, kLeastChunk));
  return std::max<int64_t>(ceil_div(w.out, std::max<int64_t>(chunks, 1)), 1);
}

void set_scratch(RingPlan &p) {
  const Axis &h = p.axis[1], &w = p.axis[2];
  const int64_t reach = (h.taps - 1) * h.dilation + 1, all = std::max<int64_t>(h.out - 1, 0) * h.step + reach;
  p.chunk = chunk_of(p, reach);
  p.line = ((p.chunk - 1) * w.step + (w.taps - 1) * w.dilation + 1) * kDepthwiseUnit;
  // Where it ends, rows that are read again move to its beginning: the longer the fewer, while it stays in the cache.
  const int64_t near = kRingBytes / (p.axis[0].taps * p.line * 4);
  p.ring = std::min(all, std::max(near, reach + std::max(reach / 2, 2 * h.step)));
  p.joined = p.turned ? std::max<int64_t>(kJoinedPixels / p.chunk, 1) : 1;
  p.sums_at = round_up(p.axis[0].taps * p.ring * p.line * 4, kLine);
  p.rows_at = p.sums_at + (p.direct ? 0 : p.joined * p.chunk * kDepthwiseUnit * 4);
  p.scratch_bytes = round_up(p.rows_at + p.axis[0].taps * h.taps * kRowsBytes, kLine);
}

// Microseconds of one thread.
double serial_us(const RingPlan &p, const polyconv_layer &layer, Isa isa) {
  const double vectors = real(p.units * kDepthwiseUnit * 4 / vector_bytes(isa) * layer.output.size[kN]);
  const double results = real(spatial(layer.output)) * vectors, lanes = real(vector_bytes(isa) / 4);
  const double rows = real(p.bands * std::min(p.band_rows * p.axis[1].step + p.axis[1].taps, layer.input.size[kH]));
  const double brought = real(p.axis[0].out * p.axis[0].taps) * rows * real(layer.input.size[kW]) * vectors;
  double cycles = results * (real(p.taps) * kTapCycles + kResultCycles) + brought * kSourceCycles;
  if (p.turned) cycles += (results + brought) * kTurnCycles * lanes / 8;
  if (!p.epilogue.simple) cycles += results * kFinishCycles;
  cycles += real(p.axis[0].out * p.axis[1].out * p.units * layer.output.size[kN]) * kRowCycles;
  return cycles * cycle_us(isa);
}

void pack_units(const polyconv_layer &layer, const void *raw, float *out) {
  const polyconv_tensor &w = layer.weights;
  for (int64_t first = 0; first < layer.groups; first += kDepthwiseUnit)
    for (int64_t d = 0; d < w.size[kD]; ++d)
      for (int64_t h = 0; h < w.size[kH]; ++h)
        for (int64_t x = 0; x < w.size[kW]; ++x)
          for (int64_t k = first; k < first + kDepthwiseUnit; ++k)
            *out++ = k < layer.groups ? load_as<float>(raw, w.type, at(w, k, 0, d, h, x)) : 0.0f;
}

class RingInstance final : public RowInstance {
 public:
  RingInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(ring_geometry(layer_, *request.policy, isa)),
        isa_(isa),
        aligned_(plan_.direct && plan_.channels * 4 % vector_bytes(isa) == 0 &&
                 steps_aligned(plan_.epilogue.result, {kN, kD, kH, kW}, vector_bytes(isa))),
        tables_(make_axis_tables(layer_, plan_.axis)) {
    if (plan_.tasks > 1) parallel_ = make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override {
    pack_units(layer_, raw, static_cast<float *>(packed));
  }

  void run(const polyconv_arguments &a, void *) const override {
    const bool stream = aligned_ && tensor_bytes(layer_) >= kStreamBytes && aligned(a.output, vector_bytes(isa_));
    const LayerRun run = layer_run(plan_.epilogue, a, stream);
    run_items(parallel_, plan_.items, plan_.tasks, a.workspace, plan_.scratch_bytes, [&](const ItemShare &share) {
      depthwise_ring_task_by_isa[isa_](
          plan_, run, {share.first, share.last, plan_.axis[1], plan_.axis[2], plan_.bands, share.scratch});
    });
  }

  void run_rows(const polyconv_arguments &a, const RowWindow &window) const override {
    RingPlan p = plan_;
    p.band_rows = std::max<int64_t>(window.rows.count, 1);
    const bool stream = window.to_memory && aligned_ && aligned(a.output, vector_bytes(isa_));
    const LayerRun run = window_run(p.epilogue, a, window, stream);
    depthwise_ring_task_by_isa[isa_](
        p, run, {0, p.units, axis_of(window.rows), axis_of(window.columns), 1, static_cast<char *>(a.workspace)});
  }

 private:
  polyconv_layer layer_;
  RingPlan plan_;
  Isa isa_;
  bool aligned_;                // pixels begin on a whole vector
  std::vector<int64_t> tables_; // what plan_ points into
  std::unique_ptr<Parallel> parallel_;
};

// Whether it is one where there are 32 registers, of which other tiles make better use: all pixels share one set of the
// first cache, each is read by so many taps that bringing it in once shows little, and an image is not so large that
// memory decides.
bool apart_takes(const polyconv_layer &layer) {
  constexpr int64_t kApart = 4096, kTaps = 49; // bytes
  return layer.input.stride[kW] * 4 % kApart == 0 && layer.input.stride[kC] == 1 &&
         taps(layer) >= kTaps * layer.stride[1] * layer.stride[2] &&
         tensor_bytes(layer) <= kStreamBytes * std::max<int64_t>(layer.output.size[kN], 1);
}

// Whether it is a layer for rings.
bool ring_takes(const polyconv_layer &layer, Isa isa) {
  // Where nine weights stay in registers, strips of pixels that are turned first are quicker.
  const bool nine = layer.weights.size[kH] == 3 && layer.weights.size[kW] == 3;
  const bool last = channels_side_by_side(layer), many = taps(layer) >= kWorth * layer.stride[1] * layer.stride[2];
  return (!many_registers(isa) || apart_takes(layer)) && layer.input.type == POLYCONV_F32 &&
         layer.sum_type == POLYCONV_F32 && layer.weights.size[kC] == 1 && layer.groups == layer.input.size[kC] &&
         layer.groups > 1 && layer.output.size[kC] == layer.groups && layer.stride[2] <= 2 && layer.dilation[2] == 1 &&
         (last ? many && layer.groups * 4 >= 2 * vector_bytes(isa)
               : (many || (taps(layer) > 1 && !nine && layer.input.size[kW] >= kWide)) && turned_takes(layer));
}

} // namespace

RingPlan ring_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  RingPlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  p.pad_value = static_cast<float>(layer.pad_mode == POLYCONV_PAD_ZERO ? 0 : layer.pad_value);
  p.turned = layer.input.stride[kC] != 1;
  p.direct = !p.turned && p.epilogue.simple && layer.result.stride[kC] == 1;
  p.value = layer.pad_mode == POLYCONV_PAD_ZERO || layer.pad_mode == POLYCONV_PAD_CONSTANT;
  p.skips = p.value && p.pad_value == 0;
  p.channels = layer.input.size[kC];
  p.units = ceil_div(p.channels, kDepthwiseUnit);
  p.taps = taps(layer);
  set_scratch(p);
  const int64_t planes = layer.output.size[kN] * p.axis[0].out * p.units, out = p.axis[1].out;
  p.bands = 1, p.band_rows = std::max<int64_t>(out, 1);
  const double moved = real(tensor_bytes(layer));
  const int64_t wanted = tasks_for(policy, std::max(serial_us(p, layer, isa), moved / kCacheBytesPerUs));
  if (planes % wanted && planes < 8 * wanted) p.band_rows = std::max(ceil_div(out * planes, 4 * wanted), kLeastBand);
  p.bands = std::max<int64_t>(ceil_div(out, p.band_rows), 1);
  p.items = planes * p.bands;
  const int64_t fit = std::max<int64_t>(policy.workspace_limit / p.scratch_bytes, 1);
  p.tasks = std::clamp<int64_t>(p.items, 1, std::min(wanted, fit));
  p.serial_us = serial_us(p, layer, isa);
  p.estimate_us = estimate_us(p.tasks, p.serial_us, moved * kFromMemory);
  return p;
}

bool ring_pays(const polyconv_request &request, Isa isa) {
  return ring_takes(*request.layers[0], isa) && beats_planes(request, isa, ring_geometry);
}

bool ring_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  const polyconv_layer &layer = *request.layers[0];
  if (!takes_no_pooling(layer, offer)) return false;
  const RingPlan p = ring_geometry(layer, *request.policy, isa);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  offer.set_weights(0, "cpu_depthwise_units_f32:1", p.units * p.taps * kDepthwiseUnit * 4);
  return true;
}

std::unique_ptr<Instance> ring_create(const polyconv_request &request, Isa isa) {
  return std::make_unique<RingInstance>(request, isa);
}

} // namespace polyconv::cpu
