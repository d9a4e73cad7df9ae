// layer.hpp - one convolution with its epilogue: its constants, its problem for given sizes, and its packed weights.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_LAYER_HPP
#define POLYCONV_ORT_LAYER_HPP

#include <polyconv/polyconv.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "claim/recipe.hpp"
#include "run/operands.hpp"
#include "run/place.hpp"

namespace polyconv_ort {

int32_t type_of(int type); // an element type of the runtime's as polyconv's

class Layer {
 public:
  // The zero points and scales of one run.
  struct Numbers {
    int32_t input_zero = 0, output_zero = 0;
    float output_scale = 1;
    std::shared_ptr<const void> scales;        // input_scale * weights_scale, one a channel, where layers run
    std::shared_ptr<const void> weights_zeros; // one a channel, as bytes of the weights' type, where they differ
    bool zeros_differ = false;
    int32_t weights_zero = 0;
    std::string key() const; // what of them a plan depends on
  };

  // Copies the recipe's constants; what is no constant comes with each run by the number that `inputs` gives its name.
  Layer(const Api &, const Place &, const Recipe &, const Inputs &, std::string name);

  const std::string &name() const { return name_; }
  const std::string &text() const { return recipe_.text; } // "Conv+Relu"
  int output_type() const { return output_type_; }
  bool has_fixed_weights() const; // and zero points of them, so that they stay packed
  bool is_fixed() const;          // likewise all zero points and scales
  View weights(const OrtKernelContext *) const;
  Numbers numbers(const OrtKernelContext *) const;

  // The layer over an input of these sizes, channels first. Throws Error, polyconv::Error or std::invalid_argument
  // where that cannot be.
  polyconv::Problem problem(int input_type, const std::vector<int64_t> &input, const View &weights,
                            const Numbers &) const;

  // Weights for layer `index` of a plan, packed once for all plans that can share them, or, where they change from run
  // to run, packed on this stream; NULL where the plan takes them raw.
  std::shared_ptr<polyconv::Weights> packed(const polyconv::Plan &, int32_t index, const polyconv::Problem &,
                                            const View &weights, void *stream);

  // What the layer itself brings to a run, as layer `index` of its plan: raw weights, unless `is_packed`, bias, scales
  // and zero points. The bias is checked.
  void fill(const OrtKernelContext *, const polyconv::Problem &, const View &weights, const Numbers &, bool is_packed,
            int32_t index, polyconv::Buffers &);

 private:
  struct Step { // of a recipe, with its constants
    Recipe::Step::Kind kind;
    std::vector<Operand> constants;
    float epsilon;
  };
  struct Line { // scale * x + shift
    double scale = 1, shift = 0;
  };
  std::vector<Line> lines(const std::vector<Step> &, int64_t channels) const; // all steps in one, for each channel
  void fold();                                                                // the steps into weights and bias
  View read(const Operand &, const OrtKernelContext *, std::vector<char> &fetched) const;
  const void *raw(const View &weights);                     // where layers run
  static void require_bias(const View &, int64_t channels); // or Error: not every runtime looks

  const Api &api_;
  const Place &place_;
  Recipe recipe_; // without its nodes and values, which live no longer than the graph
  std::string name_;
  Operand weights_, bias_;
  Operand input_scale_, input_zero_, weights_scale_, weights_zero_, output_scale_, output_zero_;
  std::vector<Step> before_, steps_;
  bool has_residual_ = false;
  int output_type_ = kFloat;
  std::vector<char> folded_weights_;       // of the weights' type, where there is something to fold
  std::vector<float> folded_bias_;         // likewise, and where the model's own has another type than polyconv's
  std::shared_ptr<const void> fixed_bias_; // where layers run; NULL: there is none, or it changes from run to run

  std::mutex mutex_;
  std::shared_ptr<const void> raw_;
  std::map<std::string, std::shared_ptr<polyconv::Weights>> packed_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_LAYER_HPP
