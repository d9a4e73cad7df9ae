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

#include <polyconv/polyconv.h>

#include "graph.hpp"

namespace polyconv_ort {

enum class Kind {
  kFloats,   // f32 all through
  kSums,     // ConvInteger: u8 or s8 in, s32 out
  kQuantised // QLinearConv, or a Conv between DequantizeLinear and QuantizeLinear: u8 or s8 in and out
};

struct Window { // of a pooling that follows
  int32_t kind = POLYCONV_POOL_NONE;
  std::vector<int64_t> size, strides, dilations, pads;
  bool ceil = false, count_include_pad = false;
};

struct Recipe {
  std::vector<Node> nodes; // in topological order
  Kind kind = Kind::kFloats;
  bool transposed = false;
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

  int64_t groups = 1;
  std::vector<int64_t> strides, dilations, pads, output_padding, output_shape;
  std::string auto_pad = "NOTSET";
  int32_t activation = POLYCONV_ACT_NONE;
  float alpha = 0;
  Window pool;
};

struct Refusal {
  std::string node, reason;
};

struct Recipes {
  std::vector<Recipe> taken;
  std::vector<Refusal> refused; // convolutions alone
  size_t nodes = 0;             // of the graph
};

Recipes recipes(const Api &, const OrtGraph *);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_RECIPE_HPP
