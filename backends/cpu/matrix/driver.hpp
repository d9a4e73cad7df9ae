// driver.hpp - the geometry and the packed weights of the matrix kernel. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/matrix/plan.hpp"

#include <polyconv/sdk/parallel.hpp>

#include <vector>

namespace polyconv::cpu {

// Blocks, shares and scratch for a forward layer: arithmetic alone, no tables.
MatrixPlan matrix_geometry(const polyconv_layer &layer, const polyconv_policy &policy, MatrixProducts products);

// The byte offset of every tap of a position.
std::vector<int64_t> matrix_taps(const MatrixPlan &plan);

// Raw weights as [group][panel][chunk][tap][part][half][16 rows of channels][16 output channels], zeros where no
// channel is; behind each panel of integers the sums of its weights.
void matrix_pack(const MatrixPlan &plan, const polyconv_layer &layer, const std::unique_ptr<sdk::Parallel> &parallel,
                 const void *raw, void *packed);

} // namespace polyconv::cpu
