// driver.hpp - the CPU-independent half of the direct kernel: geometry, offer, packed weights, instance. Driver side
// only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/bounds.hpp"
#include "cpu/direct/plan.hpp"
#include "cpu/rows.hpp"

#include <polyconv/sdk/parallel.hpp>

#include <vector>

namespace polyconv::cpu {

typedef void (*DirectTask)(const DirectPlan &plan, const DirectRun &run, const DirectShare &share);

// Block sizes, shares and scratch for a forward or backward data layer: arithmetic alone, no tables.
DirectPlan direct_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);

// Whether the request is a layer of these directions, and the offer filled in.
bool direct_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> direct_create(const polyconv_request &request, Isa isa, DirectTask task);

// What a plan points into.
struct DirectTables {
  std::vector<int64_t> axes, planes;
  std::vector<DirectPhase> phases;
  std::vector<DirectTap> taps;
};

// Padding, where each tap of each phase reads, and the planes that any of them needs.
void make_direct_tables(const polyconv_layer &layer, DirectPlan &p, DirectTables &tables);

// For every kernel that convolves one layer without pooling: the reasons that all share. `sdk::Offer` is filled but for
// the estimate and the weights where it returns true.
bool takes_one_layer(const polyconv_request &request, sdk::Offer &offer);
bool takes_strips(const polyconv_request &request, sdk::Offer &offer); // likewise, for kernels that lay out strips
bool takes_no_pooling(const polyconv_layer &layer, sdk::Offer &offer);
bool can_list_a_pixel(const polyconv_layer &layer, sdk::Offer &offer); // for kernels that keep one of padding

} // namespace polyconv::cpu
