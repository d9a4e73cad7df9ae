// depthwise_data.cpp - backward data, one channel a group. Channels last at stride 2, f32 on AVX-512: in one pass over
// source and result (depthwise/spread_plan.hpp); others: depthwise.cpp over the output's gradient (sdk/adjoint.hpp).
// Floor: as forward.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/spread.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, spread_task, const SpreadPlan &plan, const SpreadRun &run, const DepthwiseShare &share)

namespace POLYCONV_ISA {

void spread_task(const SpreadPlan &plan, const SpreadRun &run, const DepthwiseShare &share) {
  if constexpr (kManyRegisters) spread_share(plan, run, share); // nobody asks the others
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/adjoint/driver.hpp"
#include "cpu/depthwise/spread_driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr SpreadTask kTask[] = POLYCONV_BY_ISA(spread_task);

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  if (!choose_isa(config, offer, isa)) return false;
  return spread_takes(request, isa) ? spread_offer(request, isa, offer)
                                    : adjoint_supports(kernel_depthwise, request, config, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  const Isa isa = static_cast<Isa>(config);
  return spread_takes(request, isa) ? spread_create(request, isa, kTask[config])
                                    : adjoint_create(kernel_depthwise, request, config);
}

} // namespace

const sdk::Kernel kernel_depthwise_data = {"depthwise_data",      0, isa_names, kIsaCount, supports, create,
                                           sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
