// add_a_kernel.cpp - the fragment of docs/add-a-kernel.md: how a kernel asks for dense data, in words and in the offer.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <cstdio>
#include <cstring>

using namespace polyconv::sdk;

static bool supports(const polyconv_layer &l, Offer &offer) {
  // part dense
  if (!channels_first(l.input)) {
    offer.wants_layout = 1 + POLYCONV_CHANNELS_FIRST; // the plan may convert
    return offer.reject("takes channels first");
  }
  // end dense
  return true;
}

static bool supports_any(const polyconv_request &, int32_t, Offer &) {
  return true;
}
static std::unique_ptr<Instance> create(const polyconv_request &, int32_t) {
  return nullptr;
}
static const char *const configs[] = {"plain"};

static Kernel described() {
  const auto supports = supports_any;
  // part traits
  const Kernel kernel_direct = {
      "direct", 0, configs, 1, supports, create, POLYCONV_TRAIT_OVERLAP | POLYCONV_TRAIT_NEGATIVE_STRIDE};
  // end traits
  return kernel_direct;
}

int main() {
  if (described().takes != (POLYCONV_TRAIT_OVERLAP | POLYCONV_TRAIT_NEGATIVE_STRIDE)) return std::puts("traits"), 1;
  polyconv_layer layer = {};
  Offer offer = {};
  layer.input = {POLYCONV_F32, 0, {1, 2, 1, 3, 3}, {18, 9, 9, 3, 1}, 0};
  if (!supports(layer, offer)) return std::printf("channels first are refused: %s\n", offer.reason), 1;
  layer.input = {POLYCONV_F32, 0, {1, 2, 1, 3, 3}, {18, 1, 18, 6, 2}, 0};
  if (supports(layer, offer) || offer.wants_layout != 1 + POLYCONV_CHANNELS_FIRST) return std::puts("channels last"), 1;
  return std::strcmp(offer.reason, "takes channels first") == 0 ? 0 : 1;
}
