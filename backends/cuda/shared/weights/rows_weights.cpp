// rows_weights.cpp - the gradient of weights of few channels, channels first (rows.hpp). The config is the rows
// of a chunk: as many as a budget of shared memory holds.
//
// Floor: max(2 N K P Q n^2 C / FMA rate, one read of every element / copy rate).
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "common/host.hpp"
#include "common/sums/bias_gradient.hpp"
#include "weights/rows.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr int32_t kBudgets[] = {16 << 10, 32 << 10, 64 << 10}; // bytes of a block
constexpr const char *kNames[] = {"16k", "32k", "64k"};
constexpr int kConfigCount = sizeof kBudgets / sizeof *kBudgets;
constexpr int32_t kBlocks = kHopperMultiprocessors * 6; // to aim for

// ---------------------------------------------------------------- a block

// Sets the chunk of a block of so many planes: whole images where they fit, else rows; false where not one row does.
bool set_chunk(const polyconv_layer &l, int32_t budget, RowsWeights &r) {
  const int64_t taps = l.weights.size[3], step = l.stride[1], height = l.output.size[3];
  r.output_pitch = small(ceil_div(l.output.size[4], kStrip)) * kStrip;
  r.input_pitch = static_cast<int32_t>((r.output_pitch - kStrip) * step + (3 * step + taps + 3) / 4 * 4);
  r.images = 1;
  const auto set_rows = [&](int64_t rows) {
    r.rows = static_cast<int32_t>(rows);
    r.input_rows = static_cast<int32_t>((rows - 1) * step + taps);
    return r.shared_bytes() <= budget;
  };
  int64_t chunks = 1;
  while (!set_rows(small(ceil_div(height, chunks))))
    if (++chunks > height) return false;
  if (chunks == 1)
    while (r.images < l.output.size[0] && r.images < 16) {
      ++r.images;
      if (set_rows(height)) continue;
      --r.images;
      break;
    }
  r.row_chunks = small(ceil_div(height, r.rows));
  r.chunks = r.row_chunks * small(ceil_div(l.output.size[0], r.images));
  return true;
}

// The time of a block's planes, in products of a thread; what the choice of planes is by. Strided inputs share banks,
// and a row that is copied costs a warp as much as its elements. Within 21 % of seven layers on an H200.
double cost_of(const polyconv_layer &l, const RowsWeights &r) {
  const auto taps = static_cast<int32_t>(l.weights.size[3]), step = static_cast<int32_t>(l.stride[1]);
  const int32_t rows = rows_of_thread(taps), vectors = ((kStrip - 1) * step + taps + 3) / 4;
  const int32_t tiles = small(ceil_div(r.filters, kFilters)) * r.channels * small(ceil_div(taps, rows));
  const int32_t strips = r.output_pitch / kStrip * r.rows * r.images, threads = kRowsThreads / tiles;
  const double products = 1.0 * kStrip * kFilters * rows * taps, loads = 8.0 * (kFilters + rows * vectors * step) + 20;
  const double walking = small(ceil_div(strips, threads)) * (products + loads);
  const auto copying = [](int64_t count, int64_t width, int64_t at_once) {
    return real(count) * (30 + 6 * real(ceil_div(width, at_once))) / kRowsWarps;
  };
  const int64_t width = l.output.size[4];
  const double copied = copying(int64_t{r.channels} * r.images * r.input_rows, l.input.size[4], 32) +
                        copying(int64_t{r.filters} * r.images * r.rows, width, width % 4 == 0 ? 128 : 32);
  return 1.0 * r.sets * r.chunks * (walking + copied + 300);
}

