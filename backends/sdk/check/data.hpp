// data.hpp - the numbers that a check computes with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/check.hpp>

#include "problems.hpp"

namespace polyconv::check {

// Every tensor of the chain, those that are read with values: a function of mode, seed and shape alone, whatever the
// strides, the device or the kernel.
std::vector<Tensor> make_data(const std::vector<polyconv_problem> &problems, int32_t save, Mode mode, uint64_t seed);

} // namespace polyconv::check
