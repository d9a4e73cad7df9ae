// tail.hpp - what follows the sum, computed by the check itself in double: activation, pooling, rounding to the output
// type; and how far an error in the sum may carry through each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problems.hpp"

namespace polyconv::check {

// The accuracy that a kernel is held to.
struct Tolerance {
  double factor = 0; // c of |y - r| <= u_out |r| + c sqrt(K) u_acc sum |x||w|; 0: exact
  double unit = 0;   // u_acc

  bool exact() const { return factor == 0; }
  bool operator==(const Tolerance &other) const { return factor == other.factor && unit == other.unit; }
};

struct Interval { // values and how far off they may be, of one shape
  polyconv_tensor shape;
  Values value, bound;
};

// The bound of what nobody can know: Inf times a number whose sign, or whether it is 0, is a matter of rounding. Any
// result is right there. Every other bound is at least 0, and Inf beside a value that is not finite.
constexpr double kUnknown = -1;

// `slopes` are a PRelu's, else empty.
void apply_activation(const polyconv_epilogue &epilogue, const Values &slopes, const Tolerance &tolerance, Interval &v);

// Pools. Where `argmax` is given it gets, for every result, the index of the first maximum.
Interval apply_pool(const polyconv_problem &problem, const Tolerance &tolerance, const Interval &v, Values *argmax);

// Whether index `found` of result `dense` names a maximum, as far as the bounds can tell.
bool plausible_argmax(const polyconv_problem &problem, const Interval &before, int64_t dense, double found);

// Rounds to the output type: integer outputs quantise.
void apply_output(const polyconv_problem &problem, const Tolerance &tolerance, Interval &v);

} // namespace polyconv::check
