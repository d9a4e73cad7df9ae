// model.cpp - messages of ONNX by the numbers of their fields.
//
// Source: onnx/onnx.proto of ONNX 1.17 (IR version 10); a field keeps its number for ever, and unknown ones are
// skipped.
//
// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <polyconv/sdk/half.hpp>

#include <algorithm>

#include "functions.hpp"

namespace polyconv_onnx {
namespace {

constexpr int kDeepest = 32; // graphs in graphs, about where protobuf's own readers stop

size_t bytes_of(int64_t type) {
  switch (type) {
    case kFloat:
    case kInt32: return 4;
    case kUint8:
    case kInt8: return 1;
    case kInt64:
    case kDouble: return 8;
    case kFloat16:
    case kBfloat16: return 2;
    default: return 0;
  }
}

template <class T>
double number_of(T value) {
  return static_cast<double>(value);
}
double number_of(polyconv::sdk::f16 value) {
  return static_cast<double>(polyconv::sdk::to_float(value));
}
double number_of(polyconv::sdk::bf16 value) {
  return static_cast<double>(polyconv::sdk::to_float(value));
}

Tensor read_tensor(std::string_view bytes) {
  Tensor tensor;
  for (Wire wire(bytes); wire.next();) switch (wire.field()) {
      case 1: wire.append(tensor.sizes); break;
      case 2: tensor.type = wire.number(); break;
      case 4: wire.append(tensor.reals); break;
      case 5: // int32_data, of every type of at most 32 bits
      case 7: wire.append(tensor.numbers); break;
      case 8: tensor.name = wire.text(); break;
      case 9: tensor.raw = wire.bytes(); break;
      case 14: tensor.elsewhere = wire.number() == 1; break;
      default: break;
    }
  return tensor;
}

void fill_graph(std::string_view bytes, int depth, Graph &graph);

std::string in_domain(const std::string &domain, const std::string &type) {
  return domain.empty() || domain == "ai.onnx" ? type : domain + ":" + type;
}

void read_attribute(std::string_view bytes, int depth, Node &node) {
  std::string name;
  Attribute attribute;
  std::vector<size_t> bodies; // whose attribute's name may come after them
  for (Wire wire(bytes); wire.next();) switch (wire.field()) {
      case 1: name = wire.text(); break;
      case 2: attribute.real = wire.real(); break;
      case 3: attribute.number = wire.number(); break;
      case 4: attribute.text = wire.text(); break;
      case 5: attribute.tensor = read_tensor(wire.bytes()), attribute.has_tensor = true; break;
      case 6:
        node.bodies.emplace_back();
        fill_graph(wire.bytes(), depth + 1, node.bodies.back().graph);
        bodies.push_back(node.bodies.size() - 1);
        break;
      case 7: wire.append(attribute.reals); break;
      case 8: wire.append(attribute.numbers); break;
      case 21: attribute.reference = wire.text(); break;
      default: break;
    }
  for (size_t body : bodies) node.bodies[body].attribute = name;
  node.attributes[name] = std::move(attribute);
}

Node read_node(std::string_view bytes, int depth) {
  Node node;
  std::string domain;
  for (Wire wire(bytes); wire.next();) switch (wire.field()) {
      case 1: node.inputs.push_back(wire.text()); break;
      case 2: node.outputs.push_back(wire.text()); break;
      case 3: node.name = wire.text(); break;
      case 4: node.type = wire.text(); break;
      case 5: read_attribute(wire.bytes(), depth, node); break;
      case 7: domain = wire.text(); break;
      case 8: node.overload = wire.text(); break;
      default: break;
    }
  node.type = in_domain(domain, node.type);
  return node;
}

void read_shape(std::string_view bytes, Value &value) {
  value.ranked = true;
  for (Wire wire(bytes); wire.next();) {
    if (wire.field() != 1) continue;
    value.sizes.push_back(-1), value.names.emplace_back();
    for (Wire size(wire.bytes()); size.next();) {
      if (size.field() == 1) value.sizes.back() = std::max<int64_t>(-1, size.number());
      if (size.field() == 2) value.names.back() = size.text();
    }
  }
}

void read_type(std::string_view bytes, Value &value) {
  for (Wire type(bytes); type.next();) {
    if (type.field() != 1) continue; // no tensor
    for (Wire tensor(type.bytes()); tensor.next();) {
      if (tensor.field() == 1) value.type = tensor.number();
      if (tensor.field() == 2) read_shape(tensor.bytes(), value);
    }
  }
}

// Returns its name.
std::string read_value(std::string_view bytes, std::map<std::string, Value> &values) {
  std::string name;
  Value value;
  for (Wire wire(bytes); wire.next();) {
    if (wire.field() == 1) name = wire.text();
    if (wire.field() == 2) read_type(wire.bytes(), value);
  }
  values[name] = std::move(value);
  return name;
}

void fill_graph(std::string_view bytes, int depth, Graph &graph) {
  if (depth > kDeepest) throw Malformed("graphs lie more than " + std::to_string(kDeepest) + " deep in each other");
  std::map<std::string, Value> outputs;
  for (Wire wire(bytes); wire.next();) switch (wire.field()) {
      case 1: add_node(read_node(wire.bytes(), depth), graph); break;
      case 5: {
        Tensor tensor = read_tensor(wire.bytes());
        std::string name = tensor.name;
        graph.constants[name] = std::move(tensor);
        break;
      }
      case 11: graph.input_order.push_back(read_value(wire.bytes(), graph.inputs)); break;
      case 12: graph.output_order.push_back(read_value(wire.bytes(), outputs)); break;
      case 13: read_value(wire.bytes(), graph.told); break;
      default: break;
    }
  for (auto &output : outputs) graph.outputs.insert(output.first), graph.told.insert(std::move(output));
  for (const auto &constant : graph.constants) graph.inputs.erase(constant.first); // old files list initialisers there
  graph.input_order.erase(std::remove_if(graph.input_order.begin(), graph.input_order.end(),
                                         [&](const std::string &name) { return graph.inputs.count(name) == 0; }),
                          graph.input_order.end());
}

void read_function(std::string_view bytes, Functions &functions) {
  Function function;
  std::string name, domain, overload;
  for (Wire wire(bytes); wire.next();) switch (wire.field()) {
      case 1: name = wire.text(); break;
      case 4: function.inputs.push_back(wire.text()); break;
      case 5: function.outputs.push_back(wire.text()); break;
      case 7: add_node(read_node(wire.bytes(), 0), function.body); break;
      case 10: domain = wire.text(); break;
      case 11: {
        Node defaults;
        read_attribute(wire.bytes(), 0, defaults);
        function.attributes.insert(defaults.attributes.begin(), defaults.attributes.end());
        break;
      }
      case 13: overload = wire.text(); break;
      default: break;
    }
  functions[function_key(in_domain(domain, name), overload)] = std::move(function);
}

void add_read(const Node &node, std::vector<std::string> &names) {
  names.insert(names.end(), node.inputs.begin(), node.inputs.end());
  for (const Body &body : node.bodies) {
    for (const Node &inner : body.graph.nodes) add_read(inner, names);
    names.insert(names.end(), body.graph.output_order.begin(), body.graph.output_order.end()); // also of outer values
  }
}

} // namespace

void add_node(Node node, Graph &graph) {
  const Attribute *value = node.type == "Constant" ? node.find("value") : nullptr;
  if (value && value->has_tensor && node.outputs.size() == 1)
    graph.constants[node.outputs[0]] = value->tensor;
  else
    graph.nodes.push_back(std::move(node));
}

std::vector<std::string> read_by(const Node &node) {
  std::vector<std::string> names;
  add_read(node, names);
  return names;
}

int64_t Tensor::elements() const {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size < 0 || size > (INT64_C(1) << 48) || (size > 0 && product > (INT64_C(1) << 48) / size))
      throw Malformed("tensor " + name + " has a size of " + std::to_string(size) + ", which no tensor can have");
    product *= size;
  }
  return product;
}

