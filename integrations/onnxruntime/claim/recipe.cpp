// recipe.cpp - finds convolutions and what follows them in a graph.
//
// A node is joined to its convolution only where nobody else reads what lies between them: then no value is computed
// twice, and no cycle can arise, since whatever a fused node reads was there before it.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/recipe.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "claim/activations.hpp"
#include "claim/regions.hpp"
#include "claim/scales.hpp"
#include "claim/sizes.hpp"
#include "claim/steps.hpp"
#include "claim/symbols.hpp"

namespace polyconv_ort {
namespace {

struct No : std::runtime_error { // a reason not to take a convolution
  using std::runtime_error::runtime_error;
};

bool is_byte(int type) {
  return type == kUint8 || type == kInt8;
}

class Reader {
 public:
  Reader(const Api &api, const OrtGraph *graph, Terms terms, bool is_claimed, Additions &additions)
      : api_(api),
        nodes_(nodes_of(api, graph)),
        symbols_(nodes_),
        near_(api, nodes_, used_),
        terms_(std::move(terms)),
        is_claimed_(is_claimed),
        additions_(additions) {}

  Recipes read() {
    Recipes result;
    result.nodes = nodes_.size();
    for (const Node &node : nodes_) {
      if (!is_convolution(node.type()) || used_.count(node.id())) continue;
      if (node.is_taken()) {
        result.refused.push_back({node.name(), "another provider has taken it"});
        continue;
      }
      try {
        Recipe recipe = begin(node);
        follow(recipe);
        if (terms_.refusal && !is_claimed_) require_taken(terms_.refusal(recipe));
        finish(recipe);
        result.taken.push_back(std::move(recipe));
      } catch (const No &no) {
        result.refused.push_back({node.name().empty() ? node.output(0).name() : node.name(), no.what()});
      }
    }
    used_.insert(left_.begin(), left_.end());
    result.operators = operators(api_, nodes_, used_, terms_.half);
    result.regions = regions(nodes_, result.taken, result.operators);
    return result;
  }

 private:
  static bool is_convolution(const std::string &type) {
    static const std::set<std::string> types = {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv",
                                                "com.microsoft:FusedConv"};
    return types.count(type) != 0;
  }

  static void require_taken(const std::string &refusal) {
    if (!refusal.empty()) throw No(refusal);
  }

  // The convolution alone.
  Recipe begin(const Node &node) const {
    Recipe recipe;
    recipe.nodes.push_back(node);
    recipe.transposed = node.type() == "ConvTranspose";
    recipe.kind = node.type() == "ConvInteger"   ? Kind::kSums
                  : node.type() == "QLinearConv" ? Kind::kQuantised
                                                 : Kind::kFloats;
    recipe.input = node.input(0), recipe.output = node.output(0);
    if (recipe.kind == Kind::kQuantised) {
      recipe.input_scale = node.input(1), recipe.input_zero = node.input(2);
      recipe.weights = node.input(3), recipe.weights_scale = node.input(4), recipe.weights_zero = node.input(5);
      recipe.output_scale = node.input(6), recipe.output_zero = node.input(7);
      recipe.bias = node.input(8);
    } else {
      recipe.weights = node.input(1);
      if (recipe.kind == Kind::kSums)
        recipe.input_zero = node.input(2), recipe.weights_zero = node.input(3);
      else
        recipe.bias = node.input(2);
    }
    const int type = recipe.input.shape().type, weights_type = recipe.weights.shape().type;
    const bool is_float = type == kFloat || (terms_.half && type == kHalf);
    if (recipe.kind == Kind::kFloats && (!is_float || weights_type != type))
      throw No(terms_.half ? "its type is neither float nor float16" : "its type is not float");
    if (type == kHalf && recipe.bias && !recipe.bias.constant()) // polyconv's is float
      throw No("its bias of float16 is no constant");
    if (recipe.kind != Kind::kFloats && (!is_byte(type) || !is_byte(weights_type)))
      throw No("its types are not int8 or uint8");
    const std::string reason = read_sizes(node, recipe);
    if (!reason.empty()) throw No(reason);
    if (node.type() == "com.microsoft:FusedConv") fused(node, recipe);
    return recipe;
  }

