// recipe.hpp - what one fused node computes, shapes apart: a convolution and what of its surroundings goes into its
// epilogue.
//
// `recipes` looks at a graph and says which nodes go together, and of every convolution that is left to others, why.
// The same code reads the whole graph, to claim nodes, and later the part of it that became one fused node, to build
// its layer.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_RECIPE_HPP
#define POLYCONV_ORT_RECIPE_HPP

#include "../../onnx/geometry.hpp"
#include "runtime/graph.hpp"

namespace polyconv_ort {

enum class Kind {
  kFloats,   // f32 all through
  kSums,     // ConvInteger: u8 or s8 in, s32 out
  kQuantised // QLinearConv, or a Conv between DequantizeLinear and QuantizeLinear: u8 or s8 in and out
};

struct Recipe : polyconv_onnx::Geometry {
  std::vector<Node> nodes; // in topological order
  Kind kind = Kind::kFloats;
  std::string text; // "Conv+Add+Relu"

  Value input, weights, bias, residual, output;
  Value input_scale, input_zero, weights_scale, weights_zero, output_scale, output_zero; // of integers
  Value gamma, beta, mean, variance;                                                     // of a BatchNormalization
  float epsilon = 0;
  struct Step { // products and sums with constants, one for the tensor or one a channel
    bool product;
    Value constant;
  };
  std::vector<Step> steps;

  int32_t activation = POLYCONV_ACT_NONE;
  float alpha = 0;
  polyconv_onnx::Window pool;
};

struct Refusal {
  std::string node, reason;
};

struct Recipes {
  std::vector<Recipe> taken;
  std::vector<std::vector<size_t>> regions; // of `taken`: those that become one fused node
  std::vector<Refusal> refused;             // convolutions alone
  size_t nodes = 0;                         // of the graph
};

// `is_claimed`: the graph is what was claimed and nothing else. Then whatever is added has the same shape: in the whole
// graph, of which a part tells less, that was certain.
Recipes recipes(const Api &, const OrtGraph *, bool is_claimed);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_RECIPE_HPP
