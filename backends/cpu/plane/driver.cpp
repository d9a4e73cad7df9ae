// driver.cpp - plans and runs filters over planes. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/plane/driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/aligned.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <numeric>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kChunkInPlace = 2048, kChunkConverted = 1024, kChunkPasses = 512; // elements
constexpr int64_t kRingLines = 12; // from so many lines on a ring keeps them, as rows of an image may share cache sets
constexpr int64_t kLeastInPlace = 768; // elements of a row: the edges of shorter ones go through scratch anyway
constexpr int64_t kStripRows = 64;
constexpr double kMemory = 0.35;                       // of the time that kBytesPerUs allows: rows come in order
constexpr int64_t kPeriodVectors = 3;                  // as in tile.hpp
constexpr double kLoadCycles = 5, kGatherCycles = 1.5; // of converting a vector, and of an element out of order
constexpr double kPassesCycles = 8, kDownCycles = 1.3, kAlongCycles = 2.1; // of a vector, and of each tap
constexpr double kLineUs = 0.012, kGroupUs = 0.02; // of bringing in a line, and of a group of rows, however short

// Pixels whose channels lie side by side with nothing between them, in input and result.
bool interleaved(const polyconv_layer &layer) {
  const int64_t channels = layer.input.size[kC];
  const auto dense = [&](const polyconv_tensor &t) { return t.stride[kC] == 1 && t.stride[kW] == channels; };
  return channels > 1 && dense(layer.input) && dense(layer.result);
}

int64_t square_of(const polyconv_layer &layer) {
  const int64_t rows = layer.weights.size[kH], columns = layer.weights.size[kW];
  const bool unrolled = rows == columns && (rows == 3 || rows == 5 || rows == 7);
  return unrolled && layer.dilation[1] == 1 && layer.stride[1] <= 2 ? rows : 0;
}

// Whether a square filter's taps are shifted out of vectors (kSlides in slide.hpp).
bool slides(const PlanePlan &p, Isa isa) {
  return p.square && p.neighbours && p.axis[1].step == 1 && p.arithmetic == POLYCONV_F32 && vector_bytes(isa) == 64;
}

// Elements between rows of at least n, such that loads from a dozen of them at one column differ from each other, and
// from stores there, in the address bits below a page by which a core guesses that a load waits for a store.
int64_t row_stride(int64_t n, int64_t bytes) {
  constexpr int64_t kPage = 4096, kApart = 320; // bytes
  return (round_up(n * bytes - kApart, kPage) + kApart) / bytes;
}

void set_lines(PlanePlan &p, int64_t lanes, int64_t bytes, Isa isa) {
  const Axis &w = p.axis[2];
  const bool wide = many_registers(isa);                                  // as kPlaneVectors
  const bool neighbours = p.axis[1].step == 1 && p.axis[1].dilation == 1; // rows of a tile share lines
  p.group_rows = p.square || (neighbours && p.axis[1].taps >= 4) ? kPlaneRows
                 : neighbours && p.axis[1].taps > 1              ? 2
                                                                 : 1;
  p.tile_vectors = p.periodic ? kPeriodVectors : (wide ? 4 : 2) * (p.group_rows == kPlaneRows ? 1 : 2);
  p.lines = (p.group_rows - 1) * p.axis[1].step + p.axis[1].taps;
  const bool edges = w.out * p.pixel < kLeastInPlace && !p.masks;
  if ((p.lines > kRingLines && w.taps > 1 && !p.passes) || edges) p.in_place = 0;
  p.ring = !p.in_place && p.axis[1].dilation == 1;
  p.unit = p.tile_vectors * lanes;
  const int64_t most = (p.passes ? kChunkPasses : p.in_place ? kChunkInPlace : kChunkConverted) / p.pixel;
  p.chunk = std::max(most / p.unit, int64_t{1}) * p.unit;
  const int64_t chunk = std::min(p.chunk, w.out);
  p.reach = (w.taps - 1) * w.dilation / w.step;
  p.plane_elements = round_up((chunk + p.reach) * p.pixel, lanes) + p.tile_vectors * lanes;
  p.remainders = std::min(w.step, w.taps); // at most; make_tables counts
  p.line_elements = row_stride(p.remainders * p.plane_elements, bytes);
  p.sums_stride = row_stride(round_up(chunk * p.pixel, lanes) + p.tile_vectors * lanes, bytes);
  const int64_t taps = p.axis[1].taps * w.taps;
  const int64_t weights = p.passes ? 0 : p.periodic ? taps * kPeriodVectors * lanes : taps * p.filters;
  p.vertical_stride = p.passes ? p.line_elements : 0;
  p.vertical_at = round_up((p.lines + 1) * p.line_elements * bytes, 64);
  p.weights_at = round_up(p.vertical_at + p.group_rows * p.vertical_stride * bytes, 64);
  p.sums_at = round_up(p.weights_at + weights * bytes, 64);
  p.pointers_at = round_up(p.sums_at + p.group_rows * p.sums_stride * bytes, 64);
  p.scratch_bytes = round_up(p.pointers_at + p.lines * 8, 64);
}

