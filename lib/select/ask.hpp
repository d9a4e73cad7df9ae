// ask.hpp - one question to one kernel of a plug-in, whose answer is not trusted: nonsense becomes a rejection
// with a reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "registry/registry.hpp"

#include <polyconv/sdk/printf.hpp>

namespace polyconv {

// Calls supports. True: the offer is complete and makes sense. False: offer->reason says why not. An empty batch may
// be estimated to take no time.
bool ask_supports(const KernelEntry &entry, int32_t op, const polyconv_layer *layers, int32_t count,
                  const polyconv_policy &policy, int32_t config, polyconv_offer *offer);

// Sets the reason of an offer (printf-style, cut at its size). Returns false.
POLYCONV_PRINTF(2, 3) bool reject_offer(polyconv_offer *offer, const char *format, ...);

} // namespace polyconv
