// functions.hpp - a model's own functions (ModelProto.functions): each call becomes the nodes that it stands for.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ONNX_FUNCTIONS_HPP
#define POLYCONV_ONNX_FUNCTIONS_HPP

#include "model.hpp"

namespace polyconv_onnx {

struct Function {
  std::vector<std::string> inputs, outputs;
  Graph body;                                  // its nodes and constants
  std::map<std::string, Attribute> attributes; // those that have a value where a call gives none
};

// By what a node that calls it has as type and overload: "my.domain:Block", "my.domain:Block#wide".
using Functions = std::map<std::string, Function>;
std::string function_key(const std::string &type, const std::string &overload);

// In the graph, in the bodies of its nodes and in the functions that it calls. Values and nodes of a call are named
// behind it, "call/conv". Throws Malformed for functions that call each other in a circle, and for more nodes than any
// network has.
void inline_functions(const Functions &, Graph &);

} // namespace polyconv_onnx
#endif // POLYCONV_ONNX_FUNCTIONS_HPP
