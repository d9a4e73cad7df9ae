// instance.hpp - what the plan keeps of a CUDA kernel, and the questions that every CUDA kernel's supports asks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/bytes.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

#include "common/device/check.hpp"
#include "common/device/facts.hpp"

namespace polyconv::cuda {

// Keeps a layer and its device. pack and run select the device, launch, and give the caller's own device back.
class CudaInstance : public sdk::Instance {
 public:
  explicit CudaInstance(const polyconv_request &request)
      : layer_(*request.layers[0]), device_(request.policy->device_index) {}

  void pack(int, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    pack_on(raw, packed, static_cast<cudaStream_t>(stream));
  }
  void run(const polyconv_arguments &arguments, void *stream) const final {
    const DeviceScope scope(device_);
    launch(arguments, static_cast<cudaStream_t>(stream));
  }

 protected:
  // Of kernels that pack no weights: throws.
  virtual void pack_on(const void *raw, void *packed, cudaStream_t stream) { Instance::pack(0, raw, packed, stream); }
  virtual void launch(const polyconv_arguments &arguments, cudaStream_t stream) const = 0;

  const polyconv_layer layer_;
  const int device_;
};

// Where a tensor begins.
inline const void *begin_of(const polyconv_tensor &t, const void *pointer) {
  return static_cast<const char *>(pointer) + t.offset * sdk::type_bytes(t.type);
}
inline void *begin_of(const polyconv_tensor &t, void *pointer) {
  return static_cast<char *>(pointer) + t.offset * sdk::type_bytes(t.type);
}

// Blocks of `threads` for `count` elements. Kernels go on in steps of the whole grid, so no count is too large.
inline unsigned blocks_for(int64_t count, int threads) {
  return static_cast<unsigned>(std::min<int64_t>((count + threads - 1) / threads, INT32_MAX));
}

// Images of one or two dimensions: nothing happens along the third axis, before pooling or in it.
inline bool is_2d(const polyconv_layer &l) {
  return l.input.size[2] == 1 && l.weights.size[2] == 1 && l.output.size[2] == 1 && l.pad_begin[0] == 0 &&
         (!sdk::has_pooling(l) || l.epilogue.pool.window[0] == 1);
}

// An f32 bias and a relu at most between sum and result (pooling and the result's type are the caller's question): what
// kernels finish in registers.
inline bool bias_and_relu_at_most(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  return !e.has_scale && e.residual_from == POLYCONV_RESIDUAL_NONE &&
         (e.activation == POLYCONV_ACT_NONE || e.activation == POLYCONV_ACT_RELU) && l.save == POLYCONV_SAVE_NONE &&
         (!e.has_bias || l.bias_type == POLYCONV_F32);
}

// Nothing between sum and result: results are the sums but for their type.
inline bool bare(const polyconv_layer &l) {
  return bias_and_relu_at_most(l) && !l.epilogue.has_bias && l.epilogue.activation == POLYCONV_ACT_NONE;
}

// True, with the reason in `offer`, where a fused kernel cannot save pre-activations: elements that no pooling window
// holds would never be written. The plan then pools in a step of its own.
inline bool fused_pooling_refused(const polyconv_layer &l, sdk::Offer &offer) {
  if (!sdk::has_pooling(l) || l.save != POLYCONV_SAVE_PRE_ACTIVATION) return false;
  offer.rejects_pooling = 1;
  offer.reject("does not save pre-activations where it pools");
  return true;
}

} // namespace polyconv::cuda
