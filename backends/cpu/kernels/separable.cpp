// separable.cpp - filters that are outer products, declared so by the caller, in two passes: every float and image
// type, any size, every border, planes and interleaved pixels.
//
// Floor of R x C taps: R + C multiply-adds a result instead of R * C, and one read and one write of each pixel; rows
// between the passes stay in the first cache. Along W each multiply-add has a load that mostly crosses a cache line, so
// a pass of C taps takes C cycles a vector, one along H of R taps R / 2.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/separable/task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, separable_task, const PlanePlan &plan, const PlaneRun &run, const PlaneShare &share)

namespace POLYCONV_ISA {

void separable_task(const PlanePlan &plan, const PlaneRun &run, const PlaneShare &share) {
  plane_typed<SeparableFilters>(plan, run, share);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/kernels.hpp"
#include "cpu/separable/driver.hpp"

namespace polyconv::cpu {
namespace {

constexpr PlaneTask kPasses[] = POLYCONV_BY_ISA(separable_task);
constexpr PlaneTask kDirect[] = POLYCONV_BY_ISA(image_task);

} // namespace

const sdk::Kernel kernel_separable = {"separable",
                                      0,
                                      isa_names,
                                      kIsaCount,
                                      supports_by_isa<separable_offer>,
                                      create_by_isa<separable_create, kPasses, kDirect>,
                                      sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
