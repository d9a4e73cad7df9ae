// cheapest_test.cpp - the config that a CUDA kernel offers: the cheapest, of equals the first, or the one that is
// wanted; and whose reason is heard where none serves.
// SPDX-License-Identifier: Apache-2.0
#include "common/cheapest.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {

using namespace polyconv;

constexpr double kUs[] = {0, 5, 3, 3, 4}; // 0: does not serve
constexpr int32_t kConfigs = 5;

double us(int32_t config) {
  return kUs[config];
}

struct Ways {
  double of[3];
  bool serves(int32_t config, sdk::Offer *chosen) const {
    return of[config] > 0 || (chosen != nullptr && chosen->reject("no room for %d", static_cast<int>(config)));
  }
  double us(int32_t config) const { return of[config]; }
};

} // namespace

TEST_CASE("the cheapest config is offered, of equals the first, and the wanted one where somebody wants it") {
  sdk::Offer offer = {};
  CHECK(cuda::offer_cheapest(kConfigs, -1, offer, us));
  CHECK(offer.config == 2);
  CHECK(offer.estimate_us == 3);
  CHECK(cuda::offer_cheapest(kConfigs, 4, offer, us));
  CHECK(offer.config == 4);
  CHECK(offer.estimate_us == 4);
  CHECK(!cuda::offer_cheapest(kConfigs, 0, offer, us));
  CHECK(!cuda::offer_cheapest(1, -1, offer, us));
}

TEST_CASE("ways say why not: the wanted config, or the speaker where none serves") {
  sdk::Offer offer = {};
  CHECK(cuda::offer_config(Ways{{0, 7, 6}}, 3, -1, offer));
  CHECK(offer.config == 2);
  CHECK(std::string(offer.reason).empty());
  CHECK(!cuda::offer_config(Ways{{0, 7, 6}}, 3, 0, offer));
  CHECK(std::string(offer.reason) == "no room for 0");
  CHECK(!cuda::offer_config(Ways{{0, 0, 0}}, 3, -1, offer, 1));
  CHECK(std::string(offer.reason) == "no room for 1");
}

TEST_CASE("of whole offers the cheapest is kept, and the last reason where there is none") {
  const auto fill = [](int32_t config, sdk::Offer &offer) {
    if (us(config) == 0) return offer.reject("no room for %d", static_cast<int>(config));
    offer.estimate_us = us(config), offer.blocks = 10 * config;
    return true;
  };
  sdk::Offer offer = {};
  CHECK(cuda::offer_filled(kConfigs, -1, offer, fill));
  CHECK(offer.config == 2);
  CHECK(offer.blocks == 20);
  CHECK(cuda::offer_filled(kConfigs, 1, offer, fill));
  CHECK(offer.blocks == 10);
  CHECK(!cuda::offer_filled(kConfigs, 0, offer, fill));
  CHECK(std::string(offer.reason) == "no room for 0");
}
