// windows_data.cpp - the gradient of the input of layers of few input channels at strides 1 and 2, f32, channels first.
// A block holds the planes of the output's gradient for some filters in shared memory, with zeros around them, and the
// filters. A thread computes the inputs at some places of one channel (windows.hpp) and keeps their sums while the
// filters follow each other: all residues of the strides read the same window, and every row is written once.
//
// Floor: max(2 N K P Q C n^2 / FMA rate, one read of the output's gradient and one write of the input's / copy rate).
// A thread of 8 x 4 inputs takes 21 loads of 8 bytes for the window and 13 of 16 for a filter of 7 x 7, for 392
// products.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "windows/ends.hpp"
#include "windows/windows.hpp"

#include <cinttypes>
#include <cmath>

namespace polyconv::cuda {
namespace {

using namespace shared;

// As much shared memory a thread as there is where registers fill a multiprocessor.
constexpr int64_t kThreadBytes = 384;
constexpr int64_t kMostFilters = 16; // staged together

struct WindowsConfig {
  bool tall;
  int32_t threads, teams;
};
constexpr WindowsConfig kConfigs[] = {{false, 128, 1}, {false, 256, 1}, {true, 128, 1}, {true, 256, 1}, {true, 128, 4}};
constexpr const char *kNames[] = {"short_t128", "short_t256", "tall_t128", "tall_t256", "tall_t128_x4"};
constexpr int kConfigCount = sizeof kConfigs / sizeof *kConfigs;

WindowsInstance instance_for(const polyconv_layer &l, bool tall) {
  switch (l.weights.size[3]) {
    case 3: return find_windows<3>(l.stride[1], tall);
    case 4: return find_windows<4>(l.stride[1], tall);
    case 5: return find_windows<5>(l.stride[1], tall);
    default: return find_windows<7>(l.stride[1], tall);
  }
}

// ---------------------------------------------------------------- a block

// What an axis of the result takes: first place, and all places.
struct Places {
  int64_t first, count;
};
Places places_of(const polyconv_layer &l, int axis) {
  const int64_t pad = l.pad_begin[axis], first = pad / l.stride[axis];
  return {first, (l.result.size[2 + axis] - 1 + pad) / l.stride[axis] - first + 1};
}

// The rest from down, across, images and channels; false where such a block does not fit.
bool complete(const polyconv_layer &l, const WindowsConfig &config, int64_t budget, Windows &s) {
  const int step = small(l.stride[1]), taps = small(l.weights.size[3]), reach = reach_of(taps, step);
  const int wide = places_across(step), high = places_down(step, config.tall);
  s.rows = s.down * high + reach - 1;
  s.pitch = small(ceil_div((s.across - 1) * wide + window_across(taps, step), 4) * 4);
  s.plane = s.rows * s.pitch;
  s.team = small(ceil_div(int64_t{s.down} * s.across * s.images * s.channels, 32) * 32);
  s.teams = config.teams;
  s.sets = small(ceil_div(l.weights.size[1], s.channels));
  s.by_channels = Divider::make(s.channels);
  const int64_t filter_bytes = 4 * (int64_t{s.images} * s.plane + int64_t{s.channels} * padded_taps(taps));
  const int64_t sums = config.teams == 1 ? 0 : 16LL * step * high * s.team;
  const int64_t most = std::min<int64_t>(s.filters, kMostFilters);
  s.buffers = s.filters <= most && most * filter_bytes <= budget ? 1 : 2;
  int64_t chunk = s.buffers == 1 ? most : std::min(most, budget / 2 / filter_bytes);
  if (s.buffers == 2 && chunk > config.teams) chunk -= chunk % config.teams;
  if (chunk < 1 || sums > budget) return false;
  s.chunk = small(chunk), s.buffer = small(chunk * filter_bytes / 4);
  s.shared_bytes = small(std::max(int64_t{s.buffers} * s.buffer * 4, sums));
  s.blocks = ceil_div(l.result.size[0], s.images) * l.groups * s.sets * s.tiles_h * s.tiles_w;
  return true;
}

// As wide as the image or a warp, then as high, then as many channels, then images, as there are threads for; fewer
// where shared memory is too small.
bool make_windows(const polyconv_layer &l, const WindowsConfig &config, Windows &s, int64_t lent = INT64_MAX) {
  const int64_t budget = std::min(kThreadBytes * config.threads, lent);
  const int step = small(l.stride[1]);
  const Places down = places_of(l, 1), across = places_of(l, 2);
  const int64_t high = ceil_div(down.count, places_down(step, config.tall));
  const int64_t wide = ceil_div(across.count, places_across(step)), room = config.threads / config.teams;
  const int64_t channels = l.weights.size[1], images = l.result.size[0];
  s = {};
  s.first_row = small(down.first), s.first_column = small(across.first);
  s.filters = small(l.weights.size[0] / l.groups);
  s.tiles_w = small(ceil_div(wide, 32)), s.across = small(ceil_div(wide, s.tiles_w));
  for (int64_t most = std::max<int64_t>(room / s.across, 1); most > 0; most /= 2) {
    s.tiles_h = small(ceil_div(high, most)), s.down = small(ceil_div(high, s.tiles_h));
    const int64_t left = std::max<int64_t>(room / (s.across * s.down), 1);
    for (int64_t sets = ceil_div(channels, std::min(channels, left)); sets <= channels; sets *= 2) {
      s.channels = small(ceil_div(channels, sets));
      const bool whole = s.tiles_h == 1 && s.tiles_w == 1 && sets == 1;
      for (int64_t n = whole ? std::clamp<int64_t>(left / channels, 1, images) : 1; n > 0; n /= 2) {
        s.images = small(n);
        if (complete(l, config, budget, s)) return true;
      }
    }
  }
  return false;
}

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_DATA, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.output.type != POLYCONV_F32 || l.weights.type != POLYCONV_F32 || l.sum_type != POLYCONV_F32)
    return offer.reject("takes f32, summed in f32");
  if (!takes_2d(l, offer)) return false;
  if (!takes_no_pooling(l, offer)) return false;
  if (!takes_odd_squares(l, true, offer)) return false;
  if (!takes_stride_2(l, offer)) return false;
  if (l.pad_mode > POLYCONV_PAD_CONSTANT) return offer.reject("folds no gradient of the padding back");
  if (l.weights.size[1] > 64)
    return offer.reject("takes groups of up to 64 input channels, not %" PRId64, l.weights.size[1]);
  if (!takes_channels_first(has_neighbouring_columns(l.output) && has_neighbouring_columns(l.result), offer,
                            "works on rows: wants columns to be neighbours"))
    return false;
  if (!takes_int32(l, offer)) return false;
  return takes_no_empty({&l.result}, offer);
}

