// plan.hpp - what every fused launch has alike on the host: the instance that a plan keeps, and what plans ask and
// count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/instance.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::chain {

// Keeps the layers of a chain and their device. pack and run select the device, and give the caller's own back.
class ChainInstance : public sdk::Instance {
 public:
  explicit ChainInstance(const polyconv_request &request)
      : device_(request.policy->device_index), count_(request.count) {
    for (int i = 0; i < count_; ++i) layers_[i] = *request.layers[i];
  }

  void pack(int layer, const void *raw, void *packed, void *stream) final {
    const DeviceScope scope(device_);
    pack_layer(layers_[layer], layer, raw, packed, static_cast<cudaStream_t>(stream));
  }
  void run(const polyconv_arguments &arguments, void *stream) const final {
    if (sdk::elements(layers_[count_ - 1].result) == 0) return;
    const DeviceScope scope(device_);
    launch(arguments, static_cast<cudaStream_t>(stream));
  }

 protected:
  virtual void pack_layer(const polyconv_layer &layer, int number, const void *raw, void *packed,
                          cudaStream_t stream) = 0;
  virtual void launch(const polyconv_arguments &arguments, cudaStream_t stream) const = 0;

  const int device_, count_;
  polyconv_layer layers_[POLYCONV_MAX_CHAIN] = {};
};

// Whether a request is a chain of so many layers.
inline bool fuses(const polyconv_request &request, int count, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  return request.count == count || offer.reject("fuses %d layers, not %d", count, request.count);
}

// What a layer finds outside its input where its padding is one value.
inline float padding_of(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_CONSTANT ? static_cast<float>(l.pad_value) : 0.0f;
}

// What a block of this request may have.
inline int64_t most_shared(const polyconv_request &request) {
  return std::min(block_shared_bytes(request.policy->device_index), sdk::shared_memory_limit(*request.policy));
}

} // namespace polyconv::cuda::chain