// Cycles of a vector of results, in the tiles alone. The smaller the kernel, the more loads, edges and stores count.
double tile_cycles(const PlanePlan &p) {
  const double taps = real(p.axis[1].taps * p.axis[2].taps);
  if (p.passes) return kPassesCycles + kDownCycles * real(p.axis[1].taps) + kAlongCycles * real(p.axis[2].taps);
  if (p.square) return taps / 2 * (0.9 + 5 / real(p.square));
  if (p.group_rows == 1) return taps / 2 * 3.5;
  return taps / 2 * ((p.group_rows == kPlaneRows ? 1.15 : 1.4) + 5 / std::sqrt(taps));
}

// Microseconds of one thread.
double serial_us(const PlanePlan &p, const polyconv_layer &layer, Isa isa, int64_t lanes) {
  const int64_t width = p.axis[2].out * p.pixel, height = p.axis[1].out, groups = ceil_div(height, p.group_rows);
  const double waste = real(round_up(width, lanes)) / real(width) * real(groups * p.group_rows) / real(height);
  const double results = real(sdk::elements(layer.result)), cycle = cycle_us(isa);
  double us = results / real(lanes) * waste * tile_cycles(p) * cycle;
  if (!p.masks && (!p.in_place || p.axis[2].out < 3 * p.unit)) {
    const double rows = real(height * p.axis[1].step + ceil_div(height, kStripRows) * p.axis[1].taps);
    const double lines = real(p.planes) * (p.ring ? rows : real(groups * p.lines));
    const bool dense = p.input.stride[kW] * p.axis[2].step == 1 || p.pixel > 1;
    const double columns = real(width * std::min(p.axis[2].step, p.axis[2].taps));
    us += lines * (columns * (dense ? kLoadCycles / real(lanes) : kGatherCycles) * cycle + kLineUs);
  }
  const bool dense = p.epilogue.result.stride[kW] == 1;
  if (!p.direct) us += results * (dense ? (p.epilogue.quick ? 3.0 : 12.0) / real(lanes) : 2.0) * cycle;
  // Calls and edges of each group of rows and filter.
  return us + real(p.planes * p.filters * groups) * kGroupUs;
}

// Results stored by the tile whose rows all begin on a whole vector.
bool rows_aligned(const PlanePlan &p, int64_t vector) {
  return p.direct && steps_aligned(p.epilogue.result, {kN, kC, kD, kH}, vector);
}

class PlaneInstance final : public RowInstance {
 public:
  PlaneInstance(const polyconv_request &request, Isa isa)
      : filter_(*request.layers[0], *request.policy, isa, false, image_task_by_isa[isa]) {
    if (filter_.tasks() > 1) parallel_ = sdk::make_parallel(*request.policy);
  }

  void run(const polyconv_arguments &a, void *) const override { filter_.run(a, a.weights[0], parallel_); }

  void run_rows(const polyconv_arguments &a, const RowWindow &window) const override {
    filter_.run_rows(a, a.weights[0], window);
  }

 private:
  PlaneFilter filter_;
  std::unique_ptr<sdk::Parallel> parallel_;
};

