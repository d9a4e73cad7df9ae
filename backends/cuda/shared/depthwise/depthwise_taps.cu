// depthwise_taps.cu - depthwise layers of any window, stride, dilation, number of channels and of dimensions, channels
// last, tap by tap from the caches (taps.cuh): what has a window too far apart for a patch in shared memory, or
// channels that are no whole vectors of 16 bytes. Configs are the channels of a thread.
//
// Floor: one read and one write of every element; then what lanes issue for each tap that is not padding.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/kernel.hpp"
#include "common/machine.hpp"
#include "depthwise/channels.cuh"
#include "depthwise/taps.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr int kChannels[] = {8, 4, 2, 1};
constexpr const char *kNames[] = {"8", "4", "2", "1"};
constexpr int kConfigCount = sizeof kNames / sizeof *kNames;

TapsLaunch launch_for(const polyconv_layer &l, int channels, bool plain) {
  const auto find = l.input.type == POLYCONV_F32   ? find_taps_f32
                    : l.input.type == POLYCONV_F16 ? find_taps_f16
                                                   : find_taps_bf16;
  return find(channels, plain);
}

// A bias and bounds at most between sum and result, of the input's type, of which so many channels are vectors.
bool is_plain(const polyconv_layer &l, int channels) {
  const int32_t a = l.epilogue.activation;
  polyconv_layer without = l;
  without.epilogue.activation = POLYCONV_ACT_NONE;
  return (a == POLYCONV_ACT_NONE || a == POLYCONV_ACT_RELU || a == POLYCONV_ACT_CLIPPED_RELU) &&
         bias_and_relu_at_most(without) && l.result.type == l.input.type && in_vectors(l.result, channels);
}

DepthwiseTaps make_taps(const polyconv_layer &l, int channels) {
  DepthwiseTaps s;
  const int64_t chunks = l.output.size[1] / channels, strips = ceil_div(l.output.size[4], kTapColumns);
  const int64_t threads = l.output.size[0] * l.output.size[2] * l.output.size[3] * strips * chunks;
  s.threads = small(std::min<int64_t>(threads, INT32_MAX));
  s.chunks = Divider::make(small(chunks)), s.strips = Divider::make(small(strips));
  s.rows = Divider::make(small(l.output.size[3])), s.planes = Divider::make(small(l.output.size[2]));
  const polyconv_epilogue &e = l.epilogue;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  s.low = e.activation == POLYCONV_ACT_NONE ? -kInfinity : 0;
  s.high = e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.activation_alpha : kInfinity;
  return s;
}

// ---------------------------------------------------------------- supports

// Taps of an axis that an output reads on average, of `together` neighbours at a time: those in the padding are left
// out.
double taps_read(const polyconv_layer &l, int axis, int64_t together) {
  const int64_t outputs = l.output.size[2 + axis], size = l.input.size[2 + axis], step = l.stride[axis];
  double read = 0;
  for (int64_t tap = 0; tap < l.weights.size[2 + axis]; ++tap) {
    const int64_t base = tap * l.dilation[axis] - l.pad_begin[axis];
    // Outputs o with base + o * step in the image, rounded to whole sets of neighbours.
    const int64_t first = base >= 0 ? 0 : ceil_div(-base, step), end = size > base ? ceil_div(size - base, step) : 0;
    const int64_t begins = std::min(first, outputs) / together * together;
    const int64_t ends = std::min(ceil_div(std::min(end, outputs), together) * together, outputs);
    read += static_cast<double>(std::max<int64_t>(ends - begins, 0));
  }
  return read / static_cast<double>(outputs);
}

