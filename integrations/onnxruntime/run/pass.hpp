// pass.hpp - what an operator between layers does to the tensors, channels first or last.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_PASS_HPP
#define POLYCONV_ORT_PASS_HPP

#include "claim/operators.hpp"

namespace polyconv_ort {

class Pass {
 public:
  struct Tensor {
    void *data = nullptr;
    const std::vector<int64_t> *sizes = nullptr; // batch and channels first, however it lies
    bool last = false;                           // the channels lie last
  };

  Pass(const Api &, const Operator &);
  const std::string &name() const { return name_; }
  const std::string &text() const { return operator_.text; } // "Mul+Add"
  bool is_elementwise() const { return operator_.kind == Operator::Kind::kElementwise; }
  bool is_average() const { return operator_.kind == Operator::Kind::kAverage; }

  // Throws Error where the sizes do not fit.
  std::vector<int64_t> output_sizes(const std::vector<std::vector<int64_t>> &inputs) const;

  // On the session's threads. Tensors of more than one pixel lie as the output does, but for an average's. The output
  // of an elementwise operator may be an input of its size.
  void run(const std::vector<Tensor> &inputs, const Tensor &output) const;

 private:
  struct Constant {
    std::vector<int64_t> sizes;
    std::vector<float> numbers;
  };
  void elementwise(const std::vector<Tensor> &, const Tensor &) const;
  void average(const Tensor &, const Tensor &) const;
  void concat(const std::vector<Tensor> &, const Tensor &) const;
  void enlarge(const Tensor &, const Tensor &) const;

  const Api &api_;
  Operator operator_; // without its nodes and values, which live no longer than the graph
  std::string name_;
  size_t axes_;                     // of every tensor
  std::vector<Constant> constants_; // of the stages
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_PASS_HPP
