// way.hpp - one way to run a convolution with cuDNN: an order of its tensors, the conversions around cuDNN's part where
// the caller's tensors are not dense in that order, and where their copies lie in the workspace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <polyconv/sdk/kernel.hpp>

#include "graph.hpp"

namespace polyconv::cudnn {

// Whether the weights are what is written, as the caller has them; else they are read, packed.
inline bool writes_weights(const polyconv_layer &layer) {
  return layer.direction == POLYCONV_BACKWARD_WEIGHTS;
}

// Packed weights are dense in both orders, one after the other, so that any way runs on them.
inline constexpr const char *kWeightsFormat = "cudnn_kcrs_krsc:1";
int64_t packed_bytes(const polyconv_tensor &weights);
int64_t packed_offset(const polyconv_tensor &weights, Order order);

// Bytes of the copies that the conversions of a way take.
int64_t copies_bytes(const polyconv_layer &layer, Order order);

// A copy of a tensor into other strides, as cuda-direct/convert makes it.
std::unique_ptr<sdk::Instance> make_conversion(const polyconv_tensor &from, const polyconv_tensor &to,
                                               const polyconv_policy &policy);

// The pointers of one run.
struct Pointers {
  void *input, *weights, *output, *workspace;
};

class Way {
 public:
  Way(cudnnHandle_t handle, const polyconv_layer &layer, Order order, const polyconv_policy &policy);

  Order order() const { return order_; }
  const Graph &graph() const { return graph_; }
  int64_t copies() const { return copies_bytes_; } // the engine's workspace begins behind them

  Descriptor pack(const Pointers &pointers) const;
  // Enqueues the conversions and the engine.
  void run(cudnnHandle_t handle, const Execution &execution, const Descriptor &pack, const Pointers &pointers,
           void *stream) const;

 private:
  enum Role { kInput, kWeights, kOutput, kRoles };
  // A tensor's copy in the workspace, where the caller's is not dense already.
  struct Copy {
    std::unique_ptr<sdk::Instance> conversion; // into it, or from it where the tensor is written; else NULL
    int64_t offset = 0;
  };

  void add_copy(Role role, const polyconv_tensor &tensor, const polyconv_policy &policy);
  void *callers(Role role, const Pointers &p) const;
  void *dense_one(Role role, const Pointers &p) const; // the copy, or the caller's own
  void convert(Role role, const Pointers &p, void *stream) const;

  const Order order_;
  const Role written_;
  const int64_t weights_offset_; // of packed weights
  const Graph graph_;
  Copy copy_[kRoles];
  int64_t copies_bytes_ = 0;
};

} // namespace polyconv::cudnn
