// direct.cpp - the general convolution without a matrix: forward and backward data (hence transposed), every type,
// layout, stride, group and padding mode. Rows of the source are brought into scratch once for a block of result rows;
// register tiles run over channels and taps.
//
// Floor: the multiply-adds at the FMA rate; each source element is loaded once for each tap of D and (1 + (taps of H) /
// (rows of a block)) times. It beats the matrix product where output channels are few, and serves what that rejects.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/types.hpp"
#include "cpu/direct/gather.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, direct_task, const DirectPlan &plan, const DirectRun &run, const DirectShare &share)

namespace POLYCONV_ISA {

void direct_task(const DirectPlan &plan, const DirectRun &run, const DirectShare &share) {
  for_types(plan.source.type, plan.epilogue.sum_type == POLYCONV_S32, [&](auto row) {
    gather_share<typename decltype(row)::From, typename decltype(row)::Sum>(plan, run, share);
  });
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/direct/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr DirectTask kTask[] = POLYCONV_BY_ISA(direct_task);

} // namespace

const sdk::Kernel kernel_direct = {"direct",
                                   0,
                                   isa_names,
                                   kIsaCount,
                                   supports_by_isa<direct_offer>,
                                   create_by_isa<direct_create, kTask>,
                                   sdk::kActivationTraits | POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS};

} // namespace polyconv::cpu
#endif
