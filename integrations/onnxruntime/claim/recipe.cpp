// recipe.cpp - finds convolutions and what follows them in a graph.
//
// A node is joined to its convolution only where nobody else reads what lies between them: then no value is computed
// twice, and no cycle can arise, since whatever a fused node reads was there before it.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/recipe.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

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
  Reader(const Api &api, const OrtGraph *graph, const Terms &terms, bool is_claimed, Additions &additions)
      : api_(api),
        nodes_(nodes_of(api, graph)),
        symbols_(nodes_),
        terms_(terms),
        is_claimed_(is_claimed),
        additions_(additions) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      position_[nodes_[i].id()] = i;
      for (size_t k = 0; nodes_[i].output(k); ++k) producer_[nodes_[i].output(k).name()] = i;
    }
  }

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

  // The only node that reads the recipe's output, if there is one and it is free.
  const Node *next(const Recipe &recipe) const {
    if (recipe.output.is_output()) return nullptr;
    const auto consumers = recipe.output.consumers();
    return consumers.size() == 1 ? free(consumers[0]) : nullptr;
  }

  const Node *free(const OrtNode *raw) const {
    size_t id = 0;
    require(api_, api_.Node_GetId(raw, &id));
    auto found = position_.find(id);
    if (found == position_.end() || used_.count(id)) return nullptr;
    const Node &node = nodes_[found->second];
    return node.is_taken() ? nullptr : &node;
  }

  static void join(Recipe &recipe, const Node &node) {
    recipe.nodes.push_back(node);
    recipe.output = node.output(0);
  }

  // Whatever follows goes into the epilogue, in its order: normalisation, residual, activation, pooling.
  void follow(Recipe &recipe) {
    if (recipe.kind == Kind::kFloats && quantised(recipe)) return;
    if (recipe.kind != Kind::kFloats) return;
    before(recipe);
    const Node *node = next(recipe);
    while (node && recipe.activation == POLYCONV_ACT_NONE && !recipe.residual && step(recipe, *node))
      node = next(recipe);
    if (node && recipe.activation == POLYCONV_ACT_NONE && !recipe.residual && add(recipe, *node)) node = next(recipe);
    if (recipe.activation == POLYCONV_ACT_NONE && activate(recipe, node)) node = next(recipe);
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
    join(recipe, node);
    return true;
  }

  // Likewise what is done to its input, where nobody else reads that. A sum can be folded where no padding lies beside
  // what it is added to.
  void before(Recipe &recipe) const {
    if (recipe.transposed || !has_constant_weights(recipe)) return;
    const Shape weights = recipe.weights.shape();
    const bool padded = (recipe.auto_pad != "NOTSET" && recipe.auto_pad != "VALID") ||
                        std::any_of(recipe.pads.begin(), recipe.pads.end(), [](int64_t pad) { return pad != 0; });
    for (const Node *node = writer(recipe.input); node; node = writer(recipe.input)) {
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

  // The node that writes a value, where it is free and only one node reads the value.
  const Node *writer(const Value &value) const {
    auto found = producer_.find(value.name());
    if (found == producer_.end() || value.is_output() || value.consumers().size() != 1) return nullptr;
    return free(nodes_[found->second].get());
  }

  bool add(Recipe &recipe, const Node &node) {
    if (node.type() != "Add") return false;
    const std::string ours = recipe.output.name();
    const bool first = node.input(0).name() == ours;
    const Value other = node.input(first ? 1 : 0);
    if (!other || other.name() == ours || !is_residual(node, recipe.output, other)) return false;
    recipe.residual = other;
    join(recipe, node);
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

  // One node, or a gate: Sigmoid or HardSigmoid and the product of what goes in with what comes out.
  bool activate(Recipe &recipe, const Node *node) const {
    if (!node) return gate(recipe);
    const std::string &type = node->type();
    if (type == "Relu")
      recipe.activation = POLYCONV_ACT_RELU;
    else if (type == "Sigmoid")
      recipe.activation = POLYCONV_ACT_SIGMOID;
    else if (type == "Tanh")
      recipe.activation = POLYCONV_ACT_TANH;
    else if (type == "HardSwish")
      recipe.activation = POLYCONV_ACT_HARD_SWISH;
    else if (type == "LeakyRelu" || type == "Elu") {
      const float alpha = node->attribute("alpha", type == "Elu" ? 1.0f : 0.01f);
      if (!std::isfinite(alpha)) return false;
      recipe.alpha = alpha;
      recipe.activation = type == "Elu" ? POLYCONV_ACT_ELU : POLYCONV_ACT_LEAKY_RELU;
    } else if (type == "Gelu" || type == "com.microsoft:Gelu")
      recipe.activation =
          node->attribute("approximate", std::string("none")) == "tanh" ? POLYCONV_ACT_GELU_TANH : POLYCONV_ACT_GELU;
    else if (type != "Clip" || !clip(recipe, *node))
      return false;
    join(recipe, *node);
    return true;
  }

  bool clip(Recipe &recipe, const Node &node) const {
    const float infinity = std::numeric_limits<float>::infinity();
    const float least = constant_float(api_, node.input(1), node.attribute("min", -infinity));
    const float most = constant_float(api_, node.input(2), node.attribute("max", infinity));
    if (least != 0 || !(most > 0)) return false; // NaN too: a bound that is not constant
    recipe.activation = std::isinf(most) ? POLYCONV_ACT_RELU : POLYCONV_ACT_CLIPPED_RELU;
    recipe.alpha = std::isinf(most) ? 0 : most;
    return true;
  }

  bool gate(Recipe &recipe) const {
    if (recipe.output.is_output()) return false;
    const auto consumers = recipe.output.consumers();
    if (consumers.size() != 2) return false;
    const Node *a = free(consumers[0]), *b = free(consumers[1]);
    if (!a || !b) return false;
    const Node &product = a->type() == "Mul" ? *a : *b, &sigmoid = a->type() == "Mul" ? *b : *a;
    if (product.type() != "Mul") return false;
    if (sigmoid.type() == "Add") return written_out(recipe, sigmoid, product);
    const bool hard = sigmoid.type() == "HardSigmoid" && std::fabs(sigmoid.attribute("alpha", 0.2f) * 6 - 1) < 1e-5f &&
                      sigmoid.attribute("beta", 0.5f) == 0.5f;
    if (!hard && sigmoid.type() != "Sigmoid") return false;
    if (sigmoid.output(0).is_output() || sigmoid.output(0).consumers().size() != 1) return false;
    const std::string gated = sigmoid.output(0).name(), plain = recipe.output.name();
    const std::string left = product.input(0).name(), right = product.input(1).name();
    if (!((left == gated && right == plain) || (left == plain && right == gated))) return false;
    recipe.activation = hard ? POLYCONV_ACT_HARD_SWISH : POLYCONV_ACT_SILU;
    join(recipe, sigmoid);
    join(recipe, product);
    return true;
  }

  // The other operand of a node, as a constant number; NaN where it is none.
  float other_operand(const Node &node, const std::string &ours) const {
    return constant_float(api_, node.input(node.input(0).name() == ours ? 1 : 0),
                          std::numeric_limits<float>::quiet_NaN());
  }

  // The only reader of a value, if it is free and of this type.
  const Node *only_reader(const Value &value, const char *type) const {
    if (value.is_output()) return nullptr;
    const auto consumers = value.consumers();
    const Node *node = consumers.size() == 1 ? free(consumers[0]) : nullptr;
    return node && node->type() == type ? node : nullptr;
  }

  // HardSwish as older exporters write it out: x * Clip(x + 3, 0, 6) / 6, with a product by 1/6 for the quotient
  // perhaps.
  bool written_out(Recipe &recipe, const Node &shift, const Node &product) const {
    const std::string plain = recipe.output.name();
    if (other_operand(shift, plain) != 3) return false;
    const Node *bounds = only_reader(shift.output(0), "Clip");
    Recipe clipped;
    if (!bounds || !clip(clipped, *bounds) || clipped.activation != POLYCONV_ACT_CLIPPED_RELU || clipped.alpha != 6)
      return false;
    const Node *reader = only_reader(bounds->output(0), "Mul");
    if (!reader || reader->id() != product.id()) return false;
    const std::string sum = product.output(0).name();
    const Node *quotient = only_reader(product.output(0), "Div"), *scaled = only_reader(product.output(0), "Mul");
    const bool divided = quotient && quotient->input(0).name() == sum && other_operand(*quotient, sum) == 6;
    const bool multiplied = scaled && std::fabs(other_operand(*scaled, sum) * 6 - 1) < 1e-6f;
    if (!divided && !multiplied) return false;
    recipe.activation = POLYCONV_ACT_HARD_SWISH;
    for (const Node *node : {&shift, bounds, &product, divided ? quotient : scaled}) join(recipe, *node);
    return true;
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
    join(recipe, node);
  }

  // A Conv between DequantizeLinear and QuantizeLinear, whose scales and zero points are constants, one for the tensor
  // (for weights also one a channel), is a QLinearConv.
  bool quantised(Recipe &recipe) const {
    if (recipe.transposed || recipe.residual || recipe.activation != POLYCONV_ACT_NONE) return false;
    const Node *store = next(recipe), *input = dequantised(recipe.input), *weights = dequantised(recipe.weights);
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
    join(recipe, *store);
    return true;
  }

  // The DequantizeLinear that writes a value, where only one node reads it.
  const Node *dequantised(const Value &value) const {
    const Node *node = writer(value);
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
  Symbols symbols_;
  Terms terms_;
  bool is_claimed_;
  Additions &additions_;
  std::set<size_t> left_; // nodes that no operator may have
  std::map<size_t, size_t> position_;
  std::map<std::string, size_t> producer_;
  std::set<size_t> used_;
};

} // namespace

Recipes recipes(const Api &api, const OrtGraph *graph, const Terms &terms, bool is_claimed, Additions &additions) {
  return Reader(api, graph, terms, is_claimed, additions).read();
}

} // namespace polyconv_ort
