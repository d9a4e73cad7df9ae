// driver.hpp - the CPU-independent half of large filters by FFT. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/fft/plan.hpp"
#include "cpu/isa.hpp"

namespace polyconv::cpu {

typedef void (*FftTask)(const FftPlan &plan, const FftRun &run, const FftShare &share);
typedef void (*FftSpectrum)(const FftPlan &plan, float *spectrum);

bool fft_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> fft_create(const polyconv_request &request, Isa isa, FftTask task, FftSpectrum spectrum);

} // namespace polyconv::cpu
