// driver.hpp - the CPU-independent half of the kernels that multiply matrices: geometry, offers, packed weights and the
// instance. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/gemm/plan.hpp"
#include "cpu/isa.hpp"

#include <polyconv/sdk/parallel.hpp>

#include <vector>

namespace polyconv::cpu {

typedef void (*GemmTask)(const GemmPlan &plan, const GemmRun &run, const GemmShare &share);

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}
inline int64_t element_bytes(const GemmPlan &p) {
  return p.arithmetic == GemmArithmetic::kF64 ? 8 : 4;
}

// True where the result has its channels side by side, so that reading in place must go along them; else along pixels.
bool gemm_channels_last(const polyconv_layer &layer);

// Block sizes and shares for a layer: arithmetic alone, no tables. `in_place` says that packing costs nothing.
GemmPlan gemm_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, bool in_place);

// True where the request is a forward layer; else rejected with a reason. Then the kernel's own conditions follow.
bool gemm_takes(const polyconv_request &request, sdk::Offer &offer);

// Fills the offer, or rejects pooling (last of all, so that the plan knows that a step of its own would help) and a
// workspace beyond the limit.
bool gemm_offer(const polyconv_request &request, Isa isa, bool in_place, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> gemm_create(const polyconv_request &request, Isa isa, bool in_place, GemmTask task);

} // namespace polyconv::cpu
