// cheapest.hpp - which config a kernel offers: the one that somebody wants (`wanted`), or with -1 the cheapest, of
// equals the first. Estimates are microseconds, 0 where a config does not serve.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cuda {

struct Cheapest {
  int32_t config = 0;
  double us = 0; // 0: none serves
};
template <class Us>
Cheapest cheapest(int32_t configs, int32_t wanted, const Us &us) {
  Cheapest best;
  for (int32_t config = wanted < 0 ? 0 : wanted; config < (wanted < 0 ? configs : wanted + 1); ++config) {
    const double one = us(config);
    if (one > 0 && (best.us == 0 || one < best.us)) best = {config, one};
  }
  return best;
}

// By us(config). False where none serves: the reason is the caller's.
template <class Us>
bool offer_cheapest(int32_t configs, int32_t wanted, sdk::Offer &offer, const Us &us) {
  const Cheapest best = cheapest(configs, wanted, us);
  if (best.us > 0) offer.config = best.config;
  offer.estimate_us = best.us;
  return best.us > 0;
}

// By `ways`, which has serves(config, chosen) and us(config), and tells `chosen`, where that is an offer, why not.
// Where none serves, the reason is that of `speaker`.
template <class Ways>
double us_of(const Ways &ways, int32_t config) {
  return ways.serves(config, nullptr) ? ways.us(config) : 0;
}
template <class Ways>
bool offer_config(const Ways &ways, int32_t configs, int32_t wanted, sdk::Offer &offer, int32_t speaker = 0) {
  return offer_cheapest(configs, wanted, offer, [&](int32_t config) { return us_of(ways, config); }) ||
         ways.serves(wanted < 0 ? speaker : wanted, &offer);
}

// By fill(config, offer), which makes the offer of a config, its estimate with it, or says why not. Where none serves,
// the reason is the last one's.
template <class Fill>
bool offer_filled(int32_t configs, int32_t wanted, sdk::Offer &offer, const Fill &fill) {
  sdk::Offer best = {};
  const auto us = [&](int32_t config) {
    offer.config = config;
    if (!fill(config, offer)) return 0.0;
    if (best.estimate_us == 0 || offer.estimate_us < best.estimate_us) best = offer;
    return offer.estimate_us;
  };
  if (cheapest(configs, wanted, us).us == 0) return false;
  offer = best;
  return true;
}

} // namespace polyconv::cuda