std::vector<char> Tensor::bytes() const {
  const auto count = static_cast<size_t>(elements());
  const size_t each = bytes_of(type), given = raw.empty() ? std::max(reals.size(), numbers.size()) : raw.size();
  if (each == 0) throw Malformed("tensor " + name + " is of element type " + std::to_string(type));
  if (given != (raw.empty() ? count : count * each))
    throw Malformed("tensor " + name + " has " + std::to_string(given) + (raw.empty() ? " elements" : " bytes") +
                    " of data, expected " + std::to_string(raw.empty() ? count : count * each));
  if (!raw.empty()) return std::vector<char>(raw.begin(), raw.end());
  std::vector<char> result(count * each);
  if (count == 0) return result;
  if (reals.size() == count && type == kFloat) {
    std::memcpy(result.data(), reals.data(), result.size());
  } else if (numbers.size() == count && type != kFloat && type != kDouble) {
    for (size_t i = 0; i < count; ++i) // the low bytes come first, as on every machine that polyconv runs on
      std::memcpy(result.data() + i * each, &numbers[i], each);
  } else {
    throw Malformed("tensor " + name + " of element type " + std::to_string(type) + " has its data in another field");
  }
  return result;
}

std::vector<double> Tensor::values() const {
  const std::vector<char> data = bytes();
  std::vector<double> result(static_cast<size_t>(elements()));
  auto as = [&](auto sample) {
    for (size_t i = 0; i < result.size(); ++i) {
      std::memcpy(&sample, data.data() + i * sizeof sample, sizeof sample);
      result[i] = number_of(sample);
    }
  };
  switch (type) {
    case kFloat: as(float()); break;
    case kInt64: as(int64_t()); break;
    case kInt32: as(int32_t()); break;
    case kUint8: as(uint8_t()); break;
    case kInt8: as(int8_t()); break;
    case kDouble: as(double()); break;
    case kFloat16: as(polyconv::sdk::f16()); break;
    case kBfloat16: as(polyconv::sdk::bf16()); break;
    default: throw Malformed("tensor " + name + " is of element type " + std::to_string(type) + ", expected a number");
  }
  return result;
}

