// driver.hpp - the bias gradient as the kernels of weight gradients use it. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/bias/plan.hpp"
#include "cpu/isa.hpp"

#include <polyconv/sdk/parallel.hpp>

namespace polyconv::cpu {

BiasPlan make_bias(const polyconv_layer &layer);

// Of workspace; 0 where no bias is wanted.
int64_t bias_bytes(const BiasPlan &plan);

// Writes the gradient of the bias, where one is wanted. `parallel` may be empty.
void run_bias(const BiasPlan &plan, const polyconv_layer &layer, Isa isa,
              const std::unique_ptr<sdk::Parallel> &parallel, const polyconv_arguments &arguments, char *workspace);

} // namespace polyconv::cpu