// Microseconds: the bytes, or what comes from the second cache, or what lanes issue. Not yet fitted.
double taps_us(const polyconv_layer &l, int channels) {
  const DepthwiseTaps s = make_taps(l, channels);
  const double depth = taps_read(l, 0, 1), rows = taps_read(l, 1, 1), columns = taps_read(l, 2, kTapColumns);
  const bool half = l.input.type != POLYCONV_F32;
  const double convert = half ? 1 : 0;
  const double tap = 24 + kTapColumns * (6 + channels * (1 + convert)) + channels * convert;
  const double ending =
      is_plain(l, channels) ? 40 + kTapColumns * (4.0 + channels * 4) : kTapColumns * channels * 200.0;
  const double thread = 90 + depth * (10 + rows * (20 + columns * tap)) + ending;
  const double summing = real(s.threads) * thread / (128.0 * kHopperMultiprocessors * kHopperClocks * 0.55);
  const double bytes = half ? 2 : 4, outputs = real(sdk::elements(l.output));
  const double moving =
      (bytes * real(sdk::elements(l.input)) + (l.result.type == POLYCONV_F32 ? 4 : 2) * outputs) / 3.4e6;
  // Neighbouring columns share what they read in the first cache, rows in the second.
  const double far = l.dilation[2] == 1 ? std::min<double>(columns, real(l.stride[2])) : columns;
  const double cached = bytes * outputs * depth * rows * far / 5e6;
  return 3.5 + std::max({summing, moving, cached}) + 0.3 * std::min(summing, std::max(moving, cached));
}

struct Ways {
  const polyconv_layer &l;

  bool serves(int i, sdk::Offer *offer) const {
    if (launch_for(l, kChannels[i], true) == nullptr)
      return offer != nullptr && offer->reject("loads 16 bytes at most, not %s channels of f32", kNames[i]);
    return in_vectors(l.input, kChannels[i]) ||
           (offer != nullptr && offer->reject("loads %d channels at once, and they do not lie so", kChannels[i]));
  }
  double us(int i) const { return taps_us(l, kChannels[i]); }
};

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_no_pooling(l, offer)) return false;
  if (!takes_floats(l, l.input.type, offer) || !takes_one_filter(l, offer)) return false;
  if (!takes_no_empty({&l.input, &l.result}, offer)) return false;
  if (!takes_zeros(pads_zeros(l), offer)) return false;
  if (!takes_channels_last(has_neighbouring_channels(l.input), offer,
                           "loads neighbouring channels: wants channels last"))
    return false;
  if (!takes_int32(l, offer)) return false;
  if (sdk::taps(l) > 1 << 20) return offer.reject("takes windows of up to 2^20 taps");
  return make_taps(l, 1).threads <= INT32_MAX - kTapThreads || offer.reject("launches less than 2^31 threads");
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!offer_config(Ways{l}, kConfigCount, config, offer, kConfigCount - 1)) return false;
  offer.set_weights(0, taps_format(l), sdk::elements(l.weights) * sdk::type_bytes(l.weights.type));
  return true;
}

// ---------------------------------------------------------------- plan and run

class TapByTap final : public CudaInstance {
 public:
  TapByTap(const polyconv_request &request, int config) : CudaInstance(request), vector_(kChannels[config]) {
    for (const int way : {0, 1}) {
      const int channels = way == 0 ? vector_ : 1;
      ways_[way] = {launch_for(layer_, channels, is_plain(layer_, channels)), make_taps(layer_, channels)};
    }
  }

 private:
  struct Way {
    TapsLaunch launch = nullptr;
    DepthwiseTaps taps = {};
  };

  void pack_on(const void *raw, void *packed, cudaStream_t stream) override { pack_taps(layer_, raw, packed, stream); }
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const int64_t bytes = vector_ * sdk::type_bytes(layer_.input.type);
    const bool vectors = aligned(a.input, bytes) && (!is_plain(layer_, vector_) || aligned(a.output, bytes));
    const Way &way = ways_[vectors ? 0 : 1];
    way.launch(Conv<int32_t>(layer_, a), way.taps, a.input, a.weights[0], a.output, stream);
  }

  const int vector_;
  Way ways_[2]; // with vectors, and channel by channel
};

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise_taps, kNames, supports, instance_of<TapByTap>);

} // namespace polyconv::cuda
