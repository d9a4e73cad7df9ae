// scope.hpp - what is known of the values of one graph, and of those outside it that it may read: a body of If, Loop or
// Scan sees what the graph around it does.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ONNX_SCOPE_HPP
#define POLYCONV_ONNX_SCOPE_HPP

#include "model.hpp"

namespace polyconv_onnx {

class Scope {
 public:
  // Both outlive the scope; `outer` is NULL for the main graph. Knows the constants and, of inputs, what the file
  // tells. Throws Malformed for a constant that no tensor can be.
  explicit Scope(const Graph &, const Scope *outer = nullptr);

  const Graph &graph() const { return graph_; }

  // NULL where it is not known, or of `value`, where the file does not tell. A name means the innermost value that has
  // it.
  const Sizes *shape(const std::string &value) const;
  const Tensor *constant(const std::string &value) const; // its data may be elsewhere
  const Value *value(const std::string &name) const;
  const Sizes *told(const std::string &value) const; // the shape that the file tells of a value of this graph
  int64_t type(const std::string &value) const;      // kUnknown

  void set_shape(const std::string &value, Sizes sizes);
  void set_type(const std::string &value, int64_t type); // where none is known yet

  // What is known of a value outside becomes known of an input of this graph, where the file tells less.
  void hand_in(const std::string &input, const Sizes *sizes, int64_t type);

 private:
  const Scope *of(const std::string &value) const; // the innermost one that has it; NULL for none

  const Graph &graph_;
  const Scope *outer_;
  std::set<std::string> own_; // the values of this graph
  std::map<std::string, Sizes> shapes_;
  std::map<std::string, int64_t> types_;
};

} // namespace polyconv_onnx
#endif // POLYCONV_ONNX_SCOPE_HPP
