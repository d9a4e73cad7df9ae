// wgmma_cost.hpp - what a layer costs on the Hopper product.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

// Microseconds in a config.
double product_us(const polyconv_layer &layer, int config);
// Of that, results that leave element by element.
double scattering_us(const polyconv_layer &layer, const Shape &shape);

} // namespace polyconv::cuda::wgmma
