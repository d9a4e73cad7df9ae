// geometry.hpp - ONNX's sizes and padding in polyconv's terms.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_GEOMETRY_HPP
#define POLYCONV_ORT_GEOMETRY_HPP

#include <polyconv/polyconv.hpp>

#include "operands.hpp"
#include "recipe.hpp"

namespace polyconv_ort {

// The recipe's convolution over an input of these sizes with weights of these: everything but types, epilogue and zero
// points. Throws Error where the tensors do not fit each other.
polyconv::Problem convolution(const Recipe &, const std::vector<int64_t> &input, const std::vector<int64_t> &weights);

// The pooling that follows, into the epilogue.
void add_pool(const Window &, polyconv::Problem &);

// The sizes of the result, batch and channels first.
std::vector<int64_t> output_sizes(const polyconv::Problem &);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_GEOMETRY_HPP
