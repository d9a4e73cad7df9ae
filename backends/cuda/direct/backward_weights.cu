// backward_weights.cu - the gradients of weights and bias: one block an element of the gradient, its threads sharing
// the pixels of the batch, their partial sums added in a fixed tree. No atomics: a run repeated gives the same bits.
//
// Floor: as any kernel's. Every block reads two whole planes of the batch, so traffic through the caches is two
// operands a product: expect a few per cent of the FMA rate.
// SPDX-License-Identifier: Apache-2.0
#include "blocks.hpp"
#include "common/kernel.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/sums/gradients.cuh"

namespace polyconv::cuda {
namespace {

// ---------------------------------------------------------------- plan and run

class BackwardWeights final : public CudaInstance {
 public:
  BackwardWeights(const polyconv_request &request, int threads)
      : CudaInstance(request), threads_(threads), small_(fits_int32(layer_)) {}

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    dispatch_gradients(layer_.input.type, layer_.output.type, [&](auto row) {
      using Row = decltype(row);
      small_ ? launch_weights_gradient<Row, int32_t>(layer_, a, threads_, stream)
             : launch_weights_gradient<Row, int64_t>(layer_, a, threads_, stream);
    });
    bias_gradient(layer_, a, a.workspace, stream);
  }

  const int threads_;
  const bool small_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  direct::choose_block(config, INT64_MAX, offer);
  // Every product finds its pixel anew: 6.2 to 7.3 picoseconds on an H200.
  const double products = sdk::flops(l) / 2 * 6.9e-6 * (l.sum_type == POLYCONV_F64 ? 2.5 : 1);
  offer.estimate_us = 4 + products + bias_gradient_us(l);
  offer.workspace_bytes = bias_gradient_bytes(l);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(backward_weights, direct::kBlockNames, supports,
                       instance_of<BackwardWeights, direct::kBlockSizes>, POLYCONV_KERNEL_GENERIC,
                       POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cuda
