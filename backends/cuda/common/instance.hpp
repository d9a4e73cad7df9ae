// instance.hpp - what the plan keeps of a CUDA kernel, and the questions that every CUDA kernel's supports asks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

#include "common/device/check.hpp"

namespace polyconv::cuda {

// Keeps a layer and its device. run selects the device, launches, and gives the caller's own device back.
class CudaInstance : public sdk::Instance {
 public:
  explicit CudaInstance(const polyconv_request &request)
      : layer_(*request.layers[0]), device_(request.policy->device_index) {}

  void run(const polyconv_arguments &arguments, void *stream) const final {
    const DeviceScope scope(device_);
    launch(arguments, static_cast<cudaStream_t>(stream));
  }

 protected:
  virtual void launch(const polyconv_arguments &arguments, cudaStream_t stream) const = 0;

  const polyconv_layer layer_;
  const int device_;
};

// Blocks of `threads` for `count` elements. Kernels go on in steps of the whole grid, so no count is too large.
inline unsigned blocks_for(int64_t count, int threads) {
  return static_cast<unsigned>(std::min<int64_t>((count + threads - 1) / threads, INT32_MAX));
}

// Which config of a layer. `Ways` has serves(config, chosen): whether one does, where `chosen`, if it is an offer,
// hears why not; and us(config), its time.
struct Cheapest {
  int config = -1; // none serves
  double us = 0;
};
template <class Ways>
Cheapest cheapest(const Ways &ways, int configs) {
  Cheapest best;
  for (int config = 0; config < configs; ++config) {
    if (!ways.serves(config, nullptr)) continue;
    const double us = ways.us(config);
    if (best.config < 0 || us < best.us) best = {config, us};
  }
  return best;
}
// Offers the config that somebody wants, or, with -1, the cheapest, of which there must be one.
template <class Ways>
bool offer_config(const Ways &ways, int configs, int wanted, sdk::Offer &offer) {
  if (wanted >= 0 && !ways.serves(wanted, &offer)) return false;
  const Cheapest best = wanted >= 0 ? Cheapest{wanted, ways.us(wanted)} : cheapest(ways, configs);
  offer.config = best.config;
  offer.estimate_us = best.us;
  return true;
}

// Bytes of shared memory that a device lends one block.
inline int64_t block_shared_bytes(int device) {
  int bytes = 0;
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "asking what a block may share");
  return bytes;
}

inline int multiprocessors_of(int device) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "counting multiprocessors");
  return count;
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

// True, with the reason in `offer`, where a fused kernel cannot save pre-activations: elements that no pooling window
// holds would never be written. The plan then pools in a step of its own.
inline bool fused_pooling_refused(const polyconv_layer &l, sdk::Offer &offer) {
  if (!sdk::has_pooling(l) || l.save != POLYCONV_SAVE_PRE_ACTIVATION) return false;
  offer.rejects_pooling = 1;
  offer.reject("does not save pre-activations where it pools");
  return true;
}

} // namespace polyconv::cuda
