// driver.hpp - the CPU-independent half of separable filters. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/plane/driver.hpp"

namespace polyconv::cpu {

// Whether the layer's filters are declared separable and two passes can compute them; fills the offer.
bool separable_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

// `direct` computes filters that turn out not to be separable when their weights are packed.
std::unique_ptr<sdk::Instance> separable_create(const polyconv_request &request, Isa isa, PlaneTask passes,
                                                PlaneTask direct);

} // namespace polyconv::cpu