bool make_rows(const polyconv_layer &l, int32_t budget, RowsWeights &best) {
  const int32_t taps = static_cast<int32_t>(l.weights.size[3]);
  const int32_t row_tiles = small(ceil_div(taps, rows_of_thread(taps)));
  const int64_t group_filters = l.weights.size[0] / l.groups;
  double least = 0;
  for (const int32_t channels : {1, 2, 4})
    for (const int32_t tiles : {1, 2, 4}) { // of filters
      const int32_t combinations = channels * tiles * row_tiles;
      if (combinations > kRowsWarps || channels / 2 >= l.weights.size[1] || (tiles / 2) * kFilters >= group_filters)
        continue;
      RowsWeights r = {};
      r.channels = channels, r.filters = tiles * kFilters;
      r.channel_sets = small(ceil_div(l.weights.size[1], r.channels)),
      r.filter_sets = small(ceil_div(group_filters, r.filters));
      const int64_t sets = l.groups * r.channel_sets * r.filter_sets;
      if (sets > 1 << 20 || !set_chunk(l, budget, r)) continue;
      r.sets = static_cast<int32_t>(sets);
      const double cost = cost_of(l, r);
      if (least == 0 || cost < least) least = cost, best = r;
    }
  if (least == 0) return false;
  best.parts = std::clamp(small(ceil_div(kBlocks, best.sets)), 1, best.chunks);
  return true;
}

// ---------------------------------------------------------------- supports

RowsInstance instance_for(const polyconv_layer &l) {
  const auto find = of_type(l.input.type, [](auto t) { return find_rows<decltype(t)>; });
  return find(static_cast<int>(l.weights.size[3]), static_cast<int>(l.stride[1]));
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!takes_windows(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int64_t filters = l.weights.size[0] / l.groups;
  if (filters == 1) return offer.reject("shares rows of the input among filters, and a group has one");
  const int64_t planes = l.groups == 1 ? l.weights.size[0] * l.weights.size[1] : filters;
  if (planes > 4096 || l.weights.size[1] > 64)
    return offer.reject("every pair of channels is a sum of its own: takes few channels, and depthwise layers");
  return true;
}

int64_t partials_bytes(const polyconv_layer &l, const RowsWeights &r) {
  return aligned_bytes(sdk::elements(l.weights) * r.parts * 4);
}

double estimate(const polyconv_layer &l, const RowsWeights &r) {
  const double bytes = l.input.type == POLYCONV_F32 ? 4 : 2;
  const double elements = static_cast<double>(sdk::elements(l.input)) + static_cast<double>(sdk::elements(l.output));
  const double adding = static_cast<double>(partials_bytes(l, r)) * 2 / 1e6;
  const double rate = l.weights.size[3] == 3 ? 400 : 680; // small windows: measured on planes of 13 x 13
  return 8 + std::max(cost_of(l, r) / (kHopperMultiprocessors * rate), elements * bytes / 3e6) + adding +
         bias_gradient_us(l);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  RowsWeights r;
  const auto us = [&](int32_t c) { return make_rows(l, kBudgets[c], r) ? estimate(l, r) : 0; };
  if (!offer_cheapest(kConfigCount, config, offer, us))
    return offer.reject("no row of these planes fits a block's shared memory");
  make_rows(l, kBudgets[offer.config], r);
  offer.workspace_bytes = partials_bytes(l, r) + bias_gradient_bytes(l);
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class Rows final : public CudaInstance {
 public:
  Rows(const polyconv_request &request, int32_t budget) : CudaInstance(request), instance_(instance_for(layer_)) {
    if (!make_rows(layer_, budget, rows_))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-shared/rows_weights: no block for a problem that was accepted");
    const DeviceScope scope(device_);
    instance_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    RowsWeights r = rows_;
    r.partials = static_cast<float *>(a.workspace);
    r.vectors = has_vectors(layer_.output, a.output);
    const Conv<int32_t> p(layer_, a);
    instance_.launch(p, r, a.input, a.output, stream);
    add_parts(p, r.partials, r.parts, static_cast<int32_t>(sdk::elements(layer_.weights)), a.weights[0], stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + partials_bytes(layer_, r), stream);
  }

  const RowsInstance instance_;
  RowsWeights rows_ = {};
};

} // namespace

POLYCONV_DEFINE_KERNEL(rows_weights, kNames, supports, instance_of<Rows, kBudgets>);

} // namespace polyconv::cuda