// Interleaved pixels go as rows of elements only where every channel is treated alike or the weights repeat in time.
bool takes_pixels(const polyconv_layer &layer, Isa isa, sdk::Offer &offer) {
  const polyconv_epilogue &e = layer.epilogue;
  const int64_t channels = layer.input.size[kC], lanes = vector_bytes(isa) / sum_bytes(layer.sum_type);
  if (layer.output.size[kC] != channels) return offer.reject("takes one filter for each interleaved channel");
  if (layer.stride[2] != 1) return offer.reject("takes interleaved channels at a stride of 1");
  if (e.has_bias || e.has_scale || e.residual_from != POLYCONV_RESIDUAL_NONE || layer.save != POLYCONV_SAVE_NONE ||
      e.activation == POLYCONV_ACT_PRELU)
    return offer.reject("takes interleaved channels without bias, scale, residual, slopes or saved values");
  if (layer.weights.stride[kK] == 0) return true;
  if (channels > 4 || kPeriodVectors * lanes % channels != 0)
    return offer.reject("takes up to 4 interleaved channels with filters of their own, not %" PRId64, channels);
  return true;
}

} // namespace

PlanePlan plane_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, bool passes) {
  PlanePlan p{};
  p.input = layer.input;
  p.weights = layer.weights;
  p.epilogue = make_epilogue(layer);
  p.pad_value = layer.pad_value;
  p.arithmetic = layer.sum_type;
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  const int64_t bytes = sum_bytes(layer.sum_type), lanes = vector_bytes(isa) / bytes;
  p.passes = passes;
  p.square = passes ? 0 : static_cast<int32_t>(square_of(layer));
  p.pixel = interleaved(layer) ? layer.input.size[kC] : 1;
  p.neighbours = p.pixel == 1 && layer.stride[2] == 1 && layer.dilation[2] == 1;
  p.periodic = p.pixel > 1 && layer.weights.stride[kK] != 0;
  p.channels = p.pixel > 1 ? 1 : layer.input.size[kC];
  p.filters = p.pixel > 1 ? 1 : layer.output.size[kC] / layer.input.size[kC];
  p.planes = layer.input.size[kN] * p.channels * layer.output.size[kD]; // of results
  const bool same_type = layer.input.type == layer.sum_type;
  p.in_place = same_type && layer.stride[2] == 1 && (p.pixel > 1 || layer.input.stride[kW] == 1);
  const bool zeros = layer.pad_mode == POLYCONV_PAD_ZERO || p.axis[2].before + p.axis[2].after == 0;
  p.masks = p.in_place && zeros && slides(p, isa);
  if (p.pixel > 1) p.epilogue.result.stride[kW] = 1; // rows of elements
  p.direct = p.epilogue.simple && p.epilogue.result.stride[kW] == 1;
  set_lines(p, lanes, bytes, isa);
  const double us = p.serial_us = serial_us(p, layer, isa, lanes);
  p.tasks = tasks_for(policy, us);
  const int64_t rows = ceil_div(p.planes * p.axis[1].out, 4 * p.tasks);
  p.strip_rows = std::clamp(round_up(rows, p.group_rows), p.group_rows, kStripRows);
  p.strips = ceil_div(p.axis[1].out, p.strip_rows);
  p.items = p.planes * p.strips;
  p.tasks = std::clamp<int64_t>(p.items, 1, p.tasks);
  const double moved = static_cast<double>(sdk::elements(layer.input) * type_bytes(layer.input.type) +
                                           sdk::elements(layer.result) * type_bytes(layer.result.type));
  p.estimate_us = estimate_us(p.tasks, us, moved * kMemory);
  return p;
}

