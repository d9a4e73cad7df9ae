// cheapest.hpp - which config a kernel offers where nobody names one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cuda {

// Offers the cheapest of the configs, or the one that somebody wants. us(config): its microseconds, 0 where it does not
// serve. False where none does.
template <class Us>
bool offer_cheapest(int32_t configs, int32_t wanted, sdk::Offer &offer, const Us &us) {
  double least = 0;
  for (int32_t config = wanted < 0 ? 0 : wanted; config < (wanted < 0 ? configs : wanted + 1); ++config) {
    const double one = us(config);
    if (one > 0 && (least == 0 || one < least)) least = one, offer.config = config;
  }
  offer.estimate_us = least;
  return least > 0;
}

} // namespace polyconv::cuda
