// strided_last_data.cu - the gradient of the input of depthwise layers at stride 2, channels last: every output is
// loaded in vectors of channels and every result written once, with no conversion and no part for each residue of the
// stride (windows/cells.cuh). Configs are the channels of a thread.
//
// Floor: one read of the output's gradient and one write of the input's.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "depthwise/filters.cuh"
#include "windows/cells.hpp"
#include "windows/ends.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr int kChannels[] = {4, 2, 1};
constexpr const char *kNames[] = {"4", "2", "1"};
constexpr int kConfigCount = sizeof kNames / sizeof *kNames;
constexpr int64_t kWantedThreads = int64_t{kHopperMultiprocessors} * 1536;

CellsLaunch launch_for(const polyconv_layer &l, int channels) {
  const auto find = of_type(l.output.type, [](auto t) { return find_cells<decltype(t)>; });
  return find(static_cast<int>(l.weights.size[3]), channels);
}

// ---------------------------------------------------------------- how a layer is shared out

// Stretches as long as leaves enough threads: the rows above one are loaded once more.
Cells make_cells(const polyconv_layer &l, int channels, const Filters &filters = {}) {
  Cells s = {};
  int64_t cells[2];
  for (int axis = 0; axis < 2; ++axis) {
    s.first[axis] = small(l.pad_begin[1 + axis] / 2);
    cells[axis] = (l.result.size[3 + axis] - 1 + l.pad_begin[1 + axis]) / 2 + 1 - s.first[axis];
  }
  s.end = small(s.first[0] + cells[0]);
  const int64_t chunks = ceil_div(l.result.size[1], channels), strips = ceil_div(cells[1], kCellColumns);
  int64_t rows = std::min<int64_t>(cells[0], 16);
  const auto threads = [&] { return l.result.size[0] * chunks * strips * ceil_div(cells[0], rows); };
  while (rows > 2 && threads() < kWantedThreads) --rows;
  rows = ceil_div(cells[0], ceil_div(cells[0], rows)); // stretches of the same length
  s.rows = small(rows);
  s.threads = small(std::min<int64_t>(threads(), INT32_MAX));
  const auto item = static_cast<int32_t>(sdk::type_bytes(l.weights.type));
  const int64_t lanes = lanes_by(filters, chunks, int64_t{channels} * item), stretches = ceil_div(cells[0], rows);
  s.lanes = Divider::make(small(lanes)), s.sets = Divider::make(small(chunks / lanes));
  s.strips = Divider::make(small(strips)), s.stretches = Divider::make(small(stretches));
  s.filters = share_filters(filters, {chunks, lanes, strips * stretches, kCellThreads, channels}, item);
  return s;
}

// Microseconds: the bytes, or what lanes issue. Fitted to 12 layers on an H200.
double cells_us(const polyconv_layer &l, int channels) {
  const Cells s = make_cells(l, channels);
  const int n = static_cast<int>(l.weights.size[3]), reach = (n + 1) / 2, width = kCellColumns + reach - 1;
  const double word = channels == 1 ? 1 : 1.5;
  const double load = width * (4 + channels * word), taps = n * n * (1 + channels * word);
  const double cells = kCellColumns * (channels * (n * n + 4.0) + 30) * (channels == 1 ? 6 : 1); // ended one by one
  const double issued = real(s.threads) * (taps + 80 + (s.rows + reach - 1) * load + s.rows * cells);
  const double summing = issued / (128.0 * kHopperMultiprocessors * kHopperClocks *
                                   (n < 5    ? 0.55
                                    : n == 5 ? 0.46
                                             : 0.35));
  const double bytes = (l.output.type == POLYCONV_F32 ? 4 : 2) * real(sdk::elements(l.output)) +
                       (l.result.type == POLYCONV_F32 ? 4 : 2) * real(sdk::elements(l.result));
  const double moving = bytes / 3.4e6;
  return 3.5 + std::max(summing, moving) + 0.3 * std::min(summing, moving);
}

// Likewise to stage raw filters, which each block waits for. 10 layers.
double staging_us(const polyconv_layer &l, int channels) {
  return 0.3 + 0.1 * cells_us(l, channels);
}

