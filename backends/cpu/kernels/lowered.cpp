// lowered.cpp - few channels, channels first: rows lowered along W, vectors of results that run on over row ends,
// several filters a tile. Forward; float and image types, any kernel, stride, dilation, group and border.
//
// Floor: the multiply-adds at the FMA rate, without a lane wasted but in the last vector of a strip. Lowering copies
// each source element once for each tap of W: 1 / (filters x taps of H) of the multiply-adds, twice that in time.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/lowered/task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, lowered_task, const LoweredPlan &plan, const LoweredRun &run, const GridShare &share)

namespace POLYCONV_ISA {

void lowered_task(const LoweredPlan &plan, const LoweredRun &run, const GridShare &share) {
  switch (plan.rows.source.type) {
    case POLYCONV_F32: return lowered_share_of<float>(plan, run, share);
    case POLYCONV_F16: return lowered_share_of<f16>(plan, run, share);
    case POLYCONV_BF16: return lowered_share_of<bf16>(plan, run, share);
    case POLYCONV_U16: return lowered_share_of<uint16_t>(plan, run, share);
    case POLYCONV_U8: return lowered_share_of<uint8_t>(plan, run, share);
    default: return;
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/kernels.hpp"
#include "cpu/lowered/driver.hpp"

namespace polyconv::cpu {
namespace {

constexpr LoweredTask kTask[] = POLYCONV_BY_ISA(lowered_task);

} // namespace

const sdk::Kernel kernel_lowered = {"lowered",
                                    0,
                                    isa_names,
                                    kIsaCount,
                                    supports_by_isa<lowered_offer>,
                                    create_by_isa<lowered_create, kTask>,
                                    sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
