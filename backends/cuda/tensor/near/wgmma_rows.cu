// wgmma_rows.cu - forward, f16 and bf16, channels last, windows of several rows, stride 1, compute capability 9.0: for
// large layers, which run out of power, it fetches less than wgmma does (rows.cu).
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/kernel.hpp"
#include "common/machine.hpp"
#include "near/rows.hpp"

#include <cmath>

#include "common/numbers.hpp"
#include "wgmma/instance.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kColumns[] = {224, 256};
constexpr const char *kConfigs[] = {"224x128", "256x128"};

class Rows final : public wgmma::NewWeightsInstance {
 public:
  Rows(const polyconv_request &request, int config)
      : NewWeightsInstance(request, false),
        product_(wgmma::rows_product(layer_, kColumns[config], multiprocessors_of(device_))),
        bf16_(layer_.input.type == POLYCONV_BF16) {
    const DeviceScope scope(device_);
    wgmma::prepare_rows(product_, bf16_);
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    const void *input = begin_of(layer_.input, a.input);
    const void *result = begin_of(layer_.result, a.output), *weights = weights_of(a);
    if (!aligned(input, 16) || !aligned(result, 16) || !aligned(weights, 16)) return multiply_unaligned(a, stream);
    wgmma::RowsProduct p = product_;
    p.new_weights = new_weights_ ? 1 : 0;
    if (layer_.epilogue.has_bias) p.bias = static_cast<const float *>(a.bias[0]);
    maps_.patches(layer_.input, input, p.pitch, p.shared ? p.patch_rows / 2 : p.patch_rows, &p.input);
    maps_.weights(layer_, rows_, weights, {0, wgmma::kRowsChannels / 2, 0, 0, 0, true, false}, &p.weights);
    maps_.patches(layer_.result, result, p.pitch, p.rows, &p.results);
    if (p.last.rows > 0) maps_.patches(layer_.result, result, p.pitch, p.last.rows, &p.last_results);
    wgmma::launch_rows(p, bf16_, stream);
  }

  const wgmma::RowsProduct product_;
  const bool bf16_;
};

struct Ways {
  const polyconv_layer &layer;

  bool serves(int config, sdk::Offer *chosen) const {
    const wgmma::RowsProduct p = wgmma::rows_product(layer, kColumns[config], kHopperMultiprocessors);
    return p.stages > 0 || (chosen != nullptr && chosen->reject("holds no such rows of an image in shared memory"));
  }
  // As wgmma's, and fitted beside it on an H200: ten f16 and bf16 layers of 3 x 3, hot. Where a third patch has no
  // room, the first warpgroup waits for fetches.
  double us(int config) const {
    const wgmma::RowsProduct p = wgmma::rows_product(layer, kColumns[config], kHopperMultiprocessors);
    const double turns = std::ceil(p.pixel_tiles * real(p.channel_tiles) / kHopperMultiprocessors),
                 pace = p.patch_slots > 2 ? 0.962 : 1.02;
    const double tile = p.depth_blocks * p.taps[0] * p.taps[1] * 4.0 * p.columns + 900;
    const double multiplying = (830 + turns * tile * pace + 400 + p.columns * 256 / 47.0) / kHopperWgmmaClocks;
    const double elements =
        real(sdk::elements(layer.input)) + real(sdk::elements(layer.output)) + real(sdk::elements(layer.weights));
    const double moving = elements * 2 / 6.02e6;
    const bool narrow = layer.weights.size[1] < 32; // pixels share what memory sends at a time
    return 1.3 + std::max(multiplying, moving) + 0.456 * std::min(multiplying, moving) +
           (narrow ? real(sdk::elements(layer.output) / layer.output.size[1]) / 15e3 : 0);
  }
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!wgmma::takes_patches(request, offer) || !takes_2d(*request.layers[0], offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.weights.size[3] == 1) return offer.reject("takes windows of several rows");
  if (!offer_config(Ways{l}, 2, config, offer, 1)) return false;
  wgmma::offer_weights(request, wgmma::weights_way(request, false), offer);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_rows, kConfigs, supports, instance_of<Rows>);

} // namespace polyconv::cuda
