// elementwise.hpp - stages of arithmetic over tensors that are broadcast to each other, in one pass over memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_ELEMENTWISE_HPP
#define POLYCONV_ORT_ELEMENTWISE_HPP

#include <cstdint>
#include <vector>

#include "claim/operators.hpp"

namespace polyconv_ort {

constexpr int kMostAxes = 5;

// A loop over the elements of a result in the order in which they lie. The result is dense; an operand has a stride for
// each axis, of elements, 0 where it is broadcast, and at most 1 for the last axis.
struct Loop {
  struct Operand {
    const float *data = nullptr;
    int64_t strides[kMostAxes] = {};
  };
  struct Step {
    Stage::Kind kind;
    int operand; // -1: none
    float alpha, beta;
  };
  int axes = 0;
  int64_t sizes[kMostAxes] = {};
  std::vector<Operand> operands; // the first is what the first step works on
  std::vector<Step> steps;       // at least one
  float *result = nullptr;       // may be an operand whose strides are its own

  void merge();                      // axes that lie behind each other for everybody into one, and at least two
  int64_t tasks() const;             // after it
  void run_task(int64_t task) const; // any thread, any order

 private:
  int64_t row_blocks() const;
  int64_t column_blocks() const;
  int64_t block_rows() const;
  int64_t blocks() const;
  void run_block(int64_t block) const;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_ELEMENTWISE_HPP