const std::string &Node::label() const {
  return name.empty() && !outputs.empty() ? outputs[0] : name;
}

const Attribute *Node::find(const char *attribute_name) const {
  auto found = attributes.find(attribute_name);
  return found == attributes.end() ? nullptr : &found->second;
}

int64_t Node::attribute(const char *attribute_name, int64_t absent) const {
  const Attribute *found = find(attribute_name);
  return found ? found->number : absent;
}

float Node::attribute(const char *attribute_name, float absent) const {
  const Attribute *found = find(attribute_name);
  return found ? found->real : absent;
}

std::string Node::attribute(const char *attribute_name, const std::string &absent) const {
  const Attribute *found = find(attribute_name);
  return found ? found->text : absent;
}

Sizes Node::attribute(const char *attribute_name, const Sizes &absent) const {
  const Attribute *found = find(attribute_name);
  return found ? found->numbers : absent;
}

Graph read_graph(std::string_view file) {
  Graph graph;
  Functions functions;
  bool found = false;
  for (Wire model(file); model.next();) {
    if (model.field() == 25) read_function(model.bytes(), functions);
    if (model.field() != 7) continue;
    if (found) throw Malformed("there are two graphs");
    found = true;
    fill_graph(model.bytes(), 0, graph);
  }
  if (!found) throw Malformed("there is no graph in it");
  inline_functions(functions, graph);
  return graph;
}

} // namespace polyconv_onnx
