// grouped.cpp - several channels or filters a group, as few as a part of a vector, channels side by side: the sweeps of
// depthwise.cpp with vectors of results that are of several groups. Every type, kernel, stride, dilation, border.
//
// Floor: the multiply-adds, and beside them picking the channels of each lane's group: a pick for each multiply-add,
// but one for 6 of a 3x3 at stride 1 and for 2 at stride 2, whose rows and columns share what they read.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/grouped.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, grouped_task, const DepthwisePlan &plan, const DepthwiseRun &run,
                      const DepthwiseShare &share)

namespace POLYCONV_ISA {

void grouped_task(const DepthwisePlan &plan, const DepthwiseRun &run, const DepthwiseShare &share) {
  depthwise_typed<GroupedFilter>(plan, run, share);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/depthwise/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr DepthwiseTask kTask[] = POLYCONV_BY_ISA(grouped_task);

} // namespace

const sdk::Kernel kernel_grouped = {"grouped",
                                    0,
                                    isa_names,
                                    kIsaCount,
                                    supports_by_isa<grouped_offer>,
                                    create_by_isa<depthwise_create, kTask>,
                                    sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
