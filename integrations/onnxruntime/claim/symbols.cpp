// symbols.cpp - sizes as texts, through the operators that stand between a convolution and the tensor that is added to
// it.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/symbols.hpp"

#include <set>

namespace polyconv_ort {
namespace {

bool keeps_shape(const std::string &type) { // of its first input
  static const std::set<std::string> types = {"Relu",
                                              "Clip",
                                              "LeakyRelu",
                                              "Elu",
                                              "Sigmoid",
                                              "HardSigmoid",
                                              "HardSwish",
                                              "Tanh",
                                              "Gelu",
                                              "Softplus",
                                              "Erf",
                                              "Exp",
                                              "Sqrt",
                                              "Neg",
                                              "Abs",
                                              "Identity",
                                              "Cast",
                                              "Mish",
                                              "PRelu",
                                              "Selu",
                                              "Dropout",
                                              "Softmax",
                                              "Swish",
                                              "BatchNormalization",
                                              "com.microsoft:Gelu",
                                              "QuantizeLinear",
                                              "DequantizeLinear",
                                              "com.microsoft:QuickGelu"};
  return types.count(type) != 0;
}

} // namespace

Symbols::Symbols(const std::vector<Node> &nodes) {
  for (const Node &node : nodes) {
    const Texts followed = follow(node);
    for (size_t k = 0; node.output(k); ++k) {
      Texts texts = texts_of(node.output(k));
      if (k == 0 && !followed.empty() && (texts.empty() || texts.size() == followed.size())) {
        if (texts.empty()) texts = followed;
        const Shape told = node.output(0).shape();
        for (size_t i = 0; i < texts.size(); ++i) // a number or a name is what other tensors have too
          if (told.sizes.size() != texts.size() || (told.sizes[i] < 0 && told.names[i].empty())) texts[i] = followed[i];
      }
      texts_[node.output(k).name()] = texts;
    }
  }
}

bool Symbols::same_shape(const Value &a, const Value &b) const {
  const Texts left = texts_of(a), right = texts_of(b);
  return !left.empty() && left == right;
}

Symbols::Texts Symbols::texts_of(const Value &value) const {
  const std::string name = value.name();
  auto found = texts_.find(name);
  if (found != texts_.end()) return found->second;
  const Shape shape = value.shape();
  Texts texts;
  for (size_t i = 0; i < shape.sizes.size(); ++i)
    if (shape.sizes[i] >= 0)
      texts.push_back(std::to_string(shape.sizes[i]));
    else
      texts.push_back(shape.names[i].empty() ? "?" + name + "#" + std::to_string(i) : "'" + shape.names[i] + "'");
  return texts;
}

Symbols::Texts Symbols::follow(const Node &node) const {
  const std::string &type = node.type();
  if (!node.input(0)) return {};
  if (keeps_shape(type)) return texts_of(node.input(0));
  if (type == "Conv" || type == "com.microsoft:FusedConv") return windows(node, true);
  if (type == "MaxPool" || type == "AveragePool") return windows(node, false);
  if (type == "Add" || type == "Mul" || type == "Sub" || type == "Div") return elementwise(node);
  return {};
}

Symbols::Texts Symbols::windows(const Node &node, bool convolution) const {
  Texts texts = texts_of(node.input(0));
  if (texts.size() < 3 || node.attribute("auto_pad", std::string("NOTSET")) != "NOTSET" ||
      node.attribute("ceil_mode", int64_t{0}) != 0)
    return {};
  const size_t axes = texts.size() - 2;
  std::vector<int64_t> kernel = node.attribute("kernel_shape", std::vector<int64_t>());
  if (convolution) {
    const Shape weights = node.input(1).shape();
    if (weights.sizes.size() != axes + 2) return {};
    kernel.assign(weights.sizes.begin() + 2, weights.sizes.end());
    texts[1] = weights.sizes[0] < 0 ? "?" + node.input(1).name() : std::to_string(weights.sizes[0]);
  }
  const auto strides = node.attribute("strides", std::vector<int64_t>(axes, 1));
  const auto dilations = node.attribute("dilations", std::vector<int64_t>(axes, 1));
  const auto pads = node.attribute("pads", std::vector<int64_t>(2 * axes, 0));
  if (kernel.size() != axes || strides.size() != axes || dilations.size() != axes || pads.size() != 2 * axes) return {};
  for (size_t i = 0; i < axes; ++i) {
    if (kernel[i] < 1) return {};
    const int64_t more = pads[i] + pads[axes + i] - dilations[i] * (kernel[i] - 1) - 1;
    if (strides[i] == 1 && more == -1) continue; // as many outputs as inputs
    texts[i + 2] = "((" + texts[i + 2] + " + " + std::to_string(more) + ") / " + std::to_string(strides[i]) + " + 1)";
  }
  return texts;
}

// Where one operand's sizes are the other's, or 1 and written down as such.
Symbols::Texts Symbols::elementwise(const Node &node) const {
  Texts larger = texts_of(node.input(0)), smaller = texts_of(node.input(1));
  for (size_t k = 0; k < 2; ++k) // one number, or not known at all
    if (!node.input(k) || ((k == 0 ? larger : smaller).empty() && !node.input(k).shape().ranked)) return {};
  if (larger.size() < smaller.size()) larger.swap(smaller);
  const size_t before = larger.size() - smaller.size();
  for (size_t i = 0; i < smaller.size(); ++i) {
    std::string &size = larger[before + i];
    if (size == "1")
      size = smaller[i];
    else if (smaller[i] != "1" && smaller[i] != size)
      return {};
  }
  return larger;
}

} // namespace polyconv_ort
