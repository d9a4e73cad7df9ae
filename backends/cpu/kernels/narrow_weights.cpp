// narrow_weights.cpp - weight gradients of groups of few channels or filters, f32, channels side by side: an outer
// product at each pixel, one tap at a time, nothing packed. Any kernel, stride and dilation; zero padding is left out.
//
// Floor: the multiply-adds. Each has a load of its own, or a pick where a vector is of several groups: 85 to 95 % of
// the rate, half to two thirds with picks.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/product/narrow.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, narrow_weights_sum, const NarrowPlan &plan, const NarrowRun &run, const NarrowShare &share)
POLYCONV_ISA_FUNCTION(void, narrow_weights_end, const NarrowPlan &plan, const NarrowRun &run, int64_t vector)

namespace POLYCONV_ISA {

void narrow_weights_sum(const NarrowPlan &plan, const NarrowRun &run, const NarrowShare &share) {
  narrow_share(plan, run, share);
}

void narrow_weights_end(const NarrowPlan &plan, const NarrowRun &run, int64_t vector) {
  narrow_join(plan, run, vector);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/kernels.hpp"
#include "cpu/product/narrow_driver.hpp"

namespace polyconv::cpu {
namespace {

constexpr decltype(NarrowTasks::sum) kSum[] = POLYCONV_BY_ISA(narrow_weights_sum);
constexpr decltype(NarrowTasks::join) kJoin[] = POLYCONV_BY_ISA(narrow_weights_end);

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return narrow_create(request, static_cast<Isa>(config), {kSum[config], kJoin[config]});
}

} // namespace

const sdk::Kernel kernel_narrow_weights = {
    "narrow_weights", 0, isa_names, kIsaCount, supports_by_isa<narrow_offer>, create};

} // namespace polyconv::cpu
#endif
