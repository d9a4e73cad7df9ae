// depthwise_last_weights.cpp - the gradient of weights of depthwise layers of any window, stride, dilation and number
// of dimensions, channels last; f32, f16 and bf16 (last.hpp). Configs: "columns" keeps lines of 3, 5 or 7 neighbouring
// taps in registers and goes down the image, as often as a wider window wants it; "taps" goes tap by tap.
//
// Floor: one read of x and dy.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/patches.hpp"
#include "common/sums/bias_gradient.hpp"
#include "weights/depthwise_host.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr const char *kNames[] = {"columns", "taps"};
constexpr int kConfigCount = sizeof kNames / sizeof *kNames;

// ---------------------------------------------------------------- how a layer is cut

// The place in kLastColumns of the window, -1 where it has none.
int columns_of(const polyconv_layer &l) {
  const int64_t taps = l.weights.size[4];
  const auto cost = [&](const LastColumns &c) { return ceil_div(taps, c.taps) * (c.taps + 2); }; // loads are shared
  int best = -1;
  for (int i = 0; i < kLastColumnsCount && taps > 1; ++i) {
    const LastColumns &c = kLastColumns[i];
    if (steps_by(l, 1, c.stride) && steps_by(l, 2, c.stride) && (best < 0 || cost(c) < cost(kLastColumns[best])))
      best = i;
  }
  return best;
}

// Whether pairs of channels are words, were the pointer aligned to them.
bool in_pairs(const polyconv_tensor &t) {
  return t.size[1] % 2 == 0 && t.offset % 2 == 0 && slab_width(t, 0) >= 2 * sdk::type_bytes(t.type);
}

// Lanes side by side along the channels: few without one, and whole lines of memory, which blocks of other channels
// would else ask for again.
int32_t lanes_of(int64_t channels) {
  const auto cost = [&](int32_t lanes) {
    return real(ceil_div(channels, 2 * lanes)) * lanes * (lanes == 32 ? 1 : lanes == 16 ? 1.2 : 1.5);
  };
  int32_t best = 32;
  for (const int32_t lanes : {16, 8})
    if (cost(lanes) < cost(best)) best = lanes;
  return best;
}

// Turns of a launch's blocks.
int32_t turns_of(int columns, const LastSums &p) {
  return small(columns < 0 ? ceil_div(p.all_taps(), kTurnTaps)
                           : p.taps[0] * ceil_div(p.taps[1], kLastColumns[columns].lines) *
                                 ceil_div(p.taps[2], kLastColumns[columns].taps));
}

// Blocks that a multiprocessor runs at once.
int blocks_together(const polyconv_layer &l, int columns) {
  const auto bytes = static_cast<int>(sdk::type_bytes(l.input.type));
  return columns < 0 ? kTapBlocks : LastRegisters{kLastColumns[columns], bytes}.blocks();
}

// Units and splits are the same for every config, and so is the order of each sum: as many blocks as run at once
// (`together` on a multiprocessor), since a few more take as long as twice as many. Bands are as high as leaves every
// group of lanes some units, for the lines above a band are loaded once more.
void set_splits(int64_t images, int64_t turns, int64_t together, LastSums *p) {
  constexpr int64_t kUnits = 3, kShortBand = 4, kLongBand = 8; // of a group; rows
  const int64_t groups = kLastThreads / p->lanes;
  const int64_t blocks =
      std::max<int64_t>(1, int64_t{kHopperMultiprocessors} * together / (int64_t{p->slices} * turns));
  p->strips = small(ceil_div(p->out[2], kStrip));
  const int64_t columns = images * p->out[0] * p->strips, wanted = ceil_div(kUnits * groups * blocks, columns);
  const bool is_small = 2 * columns * ceil_div(p->out[1], kLongBand) <= groups * blocks; // one unit each, or none
  const int64_t least_band = is_small ? kShortBand : kLongBand;
  p->band = small(std::min<int64_t>(p->out[1], std::max(least_band, ceil_div(p->out[1], wanted))));
  p->bands = small(ceil_div(p->out[1], p->band));
  p->units = small(columns * p->bands);
  const int64_t least = ceil_div(images * p->out[0] * p->out[1] * p->out[2], groups * kLongestSum);
  const int64_t each = ceil_div(p->units, groups * std::max(blocks, least)); // of a group: all have as many
  p->splits = small(std::max<int64_t>(ceil_div(p->units, groups * std::max<int64_t>(each, 1)), 1));
}

