// layer.hpp - one fused node at work: plans a shape when it comes, packs constant weights once, and runs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_LAYER_HPP
#define POLYCONV_ORT_LAYER_HPP

#include <polyconv/polyconv.hpp>

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "operands.hpp"
#include "recipe.hpp"
#include "settings.hpp"

namespace polyconv_ort {

// Workspaces of runs, reused: as many as runs are under way at once, each as large as the largest plan asked of it.
class Workspaces {
 public:
  std::unique_ptr<polyconv::Memory> take(size_t bytes);
  void give(std::unique_ptr<polyconv::Memory> memory);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<polyconv::Memory>> free_;
};

struct LayerReport {
  std::string name, text;
  int64_t runs = 0, plans = 0;
  double seconds = 0;                         // of runs, where they are timed
  std::map<std::string, std::string> kernels; // by the token of the shape, the newest few
};

class Layer {
 public:
  // Copies the recipe's constants; what is no constant comes with each run by the number that `inputs` gives its name.
  Layer(const Api &, const Recipe &, const Inputs &, std::string name, const Settings &, std::shared_ptr<Workspaces>);
  // One run, on any thread, several at once. Throws Error or polyconv::Error.
  void run(OrtKernelContext *);
  LayerReport report();

 private:
  struct Ready;   // a plan and its packed weights
  struct Numbers; // the zero points and scales of one run
  Numbers numbers(const OrtKernelContext *) const;
  polyconv::Problem problem(const View &input, const View &weights, const Numbers &) const;
  void prepare(std::vector<int64_t> sizes);
  void fold(); // the BatchNormalization and the steps into weights and bias
  std::shared_ptr<Ready> ready(const View &input, const View &weights, const Numbers &);
  std::shared_ptr<polyconv::Weights> packed(const polyconv::Plan &, const polyconv::Problem &, const View &weights);
  void compute(OrtKernelContext *, const View &input, const View &weights, const Numbers &, Ready &);

  const Api &api_;
  const Settings &settings_;
  std::shared_ptr<Workspaces> workspaces_;
  Recipe recipe_; // without its nodes, which live no longer than the graph
  Operand input_, weights_, bias_, residual_;
  Operand input_scale_, input_zero_, weights_scale_, weights_zero_, output_scale_, output_zero_;
  Operand gamma_, beta_, mean_, variance_;
  std::vector<Operand> steps_;
  int output_type_ = kFloat;
  std::vector<float> folded_weights_, folded_bias_; // where there is something to fold

  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<Ready>>> plans_; // newest first
  std::map<std::string, std::shared_ptr<polyconv::Weights>> packed_;
  LayerReport report_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_LAYER_HPP
