// dense.cpp - forward convolution of many channels, every type: register tiles of pixels by output channels over the
// whole reduction, source pixels read in place where they lie as wanted; any padding mode, stride, dilation, layout.
//
// Floor: the multiply-adds at the FMA rate, less those that meet zero padding and are left out. Where the source cannot
// be read in place, bringing it into the cache adds 1 to 5 operations for each of its vectors, which all panels of
// output channels and all taps then share: below 3 % from 64 output channels on.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/types.hpp"
#include "cpu/dense/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void dense_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share) {
  for_types(plan.input.type, plan.arithmetic == DenseArithmetic::kPairs, [&](auto row) {
    run_dense<typename decltype(row)::From, typename decltype(row)::Sum>(plan, arguments, share);
  });
}

} // namespace polyconv::cpu::POLYCONV_ISA
