// wgmma_first_weights.cu - the gradient of weights, f16 and bf16, channels first, windows of one element at stride 1,
// any dimensions, one group, compute capability 9.0, on Hopper's tensor cores without turning a tensor (weights.cuh).
// Configs are tiles, output channels x input channels.
//
// Floor: 2 N K P Q C at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200, or one read of both tensors.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/device.hpp"
#include "common/host.hpp"
#include "common/sums/bias_gradient.hpp"
#include "first/weights.hpp"
#include "weights/instance.hpp"

namespace polyconv::cuda {
namespace {

using namespace first;

#define POLYCONV_NAME(rows, chunks, row_groups, chunk_groups, ways, name) name,
constexpr const char *kNames[] = {POLYCONV_FIRST_WEIGHTS_TILES(POLYCONV_NAME)};
#undef POLYCONV_NAME

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer l = in_rows(*request.layers[0]);
  if (!is_half(l.input.type) || l.output.type != l.input.type)
    return offer.reject("takes f16 and bf16, the same for input and output");
  if (!takes_one_group(l, offer) || !takes_rows(l, l.output, offer)) return false;
  const double blocks = real(l.output.size[0]) * real(ceil_div(l.output.size[4], kChunk));
  const double tiles = real(ceil_div(l.output.size[1], 64)) * real(ceil_div(l.input.size[1], 64));
  if (!(tiles * blocks < 1 << 30)) return offer.reject("takes less than 2^30 blocks of products");
  if (!has_code("90a", request.policy->device_index, offer)) return false;
  offer_cheapest(kFirstWeightsShapeCount, config, offer, [&](int32_t c) {
    const wgmma::WeightsShape &shape = kFirstWeightsShapes[c];
    return wgmma::product_us(l, wgmma::product_of(l, shape), shape) + bias_gradient_us(l);
  });
  const wgmma::WeightsShape &shape = kFirstWeightsShapes[offer.config];
  offer.workspace_bytes = wgmma::pieces_end(wgmma::product_of(l, shape), shape) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return takes_workspace(request, offer);
}

class WgmmaFirstWeights final : public wgmma::WeightsInstance {
 public:
  WgmmaFirstWeights(const polyconv_request &request, int config)
      : WeightsInstance(request, in_rows(*request.layers[0]), kFirstWeightsShapes[config],
                        of_half(request.layers[0]->input.type,
                                [&](auto t) { return first_weights_launcher_of<decltype(t)>(config); })) {}

 private:
  void set_maps(const void *x, const void *dy, wgmma::WeightsProduct *product) const override {
    maps_.rows(walked_.input, x, shape_.chunks * 64, &product->activations[0]);
    maps_.rows(walked_.output, dy, shape_.rows, &product->gradients[0]);
  }
};

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_first_weights, kNames, supports, instance_of<WgmmaFirstWeights>);

} // namespace polyconv::cuda
