// depthwise_weights.cpp - weight gradients of one channel a group and one filter of each, channels side by side:
// vectors of channels, up to ten taps' sums in registers, source pixels found by a table. Every float type and padding
// mode; along W kernels of any width at stride 1 or 2, not dilated, along H and D any.
//
// Floor: one read of input and gradient; a 3x3 has 9 multiply-adds for each result, 4.5 cycles, for 10 loads.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/types.hpp"
#include "cpu/depthwise/weights_task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, depthwise_weights_sum, const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run,
                      const DepthwiseWeightsShare &share)
POLYCONV_ISA_FUNCTION(void, depthwise_weights_end, const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run,
                      int64_t channel)

namespace POLYCONV_ISA {

void depthwise_weights_sum(const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run,
                           const DepthwiseWeightsShare &share) {
  switch (plan.input.type) {
    case POLYCONV_F64: return depthwise_weights_share<double, double>(plan, run, share);
    case POLYCONV_F16: return depthwise_weights_share<f16, float>(plan, run, share);
    case POLYCONV_BF16: return depthwise_weights_share<bf16, float>(plan, run, share);
    default: return depthwise_weights_share<float, float>(plan, run, share);
  }
}

void depthwise_weights_end(const DepthwiseWeightsPlan &plan, const DepthwiseWeightsRun &run, int64_t channel) {
  if (plan.input.type == POLYCONV_F64)
    depthwise_weights_join<double>(plan, run, channel);
  else
    depthwise_weights_join<float>(plan, run, channel);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/depthwise/weights_driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr decltype(DepthwiseWeightsTasks::sum) kSum[] = POLYCONV_BY_ISA(depthwise_weights_sum);
constexpr decltype(DepthwiseWeightsTasks::join) kJoin[] = POLYCONV_BY_ISA(depthwise_weights_end);

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return depthwise_weights_create(request, static_cast<Isa>(config), {kSum[config], kJoin[config]});
}

} // namespace

const sdk::Kernel kernel_depthwise_weights = {
    "depthwise_weights",         0, isa_names, kIsaCount, supports_by_isa<depthwise_weights_offer>, create,
    POLYCONV_TRAIT_WIDE_GRADIENT};

} // namespace polyconv::cpu
#endif
