// functions.cpp - see functions.hpp.
//
// Source: onnx/onnx.proto of ONNX 1.17, FunctionProto: formal inputs and outputs are matched by place, trailing ones
// may be missing, and an attribute of a node may refer to one of the call.
//
// SPDX-License-Identifier: Apache-2.0
#include "functions.hpp"

#include <utility>

namespace polyconv_onnx {
namespace {

constexpr int kDeepest = 32;            // calls in calls
constexpr int64_t kMostNodes = 1 << 18; // of all calls together
constexpr int64_t kNumbersANode = 64;   // as many numbers, copied, count as one node more

// What the values of a function are called in one call of it.
class Names {
 public:
  Names(const Function &function, const Node &call) : prefix_(call.label() + "/") {
    for (size_t i = 0; i < function.inputs.size(); ++i) names_[function.inputs[i]] = call.input(i);
    for (size_t i = 0; i < function.outputs.size(); ++i)
      if (i < call.outputs.size() && !call.outputs[i].empty()) names_[function.outputs[i]] = call.outputs[i];
  }
  std::string operator()(const std::string &name) const {
    if (name.empty()) return name;
    auto found = names_.find(name);
    return found == names_.end() ? prefix_ + name : found->second;
  }
  std::string of_node(const std::string &name) const { return name.empty() ? name : prefix_ + name; }

 private:
  std::string prefix_;
  std::map<std::string, std::string> names_;
};

class Inliner {
 public:
  explicit Inliner(const Functions &functions) : functions_(functions) {}

  void run(Graph &graph, int depth) {
    if (depth > kDeepest) throw Malformed("functions call each other more than " + std::to_string(kDeepest) + " deep");
    std::vector<Node> nodes;
    for (Node &node : graph.nodes) {
      for (Body &body : node.bodies) run(body.graph, depth);
      auto function = functions_.find(function_key(node.type, node.overload));
      if (function == functions_.end()) {
        nodes.push_back(std::move(node));
        continue;
      }
      Graph called = call(function->second, node);
      run(called, depth + 1);
      graph.constants.insert(called.constants.begin(), called.constants.end());
      for (Node &inner : called.nodes) nodes.push_back(std::move(inner));
    }
    graph.nodes = std::move(nodes);
  }

 private:
  Graph call(const Function &function, const Node &node) {
    std::map<std::string, Attribute> given = node.attributes;
    given.insert(function.attributes.begin(), function.attributes.end());
    return renamed(function.body, Names(function, node), given);
  }

  Graph renamed(const Graph &graph, const Names &names, const std::map<std::string, Attribute> &given) {
    Graph result;
    for (const auto &[name, tensor] : graph.constants) result.constants[names(name)] = counted(tensor);
    for (const auto &[name, value] : graph.inputs) result.inputs[names(name)] = value;
    for (const auto &[name, value] : graph.told) result.told[names(name)] = value;
    for (const std::string &name : graph.outputs) result.outputs.insert(names(name));
    for (const std::string &name : graph.input_order) result.input_order.push_back(names(name));
    for (const std::string &name : graph.output_order) result.output_order.push_back(names(name));
    for (const Node &node : graph.nodes) count(0), add_node(renamed(node, names, given), result);
    return result;
  }

  void count(size_t numbers) {
    nodes_ += 1 + static_cast<int64_t>(numbers) / kNumbersANode;
    if (nodes_ > kMostNodes) throw Malformed("its functions make more than " + std::to_string(kMostNodes) + " nodes");
  }
  const Tensor &counted(const Tensor &tensor) {
    count(tensor.sizes.size() + tensor.reals.size() + tensor.numbers.size());
    return tensor;
  }
  const Attribute &counted(const Attribute &attribute) {
    count(attribute.numbers.size() + attribute.reals.size() + attribute.text.size());
    counted(attribute.tensor);
    return attribute;
  }

  Node renamed(const Node &node, const Names &names, const std::map<std::string, Attribute> &given) {
    Node result;
    result.name = names.of_node(node.name), result.type = node.type, result.overload = node.overload;
    for (const std::string &input : node.inputs) result.inputs.push_back(names(input));
    for (const std::string &output : node.outputs) result.outputs.push_back(names(output));
    for (const auto &[name, attribute] : node.attributes) {
      if (attribute.reference.empty()) {
        result.attributes[name] = counted(attribute);
        continue;
      }
      auto found = given.find(attribute.reference); // what nobody gives is as if it were not there
      if (found != given.end()) result.attributes[name] = counted(found->second);
    }
    for (const Body &body : node.bodies) result.bodies.push_back({body.attribute, renamed(body.graph, names, given)});
    return result;
  }

  const Functions &functions_;
  int64_t nodes_ = 0;
};

} // namespace

std::string function_key(const std::string &type, const std::string &overload) {
  return overload.empty() ? type : type + "#" + overload;
}

void inline_functions(const Functions &functions, Graph &graph) {
  if (!functions.empty()) Inliner(functions).run(graph, 0);
}

} // namespace polyconv_onnx
