// bias_gradient.hpp - the gradient of a bias: for each channel the sum of the output's gradient (of the input of a
// transposed problem) over the pixels of the batch. What every kernel for backward weights does beside its product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::cuda {

// Bytes of workspace, 0 where the layer has no bias.
int64_t bias_gradient_bytes(const polyconv_layer &layer);

// Microseconds, 0 where the layer has no bias.
double bias_gradient_us(const polyconv_layer &layer);

// Nothing where the layer has no bias.
void bias_gradient(const polyconv_layer &layer, const polyconv_arguments &arguments, void *workspace,
                   cudaStream_t stream);

} // namespace polyconv::cuda
