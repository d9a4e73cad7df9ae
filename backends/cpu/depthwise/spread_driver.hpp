// spread_driver.hpp - the CPU-independent half of spread_plan.hpp. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/spread_plan.hpp"
#include "cpu/isa.hpp"

namespace polyconv::cpu {

// Whether the layer is one of those, on an instruction set that has the registers.
bool spread_takes(const polyconv_request &request, Isa isa);

// Fills the offer for such a layer, or rejects it.
bool spread_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> spread_create(const polyconv_request &request, Isa isa);

} // namespace polyconv::cpu