  // What a FusedConv of another optimiser brings with it.
  static void fused(const Node &node, Recipe &recipe) {
    if (node.input(3)) recipe.residual = node.input(3);
    const std::string name = node.attribute("activation", std::string());
    if (name.empty()) return;
    if (name != "Relu" && name != "Sigmoid" && name != "Tanh")
      throw No("its activation " + name + " is not one that polyconv fuses from FusedConv");
    recipe.activation = name == "Relu" ? POLYCONV_ACT_RELU : name == "Tanh" ? POLYCONV_ACT_TANH : POLYCONV_ACT_SIGMOID;
  }

  // Whatever follows goes into the epilogue, in its order: normalisation, residual, activation, pooling.
  void follow(Recipe &recipe) {
    if (recipe.kind == Kind::kFloats && quantised(recipe)) return;
    if (recipe.kind != Kind::kFloats) return;
    before(recipe);
    const Node *node = near_.reader(recipe.output);
    while (node && recipe.activation == POLYCONV_ACT_NONE && !recipe.residual && step(recipe, *node))
      node = near_.reader(recipe.output);
    if (node && recipe.activation == POLYCONV_ACT_NONE && !recipe.residual && add(recipe, *node))
      node = near_.reader(recipe.output);
    if (recipe.activation == POLYCONV_ACT_NONE && read_activation(near_, recipe)) node = near_.reader(recipe.output);
    if (node) pool(recipe, *node);
  }

  static bool has_constant_weights(const Recipe &recipe) {
    return recipe.weights.constant() && (!recipe.bias || recipe.bias.constant());
  }

  // What is done to a convolution's results and can be folded into it.
  bool step(Recipe &recipe, const Node &node) const {
    if (!has_constant_weights(recipe)) return false;
    const Shape weights = recipe.weights.shape();
    const int64_t channels = recipe.transposed ? weights.sizes[1] * recipe.groups : weights.sizes[0];
    if (!read_step(api_, node, recipe.output, weights.sizes.size(), channels, recipe.steps)) return false;
    recipe.join(node);
    return true;
  }

  // Likewise what is done to its input, where nobody else reads that. A sum can be folded where no padding lies beside
  // what it is added to.
  void before(Recipe &recipe) const {
    if (recipe.transposed || !has_constant_weights(recipe)) return;
    const Shape weights = recipe.weights.shape();
    const bool padded = (recipe.auto_pad != "NOTSET" && recipe.auto_pad != "VALID") ||
                        std::any_of(recipe.pads.begin(), recipe.pads.end(), [](int64_t pad) { return pad != 0; });
    for (const Node *node = near_.writer(recipe.input); node; node = near_.writer(recipe.input)) {
      const Value operand = node->input(node->input(0).constant() ? 1 : 0);
      std::vector<Recipe::Step> read;
      if (!operand || operand.shape().sizes.size() != weights.sizes.size() ||
          !read_step(api_, *node, operand, weights.sizes.size(), weights.sizes[1] * recipe.groups, read) ||
          !keeps_channels(api_, operand, read[0]) || (padded && read[0].kind != Recipe::Step::Kind::kProduct))
        return;
      recipe.before.insert(recipe.before.begin(), read[0]);
      recipe.nodes.insert(recipe.nodes.begin(), *node);
      recipe.input = operand;
    }
  }

  bool add(Recipe &recipe, const Node &node) {
    if (node.type() != "Add") return false;
    const std::string ours = recipe.output.name();
    const bool first = node.input(0).name() == ours;
    const Value other = node.input(first ? 1 : 0);
    if (!other || other.name() == ours || !is_residual(node, recipe.output, other)) return false;
    recipe.residual = other;
    recipe.join(node);
    return true;
  }

  // Whether what a node adds certainly has the same shape. Two graphs may have nodes of one name, the branches of an If
  // say: what was said of the first holds for the other, or the other is left to others.
  bool is_residual(const Node &node, const Value &ours, const Value &other) {
    const std::string name = node.output(0).name();
    auto said = additions_.find(name);
    if (is_claimed_) return said != additions_.end() && said->second;
    const bool certain = symbols_.same_shape(ours, other);
    if (said == additions_.end()) said = additions_.emplace(name, certain).first;
    if (said->second && !certain) left_.insert(node.id());
    return said->second && certain;
  }

