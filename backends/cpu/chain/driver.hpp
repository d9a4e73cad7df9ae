// driver.hpp - planning and running chains by rows. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/chain/plan.hpp"

namespace polyconv::cpu {

// The layers as stages, without sizes of bands; or a rejection that names the layer.
bool chain_stages(const polyconv_request &request, ChainPlan &plan, sdk::Offer &offer);

// What stages make and keep for bands of `band` rows by `width` columns.
void set_band(ChainPlan &plan, int64_t band, int64_t width);

// Of all images.
inline int64_t bands_of(const ChainPlan &plan) {
  return plan.images * plan.strips * plan.bands;
}

// Whether every stage can make some of its columns.
bool takes_columns(const ChainPlan &plan);

// The whole plan: stages, the kernel of each, bands, tasks, the estimate, and what is known of weights in the offer.
bool chain_plan(const polyconv_request &request, Isa isa, ChainPlan &plan, sdk::Offer &offer);

// The kernel of a stage, ready for windows.
std::unique_ptr<RowInstance> stage_create(const polyconv_request &chain, const ChainStage &stage, Isa isa);

} // namespace polyconv::cpu
