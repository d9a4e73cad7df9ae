// driver.hpp - the CPU-independent half of weight gradients as a matrix product. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/product/plan.hpp"

namespace polyconv::cpu {

typedef void (*ProductTask)(const ProductPlan &plan, const ProductRun &run, const ProductShare &share);

// Block sizes, shares and scratch: arithmetic alone, no tables. `us` becomes the estimate of the product.
ProductPlan product_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, double *us);

bool product_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> product_create(const polyconv_request &request, Isa isa, ProductTask sum,
                                              ProductTask end);

} // namespace polyconv::cpu