// The filters of a request by so many channels, and channel by channel: raw for both or for none, and not where packing
// them costs less.
Filters filters_for(const polyconv_request &request, int channels) {
  const polyconv_layer &l = *request.layers[0];
  const Filters filters = filters_of(request);
  if (filters.in_place) return filters;
  if (staging_us(l, channels) >= kPackingUs) return {};
  for (const int each : {channels, 1})
    if (make_cells(l, each, filters).filters.raw == 0) return {};
  return filters;
}

// ---------------------------------------------------------------- supports

struct Ways {
  const polyconv_layer &l;

  bool serves(int i, sdk::Offer *offer) const {
    const int channels = kChannels[i];
    if (channels > 1 && !(bare(l) && l.result.type == l.output.type && in_vectors(l.result, channels) &&
                          in_vectors(l.output, channels)))
      return offer != nullptr &&
             offer->reject("loads and stores %d channels at once, and they do not lie so or end otherwise", channels);
    return launch_for(l, channels) != nullptr ||
           (offer != nullptr && offer->reject("has no code for %s channels with this filter", kNames[i]));
  }
  double us(int i) const { return cells_us(l, kChannels[i]); }
};

bool takes_layer(const polyconv_layer &l, sdk::Offer &offer) {
  if (!takes_floats(l, l.output.type, offer) || !takes_2d(l, offer) || !takes_one_filter(l, offer)) return false;
  const int64_t n = l.weights.size[3];
  if (n != l.weights.size[4] || n < 2 || n == 6 || n > 7)
    return offer.reject("takes filters of 2x2, 3x3, 4x4, 5x5 and 7x7, not %lldx%lld", static_cast<long long>(n),
                        static_cast<long long>(l.weights.size[4]));
  if (l.stride[1] != 2 || l.stride[2] != 2 || l.dilation[1] != 1 || l.dilation[2] != 1)
    return offer.reject("takes a stride of 2 and no dilation");
  if (l.pad_mode > POLYCONV_PAD_CONSTANT) return offer.reject("folds no gradient of the padding back");
  if (!takes_no_empty({&l.output, &l.result}, offer)) return false;
  return takes_channels_last(has_neighbouring_channels(l.output) && has_neighbouring_channels(l.result), offer,
                             "loads neighbouring channels: wants channels last");
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_DATA, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_layer(l, offer) || !takes_no_pooling(l, offer) || !takes_int32(l, offer)) return false;
  if (make_cells(l, 1).threads > INT32_MAX - kCellThreads) return offer.reject("launches less than 2^31 threads");
  if (!offer_config(Ways{l}, kConfigCount, config, offer, kConfigCount - 1)) return false;
  const int channels = kChannels[offer.config];
  offer_filters(request, filters_for(request, channels), staging_us(l, channels), taps_format(l),
                sdk::elements(l.weights) * sdk::type_bytes(l.weights.type), offer);
  return true;
}

// ---------------------------------------------------------------- plan and run

class StridedLastData final : public CudaInstance {
 public:
  StridedLastData(const polyconv_request &request, int config) : CudaInstance(request), vector_(kChannels[config]) {
    const Filters filters = filters_for(request, vector_);
    for (const int channels : {vector_, 1})
      ways_[channels == 1 ? 1 : 0] = {launch_for(layer_, channels), make_cells(layer_, channels, filters)};
  }

 private:
  struct Way {
    CellsLaunch launch = nullptr;
    Cells cells = {};
  };

  void pack_on(const void *raw, void *packed, cudaStream_t stream) override { pack_taps(layer_, raw, packed, stream); }
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const int64_t bytes = vector_ * sdk::type_bytes(layer_.output.type);
    const Filters &filters = ways_[1].cells.filters;
    const void *const weights = weights_of(layer_, filters, a.weights[0]);
    const bool vectors = vector_ > 1 && aligned(a.output, bytes) && aligned(a.input, bytes) &&
                         (!filters.in_place || aligned(weights, bytes));
    const Way &way = ways_[vectors ? 0 : 1];
    way.launch(Conv<int32_t>(layer_, a), way.cells, a.output, weights, a.input, stream);
  }

  const int vector_;
  Way ways_[2]; // with vectors, and channel by channel
};

} // namespace

POLYCONV_DEFINE_KERNEL(strided_last_data, kNames, supports, instance_of<StridedLastData>);

} // namespace polyconv::cuda
