// graph.hpp - the runtime's graph as the provider reads it: nodes, their attributes, and values with type, shape and
// constants. Whatever the runtime refuses becomes an Error, which provider.cpp turns back into a status: no exception
// crosses the ABI.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_GRAPH_HPP
#define POLYCONV_ORT_GRAPH_HPP

#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/ort_abi.hpp"

namespace polyconv_ort {

struct Error : std::runtime_error {
  Error(int error_code, const std::string &sentence) : std::runtime_error(sentence), code(error_code) {}
  int code;
};

// Throws Error with the runtime's sentence where the status is one, and releases it.
void require(const Api &api, OrtStatus *status);

// The type and shape of a tensor. Unknown sizes are -1; a size that has a name in the model (batch, N) keeps it in
// `names`.
struct Shape {
  int type = 0; // 0: not a tensor, or not known
  bool ranked = false;
  std::vector<int64_t> sizes;
  std::vector<std::string> names;
};

inline int64_t elements_of(const std::vector<int64_t> &sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

size_t size_of(int type); // bytes of an element; throws Error for a type that no region has

inline bool is_float(int type) { // of 32 or 16 bits
  return type == kFloat || type == kHalf;
}

// Element i of a tensor of floats.
float float_at(int type, const void *data, int64_t i);

// "1x3x224x224".
std::string text_of(const std::vector<int64_t> &sizes);

// The sizes of a tensor that exists.
Shape shape_of(const Api &, const OrtValue *);
const void *data_of(const Api &, const OrtValue *);

class Value {
 public:
  Value() = default;
  Value(const Api *api, const OrtValueInfo *info) : api_(api), info_(info) {}
  explicit operator bool() const { return info_ != nullptr; } // false for an optional input that is left out
  std::string name() const;
  Shape shape() const;
  bool is_output() const;           // the graph's own
  const OrtValue *constant() const; // NULL where the value is not constant
  std::vector<const OrtNode *> consumers() const;

 private:
  const Api *api_ = nullptr;
  const OrtValueInfo *info_ = nullptr;
};

class Node {
 public:
  Node() = default;
  Node(const Api *api, const OrtNode *node);
  const OrtNode *get() const { return node_; }
  size_t id() const { return id_; }
  const std::string &type() const {
    return type_;
  } // "Conv"; of another domain than ONNX's own "com.microsoft:FusedConv"
  std::string name() const;
  bool is_taken() const; // another provider has it
  Value input(size_t index) const { return index < inputs_.size() ? inputs_[index] : Value(); }
  Value output(size_t index) const { return index < outputs_.size() ? outputs_[index] : Value(); }
  size_t outputs() const;
  std::vector<Value> read() const; // all inputs, those of graphs inside the node too

  int64_t attribute(const char *name, int64_t absent) const;
  float attribute(const char *name, float absent) const;
  std::string attribute(const char *name, const std::string &absent) const;
  std::vector<int64_t> attribute(const char *name, const std::vector<int64_t> &absent) const;

 private:
  // Reads an attribute's bytes; false where the node has none of that name.
  bool read(const char *name, int type, std::vector<char> &bytes) const;
  const Api *api_ = nullptr;
  const OrtNode *node_ = nullptr;
  size_t id_ = 0;
  std::string type_;
  std::vector<Value> inputs_, outputs_;
};

std::vector<Node> nodes_of(const Api &, const OrtGraph *); // in topological order

} // namespace polyconv_ort
#endif // POLYCONV_ORT_GRAPH_HPP
