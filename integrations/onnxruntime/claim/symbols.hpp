// symbols.hpp - which tensors have the same shape in every run, though the model leaves sizes open.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_SYMBOLS_HPP
#define POLYCONV_ORT_SYMBOLS_HPP

#include <map>

#include "runtime/graph.hpp"

namespace polyconv_ort {

// Gives every size a text: a number, a name of the model's, or how it follows from other sizes. Equal texts are equal
// sizes.
class Symbols {
 public:
  explicit Symbols(const std::vector<Node> &nodes); // in topological order
  bool same_shape(const Value &, const Value &) const;

 private:
  using Texts = std::vector<std::string>; // of a tensor's axes; empty: not even their number is known
  Texts texts_of(const Value &) const;
  Texts follow(const Node &) const;
  Texts windows(const Node &, bool convolution) const;
  Texts elementwise(const Node &) const;

  std::map<std::string, Texts> texts_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_SYMBOLS_HPP