// Of the results that are stored at once, and of the gradient that are copied at once.
int32_t stored_at_once(const polyconv_layer &l) {
  return bare(l) && l.result.type == POLYCONV_F32 ? side_by_side(l.result, l.pad_begin[2] % l.stride[2]) : 0;
}
int32_t copied_at_once(const polyconv_layer &l, const Windows &s) {
  const int taps = small(l.weights.size[3]), step = small(l.stride[1]);
  int32_t width = side_by_side(l.output, s.first_column - reach_of(taps, step) + 1 - window_shift(taps, step));
  while (l.output.size[4] % width != 0 || (s.tiles_w > 1 && s.across * places_across(step) % width != 0)) width /= 2;
  return width;
}

// Fitted to an H200: a warp's issue slots for products, for what it copies and stores, and for each chunk, where enough
// warps share a multiprocessor; or the compulsory bytes. Within 17 % of 23 layers in all configs.
double estimate(const polyconv_layer &l, const Windows &s, const WindowsConfig &config) {
  const double taps = real(sdk::taps(l)), step = real(l.stride[1]), threads = s.threads();
  const double inputs = 4 * step * places_down(small(l.stride[1]), config.tall);
  const double products = s.filters / real(config.teams) * inputs * taps / (step * step);
  const double staged = real(s.images) * real(std::min<int64_t>(s.rows, l.output.size[3])) *
                        real(std::min<int64_t>(s.pitch, l.output.size[4]));
  const double copies = s.filters * staged / threads / copied_at_once(l, s);
  const double stores = inputs / std::max(stored_at_once(l), 1);
  const double slots = 1.06 * products + 27 * copies + 74 * stores + 190 * real(ceil_div(s.filters, s.chunk));
  const int registers = inputs >= 28 || (taps == 49 && inputs >= 24) ? 128 : 96;
  const double blocks = real(s.blocks);
  const double fit = std::min({65536 / (registers * s.threads()), kHopperShared / (s.shared_bytes + 1024), 32});
  const double resident = std::clamp(fit, 1.0, std::ceil(blocks / kHopperMultiprocessors));
  const double busy = std::min(1.0, resident * threads / 32 / 6),
               tail = 1 + 0.51 * kHopperMultiprocessors * resident / blocks;
  const double bytes = 4 * real(sdk::elements(l.output) + sdk::elements(l.result));
  return 6 + std::max(blocks * threads / 32 * slots / (kHopperMultiprocessors * 4 * kHopperFmaClocks * busy) * tail,
                      bytes / 3e6);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const auto us = [&](int32_t i) {
    Windows s;
    return make_windows(l, kConfigs[i], s) && s.blocks <= INT32_MAX ? estimate(l, s, kConfigs[i]) : 0;
  };
  return offer_cheapest(kConfigCount, config, offer, us) || offer.reject("launches less than 2^31 blocks");
}

// ---------------------------------------------------------------- plan and run

class WindowsData final : public CudaInstance {
 public:
  WindowsData(const polyconv_request &request, const WindowsConfig &config)
      : CudaInstance(request), instance_(instance_for(layer_, config.tall)) {
    const int64_t lent = block_shared_bytes(device_);
    if (!make_windows(layer_, config, windows_, lent))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-shared/windows_data: no block for a problem that was accepted");
    const DeviceScope scope(device_);
    instance_.prepare(static_cast<int32_t>(std::min(kThreadBytes * kWindowThreads, lent)));
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    Windows s = windows_;
    s.vectors = aligned_width(stored_at_once(layer_), a.input, sizeof(float));
    s.copies = aligned_width(copied_at_once(layer_, s), a.output, sizeof(float));
    instance_.launch(Conv<int32_t>(layer_, a), s, static_cast<const float *>(a.output),
                     static_cast<const float *>(a.weights[0]), a.input, stream);
  }

  const WindowsInstance instance_;
  Windows windows_ = {};
};

} // namespace

// Which team sums a filter depends on the chunk that fits beside so many images, and so on the batch.
POLYCONV_DEFINE_KERNEL(windows_data, kNames, supports, instance_of<WindowsData, kConfigs>, POLYCONV_KERNEL_VARIANT);

} // namespace polyconv::cuda
