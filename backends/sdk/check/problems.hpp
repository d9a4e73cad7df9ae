// problems.hpp - what the check asks about problems, and the simpler problems that it derives from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <string>
#include <vector>

#include "values.hpp"

namespace polyconv::check {

enum class Row { Float, Image, Quantised };
Row row_of(const polyconv_problem &problem);

// The type in which a kernel sums the row's products (F64, F32 or S32).
int32_t sum_type(const polyconv_problem &problem);

// One tensor of a chain. `values` are what it holds: given where it is read, found or expected where it is written.
struct Tensor {
  int32_t which; // POLYCONV_TENSOR_*
  int32_t layer;
  bool written;
  polyconv_tensor shape;
  int64_t bytes;
  Values values;
  Values bound; // of expected values: |found - expected| may be so large; empty means 0
};

// Every tensor that a run touches, in the order input, output, then layer by layer.
std::vector<Tensor> tensors_of(const std::vector<polyconv_problem> &problems, int32_t save);
const char *tensor_name(int32_t which);

Tensor *find(std::vector<Tensor> &tensors, int32_t which, int32_t layer);
const Tensor *find(const std::vector<Tensor> &tensors, int32_t which, int32_t layer);
polyconv_tensor shape_of(const polyconv_problem &problem, int32_t which);

// The shape of the output before pooling.
polyconv_tensor convolved_shape(const polyconv_problem &problem);

// The most products that any one element of the result sums.
double products(const polyconv_problem &problem);

// The same convolution up to the activation: bias, scale and residual stay, activation, pooling and quantisation go;
// dense channels first, every tensor of a float type; residuals come from a buffer.
polyconv_problem bare(const polyconv_problem &problem, int32_t type);

// The same problem with dense channels-first tensors, every residual from a buffer.
polyconv_problem densely(const polyconv_problem &problem);

} // namespace polyconv::check
