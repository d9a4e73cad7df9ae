// operators.hpp - operators between layers that the provider takes, so that what is around them stays one region.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_OPERATORS_HPP
#define POLYCONV_ORT_OPERATORS_HPP

#include <set>
#include <string>
#include <vector>

#include "run/device_loop.hpp"
#include "runtime/graph.hpp"

namespace polyconv_ort {

// One step of an elementwise operator, of what the steps before gave and perhaps one more number.
struct Stage {
  using Kind = StepKind;
  Kind kind = Kind::kSum;
  int operand = -1;          // which of the operator's inputs is the second number; -1: none is
  Value constant;            // the second number, where it is a constant: one number, or one for each index of one axis
  float alpha = 0, beta = 0; // kClamp: the bounds; kHardSigmoid: as in ONNX; kLeakyRelu: alpha
};

struct Operator {
  enum class Kind {
    kElementwise, // inputs[0], through `stages`; inputs are broadcast to each other
    kAverage,     // of all pixels
    kConcat,      // along the channels
    kEnlarge      // each pixel repeated, `factors` times along each axis
  };
  Kind kind = Kind::kElementwise;
  std::vector<Node> nodes; // in topological order
  std::vector<Value> inputs;
  Value output;
  std::vector<Stage> stages;
  std::vector<int64_t> factors;
  std::string text; // "Mul+Add"
};

constexpr size_t kMostStages = kMostDeviceSteps;

// The one float of a constant, of 32 or 16 bits; NaN where there is none. An operand that is left out gives `absent`.
float constant_float(const Api &, const Value &, float absent);

// A constant of floats with no more than one axis that is longer than 1: it lies in memory alike in any layout.
bool is_vector(const Api &, const Value &);

// The operators among the nodes that are not `used`. All of their tensors are floats, where `half` is set also of 16
// bits, with the same number of axes, 3 to 5, which the graph tells.
std::vector<Operator> operators(const Api &, const std::vector<Node> &, const std::set<size_t> &used, bool half);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_OPERATORS_HPP
