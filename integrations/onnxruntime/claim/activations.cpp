// activations.cpp - see activations.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/activations.hpp"

#include <cmath>
#include <limits>

namespace polyconv_ort {
namespace {

bool clip(const Api &api, const Node &node, Recipe &recipe) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float least = constant_float(api, node.input(1), node.attribute("min", -infinity));
  const float most = constant_float(api, node.input(2), node.attribute("max", infinity));
  if (least != 0 || !(most > 0)) return false; // NaN too: a bound that is not constant
  recipe.activation = std::isinf(most) ? POLYCONV_ACT_RELU : POLYCONV_ACT_CLIPPED_RELU;
  recipe.alpha = std::isinf(most) ? 0 : most;
  return true;
}

bool one_node(const Api &api, const Node &node, Recipe &recipe) {
  const std::string &type = node.type();
  if (type == "Relu")
    recipe.activation = POLYCONV_ACT_RELU;
  else if (type == "Sigmoid")
    recipe.activation = POLYCONV_ACT_SIGMOID;
  else if (type == "Tanh")
    recipe.activation = POLYCONV_ACT_TANH;
  else if (type == "HardSwish")
    recipe.activation = POLYCONV_ACT_HARD_SWISH;
  else if (type == "LeakyRelu" || type == "Elu") {
    const float alpha = node.attribute("alpha", type == "Elu" ? 1.0f : 0.01f);
    if (!std::isfinite(alpha)) return false;
    recipe.alpha = alpha;
    recipe.activation = type == "Elu" ? POLYCONV_ACT_ELU : POLYCONV_ACT_LEAKY_RELU;
  } else if (type == "Gelu" || type == "com.microsoft:Gelu")
    recipe.activation =
        node.attribute("approximate", std::string("none")) == "tanh" ? POLYCONV_ACT_GELU_TANH : POLYCONV_ACT_GELU;
  else if (type != "Clip" || !clip(api, node, recipe))
    return false;
  recipe.join(node);
  return true;
}

// The other operand of a node, as a constant number; NaN where it is none.
float other_operand(const Api &api, const Node &node, const std::string &ours) {
  return constant_float(api, node.input(node.input(0).name() == ours ? 1 : 0), std::numeric_limits<float>::quiet_NaN());
}

// HardSwish as older exporters write it out: x * Clip(x + 3, 0, 6) / 6, with a product by 1/6 for the quotient perhaps.
bool written_out(const Neighbours &near, const Node &shift, const Node &product, Recipe &recipe) {
  const Api &api = near.api();
  const std::string plain = recipe.output.name();
  if (other_operand(api, shift, plain) != 3) return false;
  const Node *bounds = near.reader(shift.output(0), "Clip");
  Recipe clipped;
  if (!bounds || !clip(api, *bounds, clipped) || clipped.activation != POLYCONV_ACT_CLIPPED_RELU || clipped.alpha != 6)
    return false;
  const Node *reader = near.reader(bounds->output(0), "Mul");
  if (!reader || reader->id() != product.id()) return false;
  const std::string sum = product.output(0).name();
  const Node *quotient = near.reader(product.output(0), "Div"), *scaled = near.reader(product.output(0), "Mul");
  const bool divided = quotient && quotient->input(0).name() == sum && other_operand(api, *quotient, sum) == 6;
  const bool multiplied = scaled && std::fabs(other_operand(api, *scaled, sum) * 6 - 1) < 1e-6f;
  if (!divided && !multiplied) return false;
  recipe.activation = POLYCONV_ACT_HARD_SWISH;
  for (const Node *node : {&shift, bounds, &product, divided ? quotient : scaled}) recipe.join(*node);
  return true;
}

bool gate(const Neighbours &near, Recipe &recipe) {
  const std::vector<const Node *> readers = near.two_readers(recipe.output);
  if (readers.empty()) return false;
  const bool first = readers[0]->type() == "Mul";
  const Node &product = *readers[first ? 0 : 1], &sigmoid = *readers[first ? 1 : 0];
  if (product.type() != "Mul") return false;
  if (sigmoid.type() == "Add") return written_out(near, sigmoid, product, recipe);
  const bool hard = sigmoid.type() == "HardSigmoid" && std::fabs(sigmoid.attribute("alpha", 0.2f) * 6 - 1) < 1e-5f &&
                    sigmoid.attribute("beta", 0.5f) == 0.5f;
  if (!hard && sigmoid.type() != "Sigmoid") return false;
  if (sigmoid.output(0).is_output() || sigmoid.output(0).consumers().size() != 1) return false;
  const std::string gated = sigmoid.output(0).name(), plain = recipe.output.name();
  const std::string left = product.input(0).name(), right = product.input(1).name();
  if (!((left == gated && right == plain) || (left == plain && right == gated))) return false;
  recipe.activation = hard ? POLYCONV_ACT_HARD_SWISH : POLYCONV_ACT_SILU;
  recipe.join(sigmoid);
  recipe.join(product);
  return true;
}

} // namespace

bool read_activation(const Neighbours &near, Recipe &recipe) {
  const Node *node = near.reader(recipe.output);
  return node ? one_node(near.api(), *node, recipe) : gate(near, recipe);
}

} // namespace polyconv_ort
