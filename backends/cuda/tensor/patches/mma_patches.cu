// mma_patches.cu - forward, f16 and bf16, channels last, with mma.sync: layers of few filters and many taps, of any
// channels, groups, strides and dimensions (patches/forward.hpp). Configs are slices, filters x channels.
//
// Floor: one read of x, or what shared memory gives (patches/forward.cuh).
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/device/launch.hpp"
#include "common/implicit.hpp"
#include "common/kernel.hpp"
#include "patches/forward.hpp"

namespace polyconv::cuda {
namespace {

using namespace tensor;

constexpr const char *kNames[] = {"8x64", "8x32", "8x16", "16x64", "16x32", "16x16"};
constexpr const char *kFormats[] = {"cuda_tensor_patches_8x64:1",  "cuda_tensor_patches_8x32:1",
                                    "cuda_tensor_patches_8x16:1",  "cuda_tensor_patches_16x64:1",
                                    "cuda_tensor_patches_16x32:1", "cuda_tensor_patches_16x16:1"};
static_assert(sizeof kNames / sizeof *kNames == kForwardShapeCount, "every shape has a name");
static_assert(sizeof kFormats / sizeof *kFormats == kForwardShapeCount, "every shape has a format");

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_no_pooling(l, offer)) return false;
  const int32_t type = l.input.type;
  if (!is_half(type) || l.weights.type != type) return offer.reject("takes input and weights of type f16 or bf16");
  if (sdk::taps(l) == 1) return offer.reject("takes windows of two taps and more: with one, nothing reads x again");
  if (l.output.size[1] / l.groups > kMostFilters)
    return offer.reject("takes up to %d filters a group, not %" PRId64, kMostFilters, l.output.size[1] / l.groups);
  if (!takes_no_empty({&l.input, &l.result}, offer)) return false;
  if (!takes_zeros(pads_zeros(l), offer)) return false;
  if (!takes_channels_last(has_neighbouring_channels(l.input), offer)) return false;
  return fits_implicit(l, offer);
}

double estimate(const polyconv_layer &l, int32_t config) {
  const ForwardProduct p = make_forward(l, kForwardShapes[config]);
  return p.patches.pixels == 0 ? 0 : forward_us(l, p);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!offer_cheapest(kForwardShapeCount, config, offer, [&](int32_t c) { return estimate(l, c); }))
    return offer.reject("holds no patch of this window and its weights in the shared memory of a block");
  const ForwardProduct p = make_forward(l, kForwardShapes[offer.config]);
  if (!(real(p.filter_slices) * p.groups * p.shares < 1 << 30))
    return offer.reject("takes less than 2^30 slices of filters");
  offer.set_weights(0, kFormats[offer.config], p.packed_bytes());
  return true;
}

// ---------------------------------------------------------------- plan and run

class MmaPatches final : public CudaInstance {
 public:
  MmaPatches(const polyconv_request &request, const ForwardShape &shape)
      : CudaInstance(request),
        product_(make_forward(layer_, shape)),
        launcher_(layer_.input.type == POLYCONV_F16 ? forward_f16(shape.eights) : forward_bf16(shape.eights)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    pack_forward(layer_, product_, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    ForwardProduct p = product_;
    p.conv = Conv<int64_t>(layer_, a);
    p.x = make_slab(layer_.input, a.input, product_.x.width);
    p.weights = a.weights[0];
    p.result = a.output;
    p.early = early_;
    launcher_.launch(p, stream);
  }

  const ForwardProduct product_;
  const ForwardLauncher launcher_;
  const int32_t early_ = begins_early(device_) ? 1 : 0;
};

} // namespace

POLYCONV_DEFINE_KERNEL(mma_patches, kNames, supports, instance_of<MmaPatches, kForwardShapes>);

} // namespace polyconv::cuda
