// oracle.hpp - what every written tensor must hold, and within which bounds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tail.hpp"

namespace polyconv::check {

// Every written tensor of a chain with its values and bounds.
struct Expected {
  std::vector<Tensor> tensors;
  // By layer, what the pooling windows hold where several indices of a maximum are acceptable; else empty.
  std::vector<Interval> windows;
};

// The mode has nothing to say about these data.
struct NotApplicable {
  std::string sentence;
};

// `data` are make_data's. Throws CallFailed and NotApplicable.
Expected expect(const std::vector<polyconv_problem> &problems, int32_t save, const Tolerance &tolerance,
                const std::vector<Tensor> &data);

} // namespace polyconv::check
