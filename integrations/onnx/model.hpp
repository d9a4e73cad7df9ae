// model.hpp - an ONNX file as nodes, constants and values. Texts and data are views of the file's bytes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ONNX_MODEL_HPP
#define POLYCONV_ONNX_MODEL_HPP

#include <map>
#include <set>

#include "wire.hpp"

namespace polyconv_onnx {

enum { // element types, as TensorProto numbers them
  kUnknown = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kInt32 = 6,
  kInt64 = 7,
  kFloat16 = 10,
  kDouble = 11,
  kBfloat16 = 16
};

using Sizes = std::vector<int64_t>;

struct Tensor {
  std::string name;
  int64_t type = kUnknown;
  Sizes sizes;
  std::string_view raw;
  std::vector<float> reals; // where the file has no raw bytes
  Sizes numbers;            // likewise, of integers
  bool elsewhere = false;   // the data are in another file

  bool present() const { return !elsewhere; }
  int64_t elements() const;           // throws Malformed where the product of the sizes leaves 48 bits
  std::vector<char> bytes() const;    // all elements, as the type has them in memory; throws Malformed
  std::vector<double> values() const; // likewise as numbers
};

struct Attribute {
  int64_t number = 0;
  float real = 0;
  std::string text;
  Sizes numbers;
  std::vector<float> reals;
  Tensor tensor;
  bool has_tensor = false;
  std::string reference; // inside a function: the call's attribute that it stands for, "" for none
};

struct Body; // a graph inside a node, below

struct Node {
  std::string name, type; // "Conv"; of another domain than ONNX's own "com.microsoft:FusedConv"
  std::string overload;   // which function of that type it calls, "" for most
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Attribute> attributes;
  std::vector<Body> bodies;

  std::string input(size_t i) const { return i < inputs.size() ? inputs[i] : std::string(); } // "": left out
  const std::string &label() const; // its name, or that of what it writes
  const Attribute *find(const char *name) const;
  int64_t attribute(const char *name, int64_t absent) const;
  float attribute(const char *name, float absent) const;
  std::string attribute(const char *name, const std::string &absent) const;
  Sizes attribute(const char *name, const Sizes &absent) const;
};

struct Value {
  int64_t type = kUnknown;
  bool ranked = false;
  Sizes sizes;                    // -1 where the file tells none
  std::vector<std::string> names; // of sizes that have one, "batch"
};

struct Graph {
  std::vector<Node> nodes;
  std::map<std::string, Tensor> constants; // initialisers, and what Constant nodes hold
  std::map<std::string, Value> inputs;
  std::map<std::string, Value> told; // of other values, where the file tells it
  std::set<std::string> outputs;
  std::vector<std::string> input_order, output_order;
};

struct Body {
  std::string attribute; // "then_branch"
  Graph graph;
};

// All values that a node reads: its inputs, and whatever is named as one inside its bodies. "" for those left out.
std::vector<std::string> read_by(const Node &);

// Adds a node at the end; what a Constant node holds goes to the constants.
void add_node(Node, Graph &);

// The main graph of a file's bytes, which must outlive it, with the bodies of If, Loop and Scan; calls of the model's
// own functions are replaced by what they stand for. Throws Malformed.
Graph read_graph(std::string_view file);

} // namespace polyconv_onnx
#endif // POLYCONV_ONNX_MODEL_HPP
