// handles.hpp - the C API's objects as unique_ptrs, and its failures as sentences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <memory>

namespace polyconv::bench {

template <class T, void (*destroy)(T *)>
struct Destroyer {
  void operator()(T *object) const { destroy(object); }
};

using PlanHandle = std::unique_ptr<polyconv_plan, Destroyer<polyconv_plan, polyconv_plan_destroy>>;
using WeightsHandle = std::unique_ptr<polyconv_weights, Destroyer<polyconv_weights, polyconv_weights_destroy>>;
using BoundHandle = std::unique_ptr<polyconv_bound, Destroyer<polyconv_bound, polyconv_bound_destroy>>;
using ExplanationHandle =
    std::unique_ptr<polyconv_explanation, Destroyer<polyconv_explanation, polyconv_explanation_destroy>>;

// A polyconv struct that the library fills, with its struct_size set.
template <class T>
T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

} // namespace polyconv::bench
