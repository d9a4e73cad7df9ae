// mma_weights.cu - the gradient of weights, f16 and bf16, channels last, with mma.sync: of any number of channels,
// groups, taps and dimensions, depthwise layers too (weights/patch.hpp). Configs are slices, filters x channels: of so
// many channels each filter is multiplied with, of which those of its group count.
//
// Floor: one read of x and dy, or what shared memory gives (weights/patch_sum.cuh).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/implicit.hpp"
#include "common/kernel.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/sums/gradients.cuh"
#include "common/types.hpp"
#include "weights/patch.hpp"
#include "weights/slabs.hpp"

namespace polyconv::cuda {
namespace {

using namespace tensor;

constexpr const char *kNames[] = {"128x16", "64x16", "32x16",  "16x16", "128x32",  "64x32",
                                  "32x32",  "16x32", "128x64", "64x64", "128x128", "64x128"};
static_assert(sizeof kNames / sizeof *kNames == kPatchShapeCount, "every shape has a name");

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (!is_half(type) || l.output.type != type) return offer.reject("takes f16 and bf16, the same for input and output");
  if (l.result.type != type && l.result.type != POLYCONV_F32)
    return offer.reject("stores the gradient as f32, or in the type of the input");
  if (!takes_no_empty({&l.output}, offer)) return false;
  if (!takes_channels_last(has_neighbouring_channels(l.input) && has_neighbouring_channels(l.output), offer))
    return false;
  if (!takes_zeros(pads_zeros(l), offer)) return false;
  if (sdk::taps(l) > 1 << 20) return offer.reject("takes windows of up to 2^20 taps");
  if (!fits_implicit_both(l, l.output, offer)) return false;
  double weights = 0; // what strides span
  for (int axis = 0; axis < 5; ++axis) weights += real(l.weights.size[axis]) * std::abs(real(l.weights.stride[axis]));
  return weights < 1 << 30 || offer.reject("takes weights of less than 2^30 elements, gaps included");
}

// Microseconds in a shape, 0 where no patch fits.
double estimate(const polyconv_layer &l, int32_t config) {
  const PatchProduct p = make_patch_product(l, kPatchShapes[config]);
  return p.patches.pixels == 0 ? 0 : patch_us(l, p, kPatchShapes[config]) + bias_gradient_us(l);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!offer_cheapest(kPatchShapeCount, config, offer, [&](int32_t c) { return estimate(l, c); }))
    return offer.reject("holds no 16 pixels and their windows in the shared memory of a block");
  const PatchProduct p = make_patch_product(l, kPatchShapes[offer.config]);
  const double blocks = real(p.all_tiles) * (p.splits == 1 ? 1 : std::max(p.splits, p.quads() / 32));
  if (!(blocks < 1 << 30)) return offer.reject("takes less than 2^30 tiles of weights");
  offer.workspace_bytes = patch_pieces_bytes(p) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class MmaWeights final : public SlabWeights<PatchProduct, PatchLauncher, patch_pieces_bytes> {
 public:
  MmaWeights(const polyconv_request &request, int config)
      : SlabWeights(request, make_patch_product(*request.layers[0], kPatchShapes[config]),
                    of_half(request.layers[0]->input.type, [&](auto t) {
                      return patch_launcher_of<decltype(t)>(kPatchShapes[config].channel_blocks);
                    })) {}
};

} // namespace

POLYCONV_DEFINE_KERNEL(mma_weights, kNames, supports, instance_of<MmaWeights>);

} // namespace polyconv::cuda