  static void pool(Recipe &recipe, const Node &node) {
    const bool most = node.type() == "MaxPool";
    if ((!most && node.type() != "AveragePool") || node.outputs() != 1) return;
    const std::string auto_pad = node.attribute("auto_pad", std::string("NOTSET"));
    if (auto_pad != "NOTSET" && auto_pad != "VALID") return;
    const size_t axes = recipe.strides.size();
    polyconv_onnx::Window window;
    window.kind = most ? POLYCONV_POOL_MAX : POLYCONV_POOL_AVERAGE;
    window.size = node.attribute("kernel_shape", std::vector<int64_t>());
    window.strides = node.attribute("strides", std::vector<int64_t>(axes, 1));
    window.dilations = node.attribute("dilations", std::vector<int64_t>(axes, 1));
    window.pads = node.attribute("pads", std::vector<int64_t>(2 * axes, 0));
    window.ceil = node.attribute("ceil_mode", int64_t{0}) != 0;
    window.count_include_pad = node.attribute("count_include_pad", int64_t{0}) != 0;
    if (window.size.size() != axes || window.strides.size() != axes || window.dilations.size() != axes ||
        window.pads.size() != 2 * axes)
      return;
    for (size_t i = 0; i < axes; ++i) { // polyconv's own bounds: a window that is nowhere empty
      const int64_t reach = window.dilations[i] * (window.size[i] - 1) + 1;
      if (window.dilations[i] != 1 || window.pads[i] >= reach || window.pads[axes + i] >= reach) return;
    }
    recipe.pool = window;
    recipe.join(node);
  }

  // A Conv between DequantizeLinear and QuantizeLinear, whose scales and zero points are constants, one for the tensor
  // (for weights also one a channel), is a QLinearConv.
  bool quantised(Recipe &recipe) const {
    if (recipe.transposed || recipe.residual || recipe.activation != POLYCONV_ACT_NONE) return false;
    const Node *store = near_.reader(recipe.output), *input = dequantised(recipe.input),
               *weights = dequantised(recipe.weights);
    const Node *bias = recipe.bias ? dequantised(recipe.bias) : nullptr;
    if (!store || store->type() != "QuantizeLinear" || !input || !weights || (recipe.bias && !bias)) return false;
    if (!is_byte(input->input(0).shape().type) || !is_byte(weights->input(0).shape().type) ||
        !is_byte(store->output(0).shape().type))
      return false;
    if (!weights->input(0).constant()) return false;
    if (bias && (bias->input(0).shape().type != kInt32 || !bias->input(0).constant())) return false;
    const int64_t channels = recipe.weights.shape().sizes[0];
    if (!are_scales(api_, *input) || !are_scales(api_, *weights, channels) || !are_scales(api_, *store)) return false;
    if (bias && (!are_scales(api_, *bias, channels, bias->attribute("axis", int64_t{1})) ||
                 !is_bias_scale(api_, *bias, input->input(1), weights->input(1))))
      return false;
    recipe.kind = Kind::kQuantised;
    recipe.input = input->input(0), recipe.input_scale = input->input(1), recipe.input_zero = input->input(2);
    recipe.weights = weights->input(0), recipe.weights_scale = weights->input(1),
    recipe.weights_zero = weights->input(2);
    recipe.output_scale = store->input(1), recipe.output_zero = store->input(2);
    std::vector<Node> before = {*input, *weights};
    if (bias) recipe.bias = bias->input(0), before.push_back(*bias);
    recipe.nodes.insert(recipe.nodes.begin(), before.begin(), before.end());
    recipe.join(*store);
    return true;
  }

  // The DequantizeLinear that writes a value, where only one node reads it.
  const Node *dequantised(const Value &value) const {
    const Node *node = near_.writer(value);
    return node && node->type() == "DequantizeLinear" ? node : nullptr;
  }

  void finish(Recipe &recipe) {
    for (const Node &node : recipe.nodes) {
      used_.insert(node.id());
      recipe.text += (recipe.text.empty() ? "" : "+") + node.type();
    }
  }

  const Api &api_;
  std::vector<Node> nodes_;
  std::set<size_t> used_;
  Symbols symbols_;
  Neighbours near_;
  Terms terms_;
  bool is_claimed_;
  Additions &additions_;
  std::set<size_t> left_; // nodes that no operator may have
};

} // namespace

Recipes recipes(const Api &api, const OrtGraph *graph, const Terms &terms, bool is_claimed, Additions &additions) {
  return Reader(api, graph, terms, is_claimed, additions).read();
}

} // namespace polyconv_ort
