// images.hpp - what the plan keeps of a chain of small images, each of two warps or a block, and its offer.
// `Kind` says which layers they are, how they lie in shared memory and which kernel runs them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers.hpp"

namespace polyconv::cuda::halves {

template <class Kind>
class Images final : public chain::ChainInstance {
 public:
  explicit Images(const polyconv_request &request)
      : ChainInstance(request), chain_(Kind::plan(request)), kernel_(Kind::find(request.layers[0]->input.type)) {
    const DeviceScope scope(device_);
    allow_shared(kernel_, block_shared_bytes(device_));
    blocks_ = Kind::blocks(chain_, multiprocessors_of(device_));
  }

 private:
  void pack_layer(const polyconv_layer &layer, int number, const void *raw, void *packed,
                  cudaStream_t stream) override {
    Kind::pack(layer, number, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    auto p = chain_;
    p.input = a.input, p.result = a.output;
    if (!aligned(a.input, 4)) Kind::without_pairs(p);
    for (int i = 0; i < Kind::layers; ++i) {
      p.layer[i].weights = a.weights[i];
      if (layers_[i].epilogue.has_bias) p.layer[i].bias = static_cast<const float *>(a.bias[i]);
    }
    kernel_<<<static_cast<unsigned>(blocks_), Kind::threads(p), static_cast<size_t>(Kind::shared_bytes(p)), stream>>>(
        p);
    check_launch(Kind::name);
  }

  const typename Kind::Chain chain_;
  const typename Kind::Kernel kernel_;
  int blocks_ = 0;
};

template <class Kind>
bool images_supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!chain::fuses(request, Kind::layers, offer) || !Kind::takes(request, offer)) return false;
  const typename Kind::Chain p = Kind::plan(request);
  offer.shared_bytes = Kind::shared_bytes(p);
  if (!fits_shared(offer.shared_bytes, request, offer)) return false;
  offer.blocks = Kind::blocks(p, kHopperMultiprocessors);
  offer.threads = Kind::threads(p);
  Kind::tell(p, offer);
  return true;
}

} // namespace polyconv::cuda::halves