PlaneFilter::PlaneFilter(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, bool passes,
                         PlaneTask task)
    : plan_(plane_geometry(layer, policy, isa, passes)),
      task_(task),
      vector_(vector_bytes(isa)),
      aligned_(rows_aligned(plan_, vector_)),
      may_stream_(aligned_ && elements(layer.result) * 4 >= kStreamPlanesBytes),
      axes_(make_axis_tables(layer, plan_.axis)) {
  const Axis &w = plan_.axis[2];
  const int64_t period = w.step / std::gcd(w.step, w.dilation); // of the remainders
  for (int64_t t = 0; t < std::min(period, w.taps); ++t) remainders_.push_back(t * w.dilation % w.step);
  for (int64_t t = 0; t < w.taps; ++t)
    taps_.push_back(t % period * plan_.plane_elements + t * w.dilation / w.step * plan_.pixel);
  plan_.remainders = static_cast<int64_t>(remainders_.size());
  plan_.remainder = remainders_.data();
  plan_.tap = taps_.data();
}

void PlaneFilter::run(const polyconv_arguments &a, const void *weights,
                      const std::unique_ptr<sdk::Parallel> &threads) const {
  PlaneRun run = {with_arguments(plan_.epilogue, a), a.input, weights, may_stream_ && aligned(a.output, vector_), 1, 0};
  run_items(threads, plan_.items, plan_.tasks, a.workspace, plan_.scratch_bytes,
            [&](const ItemShare &share) { task_(plan_, run, share); });
}

void PlaneFilter::run_rows(const polyconv_arguments &a, const void *weights, const RowWindow &window) const {
  PlanePlan p = plan_;
  p.axis[1] = axis_of(window.rows);
  p.axis[2] = axis_of(window.columns);
  p.strip_rows = window.rows.count;
  p.strips = 1;
  p.items = p.planes;
  const bool whole_vectors = window.columns.first * 4 % vector_ == 0;
  const PlaneRun run = {from_window(with_arguments(p.epilogue, a), window),
                        a.input,
                        weights,
                        window.to_memory && aligned_ && whole_vectors && aligned(a.output, vector_),
                        window.from_memory,
                        window.highest};
  task_(p, run, {0, p.items, static_cast<char *>(a.workspace)});
}

bool plane_takes(const polyconv_layer &layer, Isa isa, sdk::Offer &offer) {
  if (!goes(POLYCONV_FORWARD, layer, offer)) return false;
  if (is_quantised(layer)) return offer.reject("takes float and image types, not sums of s8 or u8 products");
  if (layer.weights.size[kC] != 1)
    return offer.reject("takes one channel a group, not %" PRId64, layer.weights.size[kC]);
  if (layer.weights.size[kD] != 1 || layer.stride[0] != 1 || layer.pad_begin[0] + layer.pad_end[0] != 0)
    return offer.reject("filters planes: depth has a kernel, stride or padding here");
  if (interleaved(layer)) return takes_pixels(layer, isa, offer);
  if (layer.input.stride[kW] != 1 && layer.input.size[kW] > 1)
    return wants_layout(POLYCONV_CHANNELS_FIRST, "takes columns that lie side by side, or interleaved channels", offer);
  return true;
}

bool plane_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  const polyconv_layer &layer = *request.layers[0];
  if (!takes_no_pooling(layer, offer)) return false;
  const PlanePlan p = plane_geometry(layer, *request.policy, isa, false);
  if (!fits_workspace(request, p.tasks, p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  return true;
}

std::unique_ptr<sdk::Instance> plane_create(const polyconv_request &request, Isa isa) {
  return std::make_unique<PlaneInstance>(request, isa);
}

namespace {

// Of kernel `image`.
constexpr int64_t kMostChannels = 4, kMostFilters = 64;

bool image_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_strips(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (!plane_takes(layer, isa, offer)) return false;
  const int64_t channels = layer.input.size[sdk::kC], filters = layer.output.size[sdk::kC] / channels;
  if (channels > kMostChannels && layer.weights.stride[sdk::kK] != 0)
    return offer.reject("takes images of up to %" PRId64 " channels, not %" PRId64, kMostChannels, channels);
  if (filters > kMostFilters)
    return offer.reject("takes up to %" PRId64 " filters an image, not %" PRId64, kMostFilters, filters);
  return plane_offer(request, isa, offer);
}

} // namespace

const Kernel kernel_image = kernel_by_isa("image", supports_by_isa<image_offer>, create_by_isa<PlaneInstance>);

} // namespace polyconv::cpu
