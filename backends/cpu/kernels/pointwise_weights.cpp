// pointwise_weights.cpp - weight gradients of 1x1 layers, and of windows as large as the image, in f32 and f64 whose
// channels lie side by side: a product whose factors are read where they lie and whose result goes straight to the
// weights.
//
// Floor: the multiply-adds at the FMA rate; of one pixel, storing the weights once.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/pointwise/weights_task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, point_weights_task, const PointWeightsPlan &plan, const PointWeightsRun &run,
                      const GridShare &share)

namespace POLYCONV_ISA {

void point_weights_task(const PointWeightsPlan &plan, const PointWeightsRun &run, const GridShare &share) {
  if (plan.type == POLYCONV_F64)
    point_share<double>(plan, run, share);
  else
    point_share<float>(plan, run, share);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/kernels.hpp"
#include "cpu/pointwise/weights_driver.hpp"

namespace polyconv::cpu {
namespace {

constexpr PointWeightsTask kTask[] = POLYCONV_BY_ISA(point_weights_task);

} // namespace

const sdk::Kernel kernel_pointwise_weights = {"pointwise_weights",
                                              0,
                                              isa_names,
                                              kIsaCount,
                                              supports_by_isa<point_weights_offer>,
                                              create_by_isa<point_weights_create, kTask>};

} // namespace polyconv::cpu
#endif
