// dense_weights.cpp - weight gradients of many channels as a product of packed panels, every float type, layout,
// stride, dilation, group and padding mode: register tiles of input channels by output channels over a few hundred
// pixels.
//
// Floor: the multiply-adds at the FMA rate, less those that meet zero padding and are left out. Packing adds 2 to 3
// operations for each vector of input and gradient, which a piece of up to 256 channels of the other shares.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/product/store.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void product_sum(const ProductPlan &plan, const WeightsRun &run, const ProductShare &share) {
  if (plan.input.type == POLYCONV_F64)
    run_product<double>(plan, run, share);
  else
    run_product<float>(plan, run, share);
}

void product_end(const ProductPlan &plan, const WeightsRun &run, const ProductShare &share) {
  if (plan.input.type == POLYCONV_F64)
    end_product(plan, run, share, static_cast<double *>(share.sums));
  else
    end_product(plan, run, share, static_cast<float *>(share.sums));
}

} // namespace polyconv::cpu::POLYCONV_ISA
