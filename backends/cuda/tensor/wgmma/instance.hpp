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
  NewWeightsInstance(const polyconv_request &request, bool takes_across)
      : WgmmaInstance(request),
        new_weights_(sdk::has_new_weights(*request.policy)),
        way_(weights_way(request, takes_across)),
        rows_(way_ == WeightsWay::kRows ? raw_rows(layer_) : packed_rows(layer_)),
        begin_(way_ == WeightsWay::kPacked   ? 0
               : way_ == WeightsWay::kAcross ? across_begin(layer_).element
                                             : layer_.weights.offset) {}

 protected:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) final {
    if (!new_weights_) return pack_weights(layer_, raw, packed, stream);
    const PackedLayer layer = {&layer_, packed};
    pack_new_weights(&layer, 1, raw, stream);
  }
  // Where a run's weights begin.
  const void *weights_of(const polyconv_arguments &a) const {
    return static_cast<const char *>(a.weights[0]) + begin_ * element_bytes(layer_);
  }
  void multiply_unaligned(const polyconv_arguments &a, cudaStream_t stream) const {
    wgmma::multiply_unaligned(layer_, a, stream, way_ != WeightsWay::kPacked);
  }

  const bool new_weights_;
  const WeightsWay way_;
  const WeightRows rows_; // unless they lie across
  const int64_t begin_;   // an element
};

// Whether `read`, weights and result are all f16, or all bf16.
bool takes_halves(const polyconv_layer &layer, const polyconv_tensor &read, sdk::Offer &offer);
// Whether nothing but a bias and a relu is between the sums and results that leave in whole 16 bytes.
bool takes_plain_end(const polyconv_layer &layer, sdk::Offer &offer);
// One flat forward layer of halves that `takes` takes, of stride 1 and with such an end.
bool takes_patches(const polyconv_request &request, sdk::Offer &offer);

} // namespace polyconv::cuda::wgmma
