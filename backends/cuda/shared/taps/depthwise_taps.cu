// depthwise_taps.cu - depthwise layers of any window, stride, dilation, number of channels and of dimensions, channels
// last, tap by tap from the caches (taps.cuh): what has a window too far apart for a patch in shared memory, or
// channels that are no whole vectors of 16 bytes. Configs are the channels of a thread.
//
// Floor: one read and one write of every element; then what lanes issue for each tap that is not padding.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "depthwise/filters.cuh"
#include "taps/taps.hpp"

namespace polyconv::cuda::shared {
namespace {

constexpr int kChannels[] = {8, 4, 2, 1};
constexpr int kConfigCount = sizeof kTapNames / sizeof *kTapNames;
static_assert(sizeof kChannels / sizeof *kChannels == kConfigCount, "every config has a name");

TapsLaunch launch_for(const polyconv_layer &l, int channels, TapsEnd end) {
  const int32_t type = source_of(l).type;
  const auto find = of_type(type, [](auto t) { return find_taps<decltype(t)>; });
  return find(channels, end);
}

// Of which so many channels are stored as vectors.
bool is_plain(const polyconv_layer &l, int channels) {
  return only_bounds(l) && in_vectors(l.result, channels);
}

DepthwiseTaps make_taps(const polyconv_layer &l, int channels, const Filters &filters = {}) {
  DepthwiseTaps s = {};
  for (int axis = 0; axis < 3; ++axis) s.axis[axis] = axis_of(l, axis);
  s.offset = small(source_of(l).offset), s.image = small(source_of(l).stride[0]);
  s.phases = s.axis[2].by;
  // Of 8 channels three taps are too few for what keeping takes in registers: 3 x 3 x 3 takes a sixth longer.
  s.close = close_taps(s.axis[2]) && (channels < 8 || s.axis[2].taps > 3);
  const int64_t(&size)[5] = l.result.size;
  const int64_t chunks = size[1] / channels, strips = ceil_div(size[4], int64_t{kTapColumns} * s.phases) * s.phases;
  const int64_t threads = size[0] * size[2] * size[3] * strips * chunks;
  s.threads = small(std::min<int64_t>(threads, INT32_MAX));
  const auto item = static_cast<int32_t>(sdk::type_bytes(l.weights.type));
  const int64_t lanes = lanes_by(filters, chunks, int64_t{channels} * item);
  s.lanes = Divider::make(small(lanes)), s.sets = Divider::make(small(chunks / lanes));
  s.strips = Divider::make(small(strips)), s.rows = Divider::make(small(size[3]));
  s.planes = Divider::make(small(size[2])), s.residues = Divider::make(s.phases);
  s.pitch = small(l.weights.size[0]), s.filters.in_place = filters.in_place;
  if (is_plain(l, channels)) { // an odd number of vectors from tap to tap: fewer words of the same bank
    s.filters = share_filters(filters, {chunks, lanes, strips * size[3], kTapThreads, channels}, item, channels * item);
    if (s.filters.raw != 0) s.pitch = (s.filters.staged | 1) * channels;
  }
  s.bounds = make_bounds(l);
  return s;
}

// ---------------------------------------------------------------- supports

// Microseconds: the bytes, or what comes from the second cache, or what lanes issue, or taps one after the other, of
// which each waits for its loads, or some together: so many clocks that 24 warps of a multiprocessor hide them. 36
// layers on an H200, and 26 whose words are kept for the next tap.
double taps_us(const polyconv_layer &l, int channels) {
  const DepthwiseTaps s = make_taps(l, channels);
  const double depth = taps_met(s.axis[0], l.result.size[2], 1), rows = taps_met(s.axis[1], l.result.size[3], 1);
  const double columns = taps_met(s.axis[2], l.result.size[4], kTapColumns);
  const bool half = source_of(l).type != POLYCONV_F32;
  const double convert = half ? 1 : 0;
  const double tap = s.close ? 26 + channels * (kTapColumns + 3 + 2 * convert)
                             : 24 + kTapColumns * (6 + channels * (1 + convert)) + channels * convert;
  const double ending =
      is_plain(l, channels) ? 40 + kTapColumns * (4.0 + channels * 4) : kTapColumns * channels * 200.0;
  const double thread = 90 + (s.phases > 1 ? 60 : 0) + depth * (10 + rows * (20 + columns * tap)) + ending;
  const double issuing = !s.close ? 0.55 : channels == 8 ? 0.38 : 0.5; // of the rate: as 9 x 9 has it, the slowest
  const double summing = real(s.threads) * thread / (128.0 * kHopperMultiprocessors * kHopperClocks * issuing);
  const double bytes = half ? 2 : 4, results = real(sdk::elements(l.result));
  const double met = part_met(s.axis[0]) * part_met(s.axis[1]) * part_met(s.axis[2]);
  const double moving =
      (bytes * met * real(sdk::elements(source_of(l))) + (l.result.type == POLYCONV_F32 ? 4 : 2) * results) / 4.1e6;
  // Neighbouring columns share what they read in the first cache, rows in the second.
  const double far = l.dilation[2] == 1 ? std::min<double>(columns, s.axis[2].scale) : columns;
  const double cached = bytes * results * depth * rows * far / 4.8e6;
  const double waves = std::ceil(real(s.threads) / (24.0 * 32 * kHopperMultiprocessors));
  const double turns = s.close ? std::ceil(columns / 3) : columns, turn = s.close ? 600 + 150 * channels : 1000;
  const double waiting = waves * depth * rows * turns * turn / kHopperClocks;
  const double working = std::max({summing, moving, cached}) + 0.3 * std::min(summing, std::max(moving, cached));
  return std::max(2 + working, 0.8 + waiting); // the first tap's wait is what every kernel begins with
}

struct Ways {
  const polyconv_layer &l;

