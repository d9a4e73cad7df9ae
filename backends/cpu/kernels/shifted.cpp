// shifted.cpp - many channels, channels first, stride 1: results along the vectors, numbered through the padded source
// rows, so that a tap is those rows shifted by a constant. Forward; floats, any kernel, dilation, group and border.
//
// Floor: the multiply-adds at the FMA rate, and of each row as many more as its padding is wide. Bringing in a source
// element costs 1 / (filters x taps) of the multiply-adds it takes part in, some ten times that in time.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/shifted/task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, shifted_task, const ShiftedPlan &plan, const ShiftedRun &run, const GridShare &share)

namespace POLYCONV_ISA {

void shifted_task(const ShiftedPlan &plan, const ShiftedRun &run, const GridShare &share) {
  switch (plan.input.type) {
    case POLYCONV_F32: return run_shifted<float>(plan, run, share);
    case POLYCONV_F16: return run_shifted<f16>(plan, run, share);
    case POLYCONV_BF16: return run_shifted<bf16>(plan, run, share);
    default: return;
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/kernels.hpp"
#include "cpu/shifted/driver.hpp"

namespace polyconv::cpu {
namespace {

constexpr ShiftedTask kTask[] = POLYCONV_BY_ISA(shifted_task);

} // namespace

const sdk::Kernel kernel_shifted = {"shifted",
                                    0,
                                    isa_names,
                                    kIsaCount,
                                    supports_by_isa<shifted_offer>,
                                    create_by_isa<shifted_create, kTask>,
                                    sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
