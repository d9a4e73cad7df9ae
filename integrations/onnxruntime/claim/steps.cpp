// steps.cpp - reads BatchNormalization, Mul and Add by constants.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/steps.hpp"

namespace polyconv_ort {

bool read_step(const Api &api, const Node &node, const Value &value, size_t axes, int64_t channels,
               std::vector<Recipe::Step> &steps) {
  using Step = Recipe::Step;
  if (node.outputs() != 1) return false;
  if (node.type() == "BatchNormalization") {
    if (node.attribute("training_mode", int64_t{0})) return false;
    Step step{Step::Kind::kNormalisation, {}, node.attribute("epsilon", 1e-5f)};
    for (size_t i = 1; i < 5; ++i) {
      const Shape shape = node.input(i).constant() ? node.input(i).shape() : Shape();
      if (!is_float(shape.type) || shape.sizes != std::vector<int64_t>{channels}) return false;
      step.constants.push_back(node.input(i));
    }
    steps.push_back(std::move(step));
    return true;
  }
  if (node.type() != "Mul" && node.type() != "Add") return false;
  const Value other = node.input(node.input(0).name() == value.name() ? 1 : 0);
  const OrtValue *tensor = other.constant();
  if (!tensor) return false;
  const Shape shape = shape_of(api, tensor);
  if (!is_float(shape.type) || shape.sizes.size() > axes) return false;
  const size_t missing = axes - shape.sizes.size(); // axes that the constant leaves out
  for (size_t i = 0; i < shape.sizes.size(); ++i)
    if (shape.sizes[i] != 1 && (missing + i != 1 || shape.sizes[i] != channels)) return false;
  steps.push_back({node.type() == "Mul" ? Step::Kind::kProduct : Step::Kind::kSum, {other}, 0});
  return true;
}

bool keeps_channels(const Api &api, const Value &operand, const Recipe::Step &step) {
  if (step.kind == Recipe::Step::Kind::kNormalisation) return true;
  const int64_t elements = elements_of(shape_of(api, step.constants[0].constant()).sizes);
  return elements == 1 || operand.shape().sizes[1] == elements;
}

} // namespace polyconv_ort
