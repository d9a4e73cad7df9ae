// driver.hpp - the CPU-independent half of Winograd's convolution. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/isa.hpp"
#include "cpu/winograd/plan.hpp"

namespace polyconv::cpu {

typedef void (*WinogradTask)(const WinogradPlan &plan, const WinogradRun &run, const WinogradShare &share);

// Tiles of m x m results; m is 2 or 4.
bool winograd_offer(const polyconv_request &request, Isa isa, int64_t m, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> winograd_create(const polyconv_request &request, Isa isa, int64_t m, WinogradTask task);

} // namespace polyconv::cpu
