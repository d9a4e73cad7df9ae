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
  void pack_on(const void *raw, void *packed, cudaStream_t stream) final { pack_weights(layer_, raw, packed, stream); }

  const MapEncoders maps_;
};

// Whether `read`, weights and result are all f16, or all bf16.
bool takes_halves(const polyconv_layer &layer, const polyconv_tensor &read, sdk::Offer &offer);
// Whether nothing but a bias and a relu is between the sums and results that leave in whole 16 bytes.
bool takes_plain_end(const polyconv_layer &layer, sdk::Offer &offer);
// One flat forward layer of halves that `takes` takes, of stride 1 and with such an end.
bool takes_patches(const polyconv_request &request, sdk::Offer &offer);

} // namespace polyconv::cuda::wgmma
