// pass.hpp - what an operator between layers does to the tensors, channels first or last.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_PASS_HPP
#define POLYCONV_ORT_PASS_HPP

#include <memory>

#include "claim/operators.hpp"
#include "run/elementwise.hpp"
#include "run/place.hpp"

namespace polyconv_ort {

struct PassTensor {
  void *data = nullptr;
  const std::vector<int64_t> *sizes = nullptr; // batch and channels first, however it lies
  bool last = false;                           // the channels lie last
};

// The axis of a tensor of rank `axes` that lies at a place: as they are, or with the channels at the end.
inline size_t axis_at(size_t place, size_t axes, bool last) {
  return !last || place == 0 ? place : place + 1 == axes ? 1 : place + 1;
}

class Pass {
 public:
  using Tensor = PassTensor;

  Pass(const Api &, const Place &, const Operator &);
  const std::string &name() const { return name_; }
  const std::string &text() const { return operator_.text; } // "Mul+Add"
  Operator::Kind kind() const { return operator_.kind; }
  const std::vector<int64_t> &factors() const { return operator_.factors; }
  int type() const { return type_; } // of every tensor
  bool is_elementwise() const { return operator_.kind == Operator::Kind::kElementwise; }
  bool is_average() const { return operator_.kind == Operator::Kind::kAverage; }

  // Throws Error where the sizes do not fit.
  std::vector<int64_t> output_sizes(const std::vector<std::vector<int64_t>> &inputs) const;

  // An elementwise operator over these tensors, merged.
  Loop loop(const std::vector<Tensor> &inputs, const Tensor &output) const;

  // On the host, over floats, on the session's threads. Tensors of more than one pixel lie as the output does, but for
  // an average's. The output of an elementwise operator may be an input of its size.
  void run(const std::vector<Tensor> &inputs, const Tensor &output) const;

 private:
  struct Constant { // floats, where the operator runs; NULL: the stage has none
    std::vector<int64_t> sizes;
    std::shared_ptr<const void> numbers;
  };
  void average(const Tensor &, const Tensor &) const;
  void concat(const std::vector<Tensor> &, const Tensor &) const;
  void enlarge(const Tensor &, const Tensor &) const;

  const Api &api_;
  Operator operator_; // without its nodes and values, which live no longer than the graph
  std::string name_;
  size_t axes_; // of every tensor
  int type_;
  std::vector<Constant> constants_; // of the stages
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_PASS_HPP
