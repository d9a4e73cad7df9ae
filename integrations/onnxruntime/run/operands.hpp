// operands.hpp - the tensors of one run of a layer: constants that the layer keeps, and what the runtime hands in.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_OPERANDS_HPP
#define POLYCONV_ORT_OPERANDS_HPP

#include <map>
#include <string>
#include <vector>

#include "runtime/graph.hpp"

namespace polyconv_ort {

// The inputs of a fused node by name.
using Inputs = std::map<std::string, size_t>;

struct View { // of a tensor
  const void *data = nullptr;
  int type = 0;
  std::vector<int64_t> sizes;
  int64_t elements() const { return elements_of(sizes); }
};

View input_view(const Api &, const OrtKernelContext *, size_t index);

// One operand: absent, a copy of a constant (the runtime frees its own), or the number of an input.
class Operand {
 public:
  Operand() = default;
  Operand(const Api &, const Value &, const Inputs &);
  bool exists() const { return exists_; }
  bool constant() const { return constant_; }
  View view(const Api &, const OrtKernelContext *) const;

 private:
  bool exists_ = false, constant_ = false;
  size_t index_ = 0;
  std::vector<char> bytes_;
  View view_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_OPERANDS_HPP
