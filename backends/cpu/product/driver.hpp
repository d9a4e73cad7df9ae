// driver.hpp - the CPU-independent half of weight gradients as a matrix product. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/product/plan.hpp"

namespace polyconv::cpu {

// Block sizes, shares and scratch: arithmetic alone, no tables. `us` becomes the estimate of the product.
ProductPlan product_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, double *us);

} // namespace polyconv::cpu
