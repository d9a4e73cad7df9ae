// images.hpp - what the plan keeps of a chain of small images, each of two warps or a block, and its offer.
// `Kind` says which layers they are, how they lie in shared memory and which kernel runs them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layers.hpp"

namespace polyconv::cuda::halves {

template <class Kind>
class Images final : public sdk::Instance {
 public:
  explicit Images(const polyconv_request &request)
      : device_(request.policy->device_index),
        chain_(Kind::plan(request)),
        kernel_(Kind::find(request.layers[0]->input.type)) {
    for (int i = 0; i < Kind::layers; ++i) layers_[i] = *request.layers[i];
    const DeviceScope scope(device_);
    chain::allow_shared(kernel_, device_);
    blocks_ = Kind::blocks(chain_, multiprocessors_of(device_));
  }

  void pack(int layer, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    Kind::pack(layers_[layer], layer, raw, packed, static_cast<cudaStream_t>(stream));
  }

  void run(const polyconv_arguments &a, void *stream) const override {
    if (sdk::elements(layers_[Kind::layers - 1].result) == 0) return;
    const DeviceScope scope(device_);
    auto p = chain_;
    p.input = a.input, p.result = a.output;
    if (!aligned(a.input, 4)) Kind::without_pairs(p);
    for (int i = 0; i < Kind::layers; ++i) {
      p.layer[i].weights = a.weights[i];
      if (layers_[i].epilogue.has_bias) p.layer[i].bias = static_cast<const float *>(a.bias[i]);
    }
    kernel_<<<static_cast<unsigned>(blocks_), Kind::threads(p), static_cast<size_t>(Kind::shared_bytes(p)),
              static_cast<cudaStream_t>(stream)>>>(p);
    check_launch(Kind::name);
  }

 private:
  const int device_;
  polyconv_layer layers_[Kind::layers] = {};
  const typename Kind::Chain chain_;
  const typename Kind::Kernel kernel_;
  int blocks_ = 0;
};

template <class Kind>
bool images_supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != Kind::layers) return offer.reject("fuses %d layers, not %d", Kind::layers, request.count);
  if (!Kind::takes(request, offer)) return false;
  const typename Kind::Chain p = Kind::plan(request);
  offer.shared_bytes = Kind::shared_bytes(p);
  if (!fits_shared(offer.shared_bytes, request, offer)) return false;
  offer.blocks = Kind::blocks(p, kHopperMultiprocessors);
  offer.threads = Kind::threads(p);
  Kind::tell(p, offer);
  return true;
}

template <class Kind>
std::unique_ptr<sdk::Instance> images_create(const polyconv_request &request, int32_t) {
  return std::make_unique<Images<Kind>>(request);
}

} // namespace polyconv::cuda::halves
