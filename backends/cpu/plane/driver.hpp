// driver.hpp - the CPU-independent half of filters over planes. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/rows.hpp"
#include "cpu/isa.hpp"
#include "cpu/plane/plan.hpp"

#include <polyconv/sdk/parallel.hpp>

#include <vector>

namespace polyconv::cpu {

typedef void (*PlaneTask)(const PlanePlan &plan, const PlaneRun &run, const ItemShare &share);

// True where the layer filters single channels (forward, float and image rows, planes or interleaved pixels); else
// rejected with a reason. The request is already known to be one layer.
bool plane_takes(const polyconv_layer &layer, Isa isa, sdk::Offer &offer);

// Fills the offer, or rejects pooling and a workspace beyond the limit.
bool plane_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

// Sizes, shares and the estimate, without tables. `passes`: the filters are factors along H and along W.
PlanePlan plane_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, bool passes);

// A plan and the tables that it points into.
class PlaneFilter {
 public:
  PlaneFilter(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, bool passes, PlaneTask task);
  PlaneFilter(const PlaneFilter &) = delete;

  int64_t tasks() const { return plan_.tasks; }
  void run(const polyconv_arguments &arguments, const void *weights,
           const std::unique_ptr<sdk::Parallel> &threads) const;
  void run_rows(const polyconv_arguments &arguments, const void *weights, const RowWindow &window) const;

 private:
  PlanePlan plan_;
  PlaneTask task_;

  int64_t vector_;
  bool aligned_, may_stream_; // rows that begin on a whole vector; and results beyond the caches
  std::vector<int64_t> axes_, remainders_, taps_;
};

std::unique_ptr<sdk::Instance> plane_create(const polyconv_request &request, Isa isa);

} // namespace polyconv::cpu
