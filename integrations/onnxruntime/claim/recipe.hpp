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

#include <functional>
#include <map>

#include "../../onnx/geometry.hpp"
#include "claim/operators.hpp"
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
  struct Step { // folded into constant weights: with constants of one number, or one a channel
    enum class Kind { kProduct, kSum, kNormalisation };
    Kind kind;
    std::vector<Value> constants; // of a BatchNormalization: scale, B, mean and variance
    float epsilon = 0;
  };
  std::vector<Step> before, steps; // of what comes in; of what comes out

  int32_t activation = POLYCONV_ACT_NONE;
  float alpha = 0;
  polyconv_onnx::Window pool;

  void join(const Node &node) { // which reads the output: its own is the recipe's now
    nodes.push_back(node);
    output = node.output(0);
  }
};

struct Refusal {
  std::string node, reason;
};

struct Together { // what becomes one fused node
  std::vector<size_t> layers, operators;
};

struct Recipes {
  std::vector<Recipe> taken;
  std::vector<Operator> operators;
  std::vector<Together> regions; // of those two; operators that no region has stay with others
  std::vector<Refusal> refused;  // convolutions alone
  size_t nodes = 0;              // of the graph
};

// Of each Add behind a convolution, by the name of its result, whether it adds a tensor of the same shape: what was
// certain in the whole graph, of which a part tells less.
using Additions = std::map<std::string, bool>;

// What may be taken, which is another matter for a GPU than for the host.
struct Terms {
  bool half = false;                                         // float16 too
  std::function<std::string(const struct Recipe &)> refusal; // why a layer cannot run there, "" where it can
};

// `is_claimed`: the graph is what was claimed and nothing else, and `additions` are those of then; else they are added.
Recipes recipes(const Api &, const OrtGraph *, const Terms &, bool is_claimed, Additions &additions);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_RECIPE_HPP
