// pointwise.cpp - 1x1 convolution of f32, channels first, stride 1, unpadded: a matrix product with pixels along the
// vectors, read and written in place.
//
// Floor: the multiply-adds at the FMA rate; with few channels, the input and output once at the memory's.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/pointwise/task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, pointwise_task, const PointwisePlan &plan, const PointwiseArguments &arguments,
                      const GridShare &share)

namespace POLYCONV_ISA {

void pointwise_task(const PointwisePlan &plan, const PointwiseArguments &arguments, const GridShare &share) {
  run_pointwise(plan, arguments, share);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/kernels.hpp"
#include "cpu/pointwise/driver.hpp"

namespace polyconv::cpu {
namespace {

constexpr PointwiseTask kTask[] = POLYCONV_BY_ISA(pointwise_task);

} // namespace

const sdk::Kernel kernel_pointwise = {"pointwise",
                                      0,
                                      isa_names,
                                      kIsaCount,
                                      supports_by_isa<pointwise_offer>,
                                      create_by_isa<pointwise_create, kTask>,
                                      sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
