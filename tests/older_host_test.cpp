// older_host_test.cpp - a backend of today in a library of yesterday: an offer that ends where minor 2 ended is filled
// to there and no further, and a policy without the later fields has their defaults.
// ctest-label: unit
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/backend.hpp>

#include <algorithm>
#include <cstring>

namespace {

using namespace polyconv::sdk;

bool supports(const polyconv_request &request, int32_t, Offer &offer) {
  offer.estimate_us = 5;
  offer.shared_bytes = std::min<int64_t>(shared_memory_limit(*request.policy), 99);
  offer.say("%d tiles", 3);
  return request.count == 1 || offer.reject("takes one layer");
}

const char *const kConfigs[] = {"only"};
const Kernel kKernel = {"tells", 0, kConfigs, 1, supports, nullptr};

void set_error(const char *) {}

} // namespace

TEST_CASE("an offer of an older library is not written beyond its end") {
  polyconv_host library = {};
  library.set_error = set_error;
  polyconv::sdk::host = &library;
  static const polyconv_backend *const backend = // lives for ever, as a plug-in's does
      make_table({"older-host", "1", "cpu", {&kKernel}, nullptr});
  const polyconv_kernel *kernel = backend->kernels[0];
  polyconv_policy policy = {};
  policy.struct_size = offsetof(polyconv_policy, shared_memory_limit);
  policy.shared_memory_limit = 7; // not there
  polyconv_request request = {sizeof request, POLYCONV_OP_CONVOLVE, 1, nullptr, &policy};

  polyconv_offer offer = {};
  offer.struct_size = offsetof(polyconv_offer, recomputed_outputs);
  unsigned char *behind = reinterpret_cast<unsigned char *>(&offer) + offer.struct_size;
  std::memset(behind, 0x5a, sizeof offer - offer.struct_size);
  CHECK(kernel->supports(kernel, &request, -1, &offer) == POLYCONV_SUCCESS);
  CHECK(offer.struct_size == offsetof(polyconv_offer, recomputed_outputs));
  CHECK(offer.estimate_us == 5);
  CHECK(std::string(offer.weights_format[0]) == "raw");
  CHECK(std::all_of(behind, reinterpret_cast<unsigned char *>(&offer + 1), [](unsigned char c) { return c == 0x5a; }));
  request.count = 2;
  CHECK(kernel->supports(kernel, &request, -1, &offer) == POLYCONV_UNSUPPORTED);
  CHECK(std::string(offer.reason) == "takes one layer");

  polyconv_offer whole = {};
  whole.struct_size = sizeof whole;
  request.count = 1;
  policy.struct_size = sizeof policy;
  CHECK(kernel->supports(kernel, &request, -1, &whole) == POLYCONV_SUCCESS);
  CHECK(whole.shared_bytes == 7);
  CHECK(std::string(whole.note) == "3 tiles");
}
