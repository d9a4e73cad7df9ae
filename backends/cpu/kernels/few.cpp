// few.cpp - few filters over many channels that lie side by side: the last layers of networks that make images, masks
// or coordinates. Input channels along the vectors, all filters of several results in registers, lanes added up at the
// end. Forward; f32, f16, bf16, any kernel, stride, dilation, group and border.
//
// Floor: reading the input once for 1 x 1; else the multiply-adds at the FMA rate. Adding up the lanes of 16 sums costs
// some 30 cycles, as much as 60 multiply-adds, where output channels along the vectors would leave most lanes idle.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/few/task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, few_task, const FewPlan &plan, const FewRun &run, const FewShare &share)

namespace POLYCONV_ISA {

void few_task(const FewPlan &plan, const FewRun &run, const FewShare &share) {
  switch (plan.input.type) {
    case POLYCONV_F32: return few_filters<float>(plan, run, share);
    case POLYCONV_F16: return few_filters<f16>(plan, run, share);
    case POLYCONV_BF16: return few_filters<bf16>(plan, run, share);
    default: return;
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/few/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr FewTask kTask[] = POLYCONV_BY_ISA(few_task);

} // namespace

const sdk::Kernel kernel_few = {"few",
                                0,
                                isa_names,
                                kIsaCount,
                                supports_by_isa<few_offer>,
                                create_by_isa<few_create, kTask>,
                                sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
