// driver.hpp - the CPU-independent half of the direct kernel: geometry and tables, which the
// kernels that bring rows in like it share. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/rows.hpp"
#include "cpu/direct/plan.hpp"

#include <polyconv/sdk/parallel.hpp>

#include <vector>

namespace polyconv::cpu {

// Block sizes, shares and scratch for a forward or backward data layer: arithmetic alone, no tables.
DirectPlan direct_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);

// What a plan points into.
struct DirectTables {
  std::vector<int64_t> axes, planes;
  std::vector<DirectPhase> phases;
  std::vector<DirectTap> taps;
};

// Padding, where each tap of each phase reads, and the planes that any of them needs.
void make_direct_tables(const polyconv_layer &layer, DirectPlan &p, DirectTables &tables);

} // namespace polyconv::cpu
