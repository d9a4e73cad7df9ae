// wgmma_weights.cu - the gradient of weights, f16 and bf16, channels last, compute capability 9.0, on Hopper's tensor
// cores (weights.hpp). Configs are tiles, output channels x columns, where a column is an input channel of a tap.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/types.hpp"
#include "pixel_matrix.hpp"
#include "weights/instance.hpp"

namespace polyconv::cuda {
namespace {

using namespace wgmma;

constexpr const char *kNames[] = {"128x256", "256x128", "128x128", "64x256",  "64x576",
                                  "64x128",  "64x64",   "64x192",  "128x192", "128x64"};
static_assert(sizeof kNames / sizeof *kNames == kWeightsShapeCount, "every shape has a name");

// ---------------------------------------------------------------- supports

// In a shape, 0 where it does not serve.
double estimate(const polyconv_layer &l, const WeightsShape &shape) {
  if (!suits_groups(l, shape)) return 0;
  return product_us(l, product_of(l, shape), shape) + bias_gradient_us(l);
}

bool supports_weights(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (!is_half(type) || l.output.type != type) return offer.reject("takes f16 and bf16, the same for input and output");
  if (!takes_no_empty({&l.output}, offer)) return false;
  polyconv_layer read = l; // maps know no groups
  read.groups = 1, read.weights.size[1] = l.input.size[1];
  if (!maps_hold_weights(request, read, offer)) return false;
  if (!offer_cheapest(kWeightsShapeCount, config, offer, [&](int32_t c) { return estimate(l, kWeightsShapes[c]); }))
    return offer.reject("takes groups of filters that tiles of 64, 128 or 256 are multiples of, or the reverse");
  const WeightsShape &shape = kWeightsShapes[offer.config];
  const WeightsProduct product = product_of(l, shape);
  offer.workspace_bytes = pieces_end(product, shape) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  const Shares &shares = product.shares;
  if (!(real(shares.tiles) * shares.blocks < 1 << 30)) return offer.reject("takes less than 2^30 blocks of products");
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class WgmmaWeights final : public WeightsInstance {
 public:
  WgmmaWeights(const polyconv_request &request, int config)
      : WeightsInstance(
            request, *request.layers[0], kWeightsShapes[config],
            of_half(request.layers[0]->input.type, [&](auto t) { return weights_launcher_of<decltype(t)>(config); })) {}

 private:
  void set_maps(const void *x, const void *dy, WeightsProduct *product) const override {
    if (product->boxes == kNoBoxes) {
      maps_.pixels(walked_, false, x, shape_.depth, &product->activations[0]);
      maps_.pixels(walked_, true, dy, shape_.depth, &product->gradients[0]);
      return;
    }
    const auto depth = [&](WeightsPairs shared) { return product->pairs == shared ? shape_.depth / 2 : shape_.depth; };
    maps_.matrix(walked_.input, x, depth(kPairsOfRows), product->boxes & kBoxOfActivations ? shape_.chunks : 1,
                 &product->activations[0]);
    maps_.matrix(walked_.output, dy, depth(kPairsOfColumns), product->boxes & kBoxOfGradients ? shape_.rows / 64 : 1,
                 &product->gradients[0]);
  }
};

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_weights, kNames, supports_weights, instance_of<WgmmaWeights>);

} // namespace polyconv::cuda
