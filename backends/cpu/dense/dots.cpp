// dots.cpp - forward convolution of many channels in bf16, s8 and u8 by instructions that multiply and add two or four
// channels in each 32-bit lane (AVX512-BF16 and AVX512-VNNI; BFDOT and USDOT of Arm, or SDOT for 8 bits alone): the
// register tiles of `dense`, whose elements are pairs or quads of channels.
//
// Floor: the multiply-adds at twice (bf16) or four times (8 bits) the FMA rate where a core has as many units for them
// as for FMA (Zen 5); half of that where it has one. Bringing the source in costs as in `dense`.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dense/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void dots_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share);
void dots_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share) {
  switch (plan.input.type) {
#if !defined(POLYCONV_NEON) || defined(__ARM_FEATURE_MATMUL_INT8)
    case POLYCONV_BF16: return run_dense<bf16, float>(plan, arguments, share);
#endif
    case POLYCONV_S8: return run_dense<int8_t, int32_t>(plan, arguments, share);
    default: return run_dense<uint8_t, int32_t>(plan, arguments, share);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
