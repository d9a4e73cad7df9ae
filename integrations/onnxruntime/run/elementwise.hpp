// elementwise.hpp - stages of arithmetic over tensors that are broadcast to each other, in one pass over memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_ELEMENTWISE_HPP
#define POLYCONV_ORT_ELEMENTWISE_HPP

#include <cstdint>
#include <vector>

#include "claim/operators.hpp"

namespace polyconv_ort {

// A loop over the elements of a result in the order in which they lie. The result is dense; an operand has a stride for
// each axis, of elements, 0 where it is broadcast, and at most 1 for the last axis.
struct Loop {
  struct Operand {
    const void *data = nullptr;
    int64_t strides[kMostAxes] = {};
    bool constant = false; // of floats, whatever the tensors are of
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
  void *result = nullptr;        // may be an operand whose strides are its own

  void merge(); // axes that lie behind each other for everybody into one, and at least two
  // On the host, over floats, after it has been merged.
  int64_t tasks() const;
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
