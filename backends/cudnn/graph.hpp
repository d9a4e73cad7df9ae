// graph.hpp - one convolution as cuDNN's operation graph, and the engine configurations that cuDNN offers for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <string>
#include <vector>

#include "descriptor.hpp"

namespace polyconv::cudnn {

enum class Order { ChannelsFirst, ChannelsLast };
inline constexpr Order kOrders[] = {Order::ChannelsFirst, Order::ChannelsLast};
const char *order_name(Order order); // "nchw"

// The identifiers by which a variant pack names the tensors.
inline constexpr int64_t kInputId = 1, kWeightsId = 2, kOutputId = 3;

// What every pointer must be a multiple of: engines load that many bytes at once.
inline constexpr int64_t kAlignment = 16;

// The tensor of the same size and type that is dense in `order`.
polyconv_tensor dense(const polyconv_tensor &tensor, Order order);
// Whether it is so already.
bool is_dense(const polyconv_tensor &tensor, Order order);

// What a kernel allows of the numerical notes of an engine, and of what they do not tell (defects.hpp).
struct Rules {
  bool transforms;        // FFT, Winograd: what is not finite may reach results that do not depend on it
  bool tensor_cores;      // also where they round f32 products to TF32
  bool reduced_precision; // sums below f32
  bool nondeterministic;
};

// Values of knobs; those that are not named keep the engine's own.
using Setting = std::vector<std::pair<cudnnBackendKnobType_t, int64_t>>;

// One engine with its knobs set.
struct Config {
  Descriptor descriptor;
  int64_t engine;
  Setting knobs;
  bool compiled; // at run time, when it is finalised: takes up to seconds, where others take microseconds

  std::string name() const; // "eng28{2=1,13=64}"
};

// A layer's convolution or one of its gradients, its tensors all dense in one order. A graph and what is made of it are
// for the thread that has its handle.
class Graph {
 public:
  Graph(cudnnHandle_t handle, const polyconv_layer &layer, Order order);

  // What a heuristic proposes under the rules, the best first; nothing where it fails.
  std::vector<Config> proposals(cudnnBackendHeurMode_t mode, const Rules &rules) const;
  // The number of engines that exist for such a graph.
  int64_t engine_count() const;
  // An engine with its own defaults; none where it does not exist here, or the rules forbid it.
  std::vector<Config> engine(int64_t number, const Rules &rules) const;
  // Whether the rules take an engine. Throws sdk::Error where it does not exist here.
  bool allows(int64_t number, const Rules &rules) const;
  // An engine with these knobs, whatever the rules. Throws sdk::Error where it does not take them.
  Config configured(int64_t number, const Setting &knobs) const;
  // An engine with its knobs at other values: all combinations where they are few, else one knob at a time.
  std::vector<Config> variations(int64_t number) const;

 private:
  bool allowed(const Descriptor &engine, int64_t number, const Rules &rules) const;

  polyconv_layer layer_;
  Order order_;
  Descriptor graph_;
};

// A finalised plan of one config: what is executed. Throws sdk::Error where the engine refuses the problem.
class Execution {
 public:
  Execution(cudnnHandle_t handle, const Config &config);
  int64_t workspace_bytes() const { return workspace_bytes_; }
  const Descriptor &descriptor() const { return plan_; }

 private:
  Descriptor plan_;
  int64_t workspace_bytes_ = 0;
};

// The pointers of one run.
Descriptor variant_pack(void *input, void *weights, void *output, void *workspace);

} // namespace polyconv::cudnn
