// direct_weights.cpp - weight and bias gradients without a matrix: every float type, layout, stride, group and padding
// mode. Input and gradient rows come into scratch; register tiles of weights run over their pixels.
//
// Floor: the multiply-adds at the FMA rate. Each input row is loaded once for each block of output channels, each
// gradient row once for each block of input channels.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/bias/task.hpp"
#include "cpu/direct/weights_task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, weights_sum, const WeightsPlan &plan, const WeightsRun &run, const WeightsShare &share)
POLYCONV_ISA_FUNCTION(void, weights_join, const WeightsPlan &plan, const WeightsRun &run, int64_t piece, void *partial)

namespace POLYCONV_ISA {

void weights_sum(const WeightsPlan &plan, const WeightsRun &run, const WeightsShare &share) {
  if (plan.rows.source.type == POLYCONV_F64)
    weights_typed<double>(plan, run, share);
  else
    weights_typed<float>(plan, run, share);
}

void weights_join(const WeightsPlan &plan, const WeightsRun &run, int64_t piece, void *partial) {
  if (plan.weights.type == POLYCONV_F64)
    join_typed(plan, run, piece, static_cast<double *>(partial));
  else
    join_typed(plan, run, piece, static_cast<float *>(partial));
}

void bias_task(const BiasPlan &plan, const void *biased, int64_t split, double *totals) {
  switch (plan.biased.type) {
    case POLYCONV_F64: return bias_typed<double, double>(plan, biased, split, totals);
    case POLYCONV_F16: return bias_typed<f16, float>(plan, biased, split, totals);
    case POLYCONV_BF16: return bias_typed<bf16, float>(plan, biased, split, totals);
    default: return bias_typed<float, float>(plan, biased, split, totals);
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/direct/weights_driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr decltype(WeightsTasks::sum) kSum[] = POLYCONV_BY_ISA(weights_sum);
constexpr decltype(WeightsTasks::join) kJoin[] = POLYCONV_BY_ISA(weights_join);

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return weights_create(request, static_cast<Isa>(config), {kSum[config], kJoin[config]});
}

} // namespace

const sdk::Kernel kernel_direct_weights = {
    "direct_weights", 0, isa_names, kIsaCount, supports_by_isa<weights_offer>, create, POLYCONV_TRAIT_WIDE_GRADIENT};

} // namespace polyconv::cpu
#endif
