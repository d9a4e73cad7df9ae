// way.hpp - one way to run a convolution with cuDNN: an order of its tensors, the conversions around cuDNN's part where
// the caller's tensors are not dense in that order, and where their copies lie in the workspace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <polyconv/sdk/kernel.hpp>

#include "graph.hpp"

namespace polyconv::cudnn {

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
  void *input, *weights, *output, *workspace; // weights: packed
};

class Way {
 public:
  Way(cudnnHandle_t handle, const polyconv_layer &layer, Order order, const polyconv_policy &policy);

  Order order() const { return order_; }
  const Graph &graph() const { return graph_; }
  bool converts() const { return to_dense_ || from_dense_; }
  int64_t copies() const { return input_bytes_ + output_bytes_; } // the engine's workspace begins behind them

  Descriptor pack(const Pointers &pointers) const;
  // Enqueues the conversions and the engine.
  void run(cudnnHandle_t handle, const Execution &execution, const Descriptor &pack, const Pointers &pointers,
           void *stream) const;

 private:
  char *input_copy(const Pointers &p) const { return static_cast<char *>(p.workspace); }
  char *output_copy(const Pointers &p) const { return static_cast<char *>(p.workspace) + input_bytes_; }

  const Order order_;
  const int64_t weights_offset_;
  const Graph graph_;
  std::unique_ptr<sdk::Instance> to_dense_, from_dense_; // NULL where the caller's tensor already is
  int64_t input_bytes_ = 0, output_bytes_ = 0;
};

} // namespace polyconv::cudnn
