// instance.hpp - what the kernels on the Hopper product have alike on the host: an instance over its packed
// weights, and the layers that kernels of halves take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/instance.hpp"
#include "wgmma/maps.hpp"

namespace polyconv::cuda::wgmma {

// Over weights as pack_weights lays them.
class WgmmaInstance : public CudaInstance {
 public:
  explicit WgmmaInstance(const polyconv_request &request) : CudaInstance(request) {}

 protected:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    pack_weights(layer_, raw, packed, stream);
  }

  const MapEncoders maps_;
};

// What offer_weights asked for. Where weights are new in every run, products wait for what is ahead before they fetch
// any (new_weights).
class NewWeightsInstance : public WgmmaInstance {
 public:
  explicit NewWeightsInstance(const polyconv_request &request)
      : WgmmaInstance(request),
        new_weights_(sdk::has_new_weights(*request.policy)),
        raw_(new_weights_ && has_weight_rows(layer_)),
        rows_(raw_ ? raw_rows(layer_) : packed_rows(layer_)) {}

 protected:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) final {
    if (!new_weights_) return pack_weights(layer_, raw, packed, stream);
    const PackedLayer layer = {&layer_, packed};
    pack_new_weights(&layer, 1, raw, stream);
  }
  // Where a run's weights begin.
  const void *weights_of(const polyconv_arguments &a) const {
    return raw_ ? begin_of(layer_.weights, a.weights[0]) : a.weights[0];
  }
  void multiply_unaligned(const polyconv_arguments &a, cudaStream_t stream) const {
    wgmma::multiply_unaligned(layer_, a, weights_of(a), rows_, stream);
  }

  const bool new_weights_, raw_;
  const WeightRows rows_;
};

// Whether `read`, weights and result are all f16, or all bf16.
bool takes_halves(const polyconv_layer &layer, const polyconv_tensor &read, sdk::Offer &offer);
// Whether nothing but a bias and a relu is between the sums and results that leave in whole 16 bytes.
bool takes_plain_end(const polyconv_layer &layer, sdk::Offer &offer);
// One flat forward layer of halves that `takes` takes, of stride 1 and with such an end.
bool takes_patches(const polyconv_request &request, sdk::Offer &offer);

} // namespace polyconv::cuda::wgmma
