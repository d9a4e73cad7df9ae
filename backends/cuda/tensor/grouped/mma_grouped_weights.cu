// mma_grouped_weights.cu - the gradient of weights of groups of few channels, f16 and bf16, channels last, with
// mma.sync: any window, stride, dilation and number of dimensions (grouped/weights.hpp). Configs are the channels of a
// block's slice and its warps.
//
// Floor: one read of x and dy, or what shared memory gives (grouped/weights.cuh).
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/implicit.hpp"
#include "common/kernel.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/types.hpp"
#include "grouped/weights.hpp"
#include "weights/slabs.hpp"

namespace polyconv::cuda {
namespace {

using namespace tensor;

constexpr const char *kNames[] = {"16x8", "32x8", "64x8", "128x8", "16x16", "32x16", "64x16", "128x16"};
static_assert(sizeof kNames / sizeof *kNames == kGroupedBlockCount, "every config has a name");

// ---------------------------------------------------------------- supports

bool takes_groups(const polyconv_layer &l, sdk::Offer &offer) {
  const int64_t channels = l.weights.size[1], filters = l.groups > 0 ? l.weights.size[0] / l.groups : 0;
  if (l.groups == 1) return offer.reject("takes groups, and this layer has one");
  if (channels == 1 && filters == 1) return offer.reject("takes no depthwise layer of one filter a channel");
  const int64_t unit = std::max(channels, filters) <= kMostUnit ? grouped_unit(l) : 1;
  if (unit * channels > kMostUnit || unit * filters > kMostUnit)
    return offer.reject("takes groups that make up to %d channels and filters in whole eights, not %" PRId64
                        " groups of %" PRId64 " and %" PRId64,
                        kMostUnit, unit, channels, filters);
  if (sdk::taps(l) * ceil_div(unit * channels, 8) > kMostChunks)
    return offer.reject("takes windows of up to %" PRId64 " taps of eight channels", kMostChunks);
  return true;
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (!is_half(type) || l.output.type != type) return offer.reject("takes f16 and bf16, the same for input and output");
  if (l.result.type != type && l.result.type != POLYCONV_F32)
    return offer.reject("stores the gradient as f32, or in the type of the input");
  if (!takes_no_empty({&l.input, &l.output}, offer) || !takes_groups(l, offer)) return false;
  if (!takes_channels_last(has_neighbouring_channels(l.input) && has_neighbouring_channels(l.output), offer))
    return false;
  if (!takes_zeros(pads_zeros(l), offer)) return false;
  return fits_implicit_both(l, l.output, offer);
}

// Microseconds in a config, 0 where no patch fits.
double estimate(const polyconv_layer &l, int32_t config) {
  const GroupedWeights p = make_grouped_weights(l, kGroupedBlocks[config]);
  return p.splits == 0 ? 0 : grouped_weights_us(l, p) + bias_gradient_us(l);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!offer_cheapest(kGroupedBlockCount, config, offer, [&](int32_t c) { return estimate(l, c); }))
    return offer.reject("holds no 16 pixels and their windows in the shared memory of a block");
  const GroupedWeights p = make_grouped_weights(l, kGroupedBlocks[offer.config]);
  if (!(real(p.tiles()) * std::max(p.splits, p.part_warps() * p.matrices()) < 1 << 30))
    return offer.reject("takes less than 2^30 tiles of weights");
  offer.workspace_bytes = grouped_pieces_bytes(p) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class MmaGroupedWeights final : public SlabWeights<GroupedWeights, GroupedLauncher, grouped_pieces_bytes> {
 public:
  MmaGroupedWeights(const polyconv_request &request, int config)
      : MmaGroupedWeights(request, make_grouped_weights(*request.layers[0], kGroupedBlocks[config])) {}

 private:
  MmaGroupedWeights(const polyconv_request &request, const GroupedWeights &product)
      : SlabWeights(request, product, of_half(request.layers[0]->input.type, [&](auto t) {
                      return grouped_launcher_of<decltype(t)>(grouped_warp_shape(product));
                    })) {}
};

} // namespace

POLYCONV_DEFINE_KERNEL(mma_grouped_weights, kNames, supports, instance_of<MmaGroupedWeights>, 0,
                       POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cuda
