// fft.cpp - large filters over planes by Fourier transforms of tiles, under math fast: planes of f32, f16, bf16, u8 and
// u16, and any layout of them.
//
// Floor: two transforms there and back of n^2 complex values for two tiles, 10 log2(n) operations a value of one tile,
// whatever the size of the filter; of n^2 values (n - taps + 1)^2 are results.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/fft/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void fft_task(const FftPlan &plan, const FftRun &run, const FftShare &share) {
  fft_share(plan, run, share);
}

void fft_spectrum(const FftPlan &plan, float *spectrum) {
  transform_square(plan, spectrum, spectrum + plan.square);
}

} // namespace polyconv::cpu::POLYCONV_ISA

#ifdef POLYCONV_DRIVER
#include "cpu/fft/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr FftTask kTask[] = POLYCONV_BY_ISA(fft_task);
constexpr FftSpectrum kSpectrum[] = POLYCONV_BY_ISA(fft_spectrum);

} // namespace

const sdk::Kernel kernel_fft = {"fft",
                                POLYCONV_KERNEL_TRANSFORM,
                                isa_names,
                                kIsaCount,
                                supports_by_isa<fft_offer>,
                                create_by_isa<fft_create, kTask, kSpectrum>,
                                sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