  bool serves(int i, sdk::Offer *offer) const {
    if (launch_for(l, kChannels[i], TapsEnd::kAny) == nullptr)
      return offer != nullptr && offer->reject("loads 16 bytes at most, not %s channels of f32", kTapNames[i]);
    return in_vectors(source_of(l), kChannels[i]) ||
           (offer != nullptr && offer->reject("loads %d channels at once, and they do not lie so", kChannels[i]));
  }
  double us(int i) const { return taps_us(l, kChannels[i]); }
};

bool takes(int32_t direction, const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, direction, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_no_pooling(l, offer)) return false;
  if (!takes_floats(l, source_of(l).type, offer) || !takes_one_filter(l, offer)) return false;
  if (!takes_no_empty({&source_of(l), &l.result}, offer)) return false;
  if (direction == POLYCONV_FORWARD && !takes_zeros(pads_zeros(l), offer)) return false;
  if (direction != POLYCONV_FORWARD && l.pad_mode > POLYCONV_PAD_CONSTANT)
    return offer.reject("folds no gradient of the padding back");
  if (!takes_channels_last(has_neighbouring_channels(source_of(l)), offer,
                           "loads neighbouring channels: wants channels last"))
    return false;
  if (!takes_int32(l, offer)) return false;
  if (sdk::taps(l) > 1 << 16) return offer.reject("takes windows of up to 2^16 taps");
  return make_taps(l, 1).threads <= INT32_MAX - kTapThreads || offer.reject("launches less than 2^31 threads");
}

// Microseconds to stage raw filters: a thread waits for each four of its loads, and other blocks have nothing to do
// meanwhile but to wait likewise. 12 layers on an H200.
double staging_us(const DepthwiseTaps &s, int channels) {
  const double weights = real(s.filters.staged) * channels * s.filters.taps.by / kTapThreads; // of a thread
  const double waves = std::max(1.0, real(s.threads) / kTapThreads / (kHopperMultiprocessors * 7.0));
  return waves * (0.4 + 0.35 * std::ceil(weights / 4));
}

// The filters of a request by so many channels, and channel by channel: raw for both or for none, and not where packing
// them costs less.
Filters filters_for(const polyconv_request &request, int channels, double *us = nullptr) {
  const Filters filters = filters_of(request);
  if (filters.in_place) return filters;
  double staging = 0;
  for (const int each : {1, channels}) {
    const DepthwiseTaps s = make_taps(*request.layers[0], each, filters);
    if (s.filters.raw == 0) return {};
    staging = staging_us(s, each); // at last by `channels`
  }
  if (us != nullptr) *us = staging;
  return staging < kPackingUs ? filters : Filters{};
}

// ---------------------------------------------------------------- plan and run

class TapByTap final : public CudaInstance {
 public:
  TapByTap(const polyconv_request &request, int config) : CudaInstance(request), vector_(kChannels[config]) {
    const Filters filters = filters_for(request, vector_);
    for (const int way : {0, 1}) {
      const int channels = way == 0 ? vector_ : 1;
      const DepthwiseTaps taps = make_taps(layer_, channels, filters);
      const TapsEnd plain = taps.filters.raw != 0 ? TapsEnd::kPlainOfRaw : TapsEnd::kPlain;
      ways_[way] = {launch_for(layer_, channels, is_plain(layer_, channels) ? plain : TapsEnd::kAny), taps};
    }
  }

 private:
  struct Way {
    TapsLaunch launch = nullptr;
    DepthwiseTaps taps = {};
  };

  void pack_on(const void *raw, void *packed, cudaStream_t stream) override { pack_taps(layer_, raw, packed, stream); }
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const bool forward = layer_.direction == POLYCONV_FORWARD;
    const void *const source = forward ? a.input : a.output;
    void *const result = forward ? a.output : a.input;
    const int64_t bytes = vector_ * sdk::type_bytes(source_of(layer_).type);
    const Filters &filters = ways_[0].taps.filters;
    const void *const weights = weights_of(layer_, filters, a.weights[0]);
    const bool vectors = aligned(source, bytes) && (!filters.in_place || aligned(weights, bytes)) &&
                         (!is_plain(layer_, vector_) || aligned(result, bytes));
    const Way &way = ways_[vectors ? 0 : 1];
    way.launch(Conv<int32_t>(layer_, a), way.taps, source, weights, result, stream);
  }

  const int vector_;
  Way ways_[2]; // with vectors, and channel by channel
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return supports_taps(POLYCONV_FORWARD, request, config, offer);
}

} // namespace

bool supports_taps(int32_t direction, const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(direction, request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!offer_config(Ways{l}, kConfigCount, config, offer, kConfigCount - 1)) return false;
  double staging = 0;
  const Filters filters = filters_for(request, kChannels[offer.config], &staging);
  offer_filters(request, filters, staging, taps_format(l), sdk::elements(l.weights) * sdk::type_bytes(l.weights.type),
                offer);
  return true;
}

std::unique_ptr<sdk::Instance> create_taps(const polyconv_request &request, int32_t config) {
  return std::make_unique<TapByTap>(request, config);
}

} // namespace polyconv::cuda::shared

namespace polyconv::cuda {

POLYCONV_DEFINE_KERNEL(depthwise_taps, shared::kTapNames, shared::supports, shared::create_taps);

} // namespace polyconv::cuda