LastSums make_sums(const polyconv_layer &l, int columns) {
  LastSums p = sums_of(l);
  p.lanes = lanes_of(p.channels);
  p.slices = small(ceil_div(p.channels, 2 * p.lanes));
  p.pairs = in_pairs(l.input) && in_pairs(l.output) ? 1 : 0;
  const int best = columns_of(l);
  set_splits(l.output.size[0], turns_of(best, p), blocks_together(l, best), &p);
  p.turns = turns_of(columns, p);
  return p;
}

// ---------------------------------------------------------------- supports

// Microseconds: what lanes issue, or the bytes, and the sum over splits.
double sums_us(const polyconv_layer &l, const LastSums &p, int columns) {
  const bool wide = l.input.type == POLYCONV_F32;
  const double load = wide ? 3 : 5; // with its conversions and the question whether it is padding
  double unit = 150;                // instructions of a lane
  if (columns < 0) {
    const double strip = kStrip * (kTurnTaps * (2 + load + 4) + load + 4) * 1.5; // what loads wait for
    unit += p.band * strip;
  } else {
    const LastColumns &c = kLastColumns[columns];
    const LastRegisters holds = {c, wide ? 4 : 2};
    const int inputs = holds.inputs(), rows = holds.rows();
    const double row = holds.phases() * (inputs * load + 6) + kStrip * load + 12;
    unit += (p.band + rows - 1) * row + real(p.band) * c.lines * kStrip * c.taps * 2;
    unit *= c.taps == 3 ? 0.92 : c.taps == 5 ? 1.31 : 1.08; // 34 layers on an H200
    if (p.lanes < 32) unit *= wide ? 1.6 : 1.3;             // groups of lanes go different ways (10 layers)
  }
  const double issued = real(p.units) * p.turns * p.slices * p.lanes * unit;
  const int together = blocks_together(l, columns);
  const double lanes = std::min(1.0, real(p.splits) * p.turns * p.slices / (1.0 * together * kHopperMultiprocessors));
  const double summing = issued / (128.0 * kHopperMultiprocessors * kHopperClocks * 0.5 * lanes);
  const double bytes = (wide ? 4 : 2) * (real(sdk::elements(l.input)) + real(sdk::elements(l.output)));
  const double moving = bytes / 3.6e6;
  const double adding = 1.5 + real(pieces_bytes(p)) / 1.5e6 + p.splits * 0.01;
  return 1.4 + std::max(summing, moving) + 0.3 * std::min(summing, moving) + adding;
}

// 0 where the config does not serve.
double estimate(const polyconv_layer &l, int32_t config) {
  const int columns = config == 0 ? columns_of(l) : -1;
  if (config == 0 && columns < 0) return 0;
  const LastSums p = make_sums(l, columns);
  if (config == 0 && !p.pairs) return 0;
  return sums_us(l, p, columns) + bias_gradient_us(l);
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!takes_depthwise_gradient(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  return takes_channels_last(has_neighbouring_channels(l.input) && has_neighbouring_channels(l.output), offer);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!offer_cheapest(kConfigCount, config, offer, [&](int32_t c) { return estimate(l, c); }))
    return offer.reject(
        "has no instance for these columns: two taps across and more, at stride 1 or 2 both ways, without dilation, "
        "and even channels");
  const LastSums p = make_sums(l, offer.config == 0 ? columns_of(l) : -1);
  if (!(real(p.splits) * p.turns * p.slices < 1 << 30)) return offer.reject("takes less than 2^30 pieces");
  offer.workspace_bytes = pieces_bytes(p) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class DepthwiseLastWeights final : public CudaInstance {
 public:
  DepthwiseLastWeights(const polyconv_request &request, int config)
      : CudaInstance(request), columns_(config == 0 ? columns_of(layer_) : -1), sums_(make_sums(layer_, columns_)) {}

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const int bytes = layer_.input.type == POLYCONV_F32 ? 4 : 2;
    LastSums p = sums_;
    set_pointers(layer_, a, &p);
    p.early = early_;
    int columns = columns_;
    if (p.pairs && (!aligned(p.x, 2 * bytes) || !aligned(p.dy, 2 * bytes))) p.pairs = 0, columns = -1;
    p.turns = turns_of(columns, p); // the same sums in the same order, tap by tap
    launcher(columns)(p, stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + pieces_bytes(p), stream);
  }

  LastLauncher launcher(int columns) const {
    return of_type(layer_.input.type, [&](auto t) { return last_launcher<decltype(t)>(columns); });
  }

  const int columns_;
  const LastSums sums_;
  const int32_t early_ = begins_early(device_) ? 1 : 0;
};

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise_last_weights, kNames, supports, instance_of<DepthwiseLastWeights>, 0,
                       POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cuda
