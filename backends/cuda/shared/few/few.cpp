// few.cpp - forward, f32, channels first, from few input channels or to few filters, at any stride, dilation and up to
// three dimensions. Every input meets all filters of a thread in registers, so that what finds it costs a fraction of
// its products; it comes by way of the first cache, where the taps and the other filters find it again. Configs are
// pixels x filters of a thread.
//
// Floor: one write of the result, or 2 N K P Q C R S at the FMA rate. A tap costs a warp of 4 x 16 sums 64 FMAs, and 16
// to 20 instructions that find four inputs and load them; 4 loads from shared memory have its weights.
// SPDX-License-Identifier: Apache-2.0
#include "few/few.hpp"

#include <cmath>

#include "common/host.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr const char *kNames[] = {"4x16", "8x2"};
constexpr int kConfigCount = sizeof kNames / sizeof *kNames;
static_assert(sizeof kFewShapes / sizeof *kFewShapes == kConfigCount, "every shape has a name");
constexpr int kFewInputs = 32, kFewFilters = 4;
constexpr int kResident = 4; // blocks that a multiprocessor runs at once

// The ways that filters are shared out: as many warps as have some, and as divide them without a rest.
Few few_of(const polyconv_layer &l, int32_t config) {
  Few s;
  s.axes = PlaceAxes(l), s.shape = kFewShapes[config];
  s.depth = small(l.weights.size[1] * sdk::taps(l));
  s.taps = small(ceil_div(s.depth, kFewTurn) * kFewTurn);
  const int32_t groups = small(ceil_div(l.weights.size[0], s.shape.filters));
  s.ways = std::min(groups, kFewWarps);
  while (s.ways > 1 && (groups % s.ways != 0 || s.shared_bytes() > kFewSharedBytes)) --s.ways;
  s.spots = kFewWarps / s.ways;
  s.turns_k = small(ceil_div(groups, s.ways));
  s.pixels = small(l.output.size[0] * sdk::spatial(l.output));
  s.tiles = small(ceil_div(s.pixels, int64_t{s.spots} * s.shape.pixels * 32));
  const int32_t most = std::max(kHopperMultiprocessors * kResident / s.turns_k, 1);
  s.blocks = small(ceil_div(s.tiles, ceil_div(s.tiles, most)));
  s.plain = bias_and_relu_at_most(l) ? 1 : 0;
  s.by_image = Divider::make(small(sdk::spatial(l.output)));
  s.by_plane = Divider::make(small(l.output.size[3])), s.by_line = Divider::make(small(l.output.size[4]));
  return s;
}

// Microseconds: a block's taps and weights, then tiles one after the other, whose warps share the schedulers. Where a
// row of taps begins, inputs come from the second cache, and nothing but other warps hides that. Beside it the bytes,
// in sectors of 32 where columns are no neighbours. Fitted to 43 layers on an H200 in tiles of 4 x 16: 8 % off on
// average.
double few_us(const polyconv_layer &l, const Few &s) {
  const double blocks = real(s.blocks) * s.turns_k;
  const double together = std::min(std::ceil(blocks / kHopperMultiprocessors), real(kResident));
  const double waves = std::ceil(blocks / (kHopperMultiprocessors * together));
  const double step = real(std::clamp<int64_t>(std::abs(l.input.stride[4] * l.stride[2]), 1, 8));
  const double pixels = s.shape.pixels, sums = pixels * s.shape.filters;
  const double warps = together * s.ways * s.spots, of_scheduler = warps / 4;
  const double tap = std::max({of_scheduler * (1 + 4 * pixels + sums * 17 / 16), warps * pixels * (1 + step), 140.0});
  const double row = of_scheduler * 15 * pixels * (1 + step) / 2, rows = real(s.depth) / real(l.weights.size[4]);
  const double tile = of_scheduler * (60 * pixels + 9 * sums);
  const double begin = 1160 + together * 12 * s.taps * s.filters() / s.threads();
  const double alone = l.output.size[2] == 1 && l.output.size[3] == 1 ? 1.1 : 1; // no other rows share the first cache
  const double tiles = real(ceil_div(s.tiles, s.blocks)) * (tile + s.taps * tap + rows * row) * alone;
  const double summing = waves * (begin + tiles) / kHopperFmaClocks;
  const auto moved = [](const polyconv_tensor &t) {
    const int64_t apart = t.size[4] == 1 ? 1 : std::clamp<int64_t>(std::abs(t.stride[4]), 1, 8);
    return 4 * real(sdk::elements(t)) * real(apart);
  };
  const double moving = (moved(l.input) + moved(l.result)) / 4.5e6;
  const double finishing = s.plain ? 0 : real(sdk::elements(l.output)) / 100e3;
  return 1.5 + std::max(summing, moving) + 0.4 * std::min(summing, moving) + finishing;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const bool f32 = l.input.type == POLYCONV_F32 && l.weights.type == POLYCONV_F32 && l.result.type == POLYCONV_F32;
  if (!f32 || l.sum_type != POLYCONV_F32) return offer.reject("takes f32");
  if (!takes_one_group(l, offer) || !takes_no_pooling(l, offer, kPoolsNoTiles)) return false;
  if (!takes_zeros(pads_zeros(l), offer) || !takes_int32(l, offer)) return false;
  if (!takes_no_empty({&l.input, &l.output, &l.weights}, offer)) return false;
  // With more of both a matrix product is faster: inputs of another channel are in no cache.
  if (l.weights.size[1] > kFewInputs && l.weights.size[0] > kFewFilters)
    return offer.reject("takes up to %d input channels, or up to %d filters", kFewInputs, kFewFilters);
  if (!has_places(l)) return offer.reject("takes up to %d taps along each axis, added, where it pads", kMostPlaces);
  if (real(l.output.size[0]) * real(sdk::spatial(l.output)) > 1 << 30 || l.weights.size[0] > 1 << 20)
    return offer.reject("takes up to 2^30 pixels and 2^20 filters");
  const double depth = real(l.weights.size[1]) * real(sdk::taps(l));
  const auto us = [&](int32_t c) {
    if (depth * 4 > kFewSharedBytes) return 0.0;
    const Few s = few_of(l, c);
    return s.shared_bytes() <= kFewSharedBytes && s.turns_k < 1 << 16 ? few_us(l, s) : 0;
  };
  return offer_cheapest(kConfigCount, config, offer, us) ||
         offer.reject("holds all channels and taps of a thread's filters in %d bytes of shared memory",
                      static_cast<int>(kFewSharedBytes));
}

class FewChannels final : public CudaInstance {
 public:
  FewChannels(const polyconv_request &request, int32_t config) : CudaInstance(request), few_(few_of(layer_, config)) {}

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    launch_few(Conv<int32_t>(layer_, a), few_, static_cast<const float *>(a.input),
               static_cast<const float *>(a.weights[0]), static_cast<float *>(a.output), stream);
  }

  const Few few_;
};

} // namespace

POLYCONV_DEFINE_KERNEL(few, kNames, supports, instance_of<FewChannels>);

} // namespace polyconv::cuda
