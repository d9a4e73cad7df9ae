// compare.hpp - what was found against what was expected.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/check.hpp>

#include "oracle.hpp"

namespace polyconv::check {

// Compares every expected tensor with its namesake in `found`; sets verdict, errors, worst and sentence.
// `spreads`: a transform's non-finite results may be more than depend on what is not finite, in the same image or
// of the same filter.
void compare(const std::vector<polyconv_problem> &problems, const Expected &expected, const std::vector<Tensor> &found,
             bool spreads, Result &result);

} // namespace polyconv::check
