// instance.hpp - a planned gradient of weights on Hopper, whichever way the maps see its tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/facts.hpp"
#include "common/kernel.hpp"
#include "common/numbers.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/sums/gradients.cuh"
#include "common/types.hpp"
#include "weights/weights.hpp"
#include "wgmma/maps.hpp"

namespace polyconv::cuda::wgmma {

// Where pieces end in the workspace, and what the gradient of the bias asks for begins.
inline int64_t pieces_end(const WeightsProduct &product, const WeightsShape &shape) {
  return aligned_bytes(pieces_bytes(product, shape));
}

class WeightsInstance : public CudaInstance {
 protected:
  // `walked`: the layer as the kernel walks it.
  WeightsInstance(const polyconv_request &request, const polyconv_layer &walked, const WeightsShape &shape,
                  const WeightsLauncher &launcher)
      : CudaInstance(request),
        walked_(walked),
        shape_(shape),
        product_(product_of(walked, shape)),
        launcher_(launcher) {
    const DeviceScope scope(device_);
    together_ =
        adds_together(product_) && multiprocessors_of(device_) >= product_.shares.workers * cluster_of(product_);
    launcher_.prepare();
  }

  const polyconv_layer walked_;
  const WeightsShape shape_;
  const MapEncoders maps_;

 private:
  // The maps of both factors, whose pointers are aligned to 16 bytes.
  virtual void set_maps(const void *input, const void *gradients, WeightsProduct *product) const = 0;

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    multiply(a, stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + pieces_end(product_, shape_), stream);
  }

  void multiply(const polyconv_arguments &a, cudaStream_t stream) const {
    const void *const x = begin_of(walked_.input, a.input), *const dy = begin_of(walked_.output, a.output);
    if (!aligned(x, 16) || !aligned(dy, 16)) // maps cannot address it
      return static_cast<void>(dispatch_gradients(layer_.input.type, layer_.output.type, [&](auto row) {
        launch_weights_gradient<decltype(row), int64_t>(layer_, a, kMostGradientThreads, stream);
      }));
    WeightsProduct product = product_;
    set_maps(x, dy, &product);
    product.pieces = static_cast<float *>(a.workspace);
    set_result(product, a.weights[0]);
    product.together = together_ ? 1 : 0;
    if (!launcher_.launch(product, stream)) add_pieces(product, shape_, stream);
  }

  const WeightsProduct product_;
  const WeightsLauncher launcher_;
  bool together_ = false; // the device runs all blocks of the product at once
};

} // namespace polyconv::cuda::wgmma
