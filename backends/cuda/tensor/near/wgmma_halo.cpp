// wgmma_halo.cpp - forward, f16 and bf16, channels last, at most 64 input channels, stride 1, any dimensions,
// capability 9.0: all weights and a patch of the input with its halo lie in shared memory, and taps are shifted
// descriptors (halo.cu). Larger layers are wgmma's.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "near/halo.hpp"

#include <cmath>

#include "wgmma/instance.hpp"

namespace polyconv::cuda {
namespace {

// Without pointers and maps.
wgmma::HaloProduct product_of(const polyconv_layer &l) {
  wgmma::HaloProduct p = wgmma::halo_product(l);
  for (int axis = 0; axis < 3; ++axis) {
    p.out[axis] = small(l.output.size[2 + axis]), p.pad[axis] = small(l.pad_begin[axis]);
    p.taps[axis] = small(l.weights.size[2 + axis]), p.dilation[axis] = small(l.dilation[axis]);
  }
  p.channels = small(l.output.size[1]);
  p.channel_tiles = (p.channels + wgmma::kHaloChannels - 1) / wgmma::kHaloChannels;
  p.count = small(l.output.size[0] * l.output.size[2] * p.patches[0] * p.patches[1]);
  p.steps = small(ceil_div(l.weights.size[1], 16));
  p.volume = wgmma::is_flat(l) ? 0 : 1;
  p.relu = l.epilogue.activation == POLYCONV_ACT_RELU ? 1 : 0;
  return p;
}

double estimate(const wgmma::HaloProduct &p) {
  const double turns = std::ceil(p.count / std::floor(kHopperMultiprocessors * 1.0 / p.channel_tiles));
  const double clocks = p.taps[1] * p.taps[2] * p.steps * (wgmma::kHaloColumns / 2 + 2.0) + 60; // a plane
  return 4 + turns * std::max(p.taps[0] * clocks, (p.taps[0] * clocks + 2400) / 2) / 1290 *
                 (p.channel_tiles > 1 ? 1.1 : 1.0);
}

class Halo final : public wgmma::NewWeightsInstance {
 public:
  explicit Halo(const polyconv_request &request)
      : NewWeightsInstance(request, true), product_(product_of(layer_)), bf16_(layer_.input.type == POLYCONV_BF16) {
    const DeviceScope scope(device_);
    wgmma::prepare_halo(product_, bf16_, across_);
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    const void *input = begin_of(layer_.input, a.input), *result = begin_of(layer_.result, a.output);
    const void *weights = weights_of(a);
    if (!aligned(input, 16) || !aligned(result, 16) || !aligned(weights, 16)) return multiply_unaligned(a, stream);
    wgmma::HaloProduct p = product_;
    p.new_weights = new_weights_ ? 1 : 0;
    if (layer_.epilogue.has_bias) p.bias = static_cast<const float *>(a.bias[0]);
    const int row = wgmma::halo_row(layer_.weights.size[1]);
    maps_.patches(layer_.input, input, p.pitch, p.positions / p.pitch, &p.input, row, p.volume != 0);
    maps_.patches(layer_.result, result, p.patch[1], 1, &p.results, 128, p.volume != 0);
    p.taps_reversed = across_ && wgmma::across_begin(layer_).taps_reversed ? 1 : 0;
    if (across_)
      maps_.across(layer_, weights, row / 2, &p.weights);
    else
      maps_.weights(layer_, rows_, weights, {0, wgmma::kHaloChannels, 0, 0, 0, true, false, row}, &p.weights);
    wgmma::launch_halo(p, bf16_, across_, multiprocessors_, stream);
  }

  const wgmma::HaloProduct product_;
  const bool bf16_, across_ = way_ == wgmma::WeightsWay::kAcross;
  const int multiprocessors_ = multiprocessors_of(device_);
};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!wgmma::takes_patches(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const auto taps = static_cast<long long>(sdk::taps(l)), channels = static_cast<long long>(l.weights.size[1]);
  if (channels > wgmma::kHaloChannels || taps > wgmma::halo_taps(wgmma::halo_row(channels)))
    return offer.reject(
        "keeps all weights in shared memory: takes up to 32 input channels and 27 taps, or 64 and 9, not %lld and %lld",
        channels, taps);
  if (taps == 1) return offer.reject("takes windows of more than one element: others read no input twice");
  if (l.output.size[1] > 16 * wgmma::kHaloChannels)
    return offer.reject("takes up to %d output channels", 16 * wgmma::kHaloChannels);
  const wgmma::HaloProduct p = product_of(l);
  if (p.pitch == 0) return offer.reject("holds no patch of this window in shared memory");
  wgmma::offer_weights(request, wgmma::weights_way(request, true), offer);
  offer.estimate_us = estimate(p);
  return true;
}

constexpr const char *kConfigs[] = {"64x232"};

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_halo, kConfigs, supports, instance_of<Halo>);

} // namespace polyconv::cuda
