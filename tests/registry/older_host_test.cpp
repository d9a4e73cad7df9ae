// older_host_test.cpp - a backend of today in a library of yesterday: an offer that ends where minor 2 ended is filled
// to there and no further, a policy without the later fields has their defaults, and layers that end where minor 3
// ended are read to there. ctest-label: unit
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/backend.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

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

// Copies whole layers, as kernels do.
bool copies(const polyconv_request &request, int32_t, Offer &offer) {
  const polyconv_layer layer = *request.layers[request.count - 1];
  offer.estimate_us = static_cast<double>(layer.groups);
  return (layer.traits == 0 && layer.pool_dilation[2] == 1) || offer.reject("an unusual layer");
}
class Nothing final : public Instance {
  void run(const polyconv_arguments &, void *) const override {}
};
std::unique_ptr<Instance> create(const polyconv_request &request, int32_t) {
  if (request.layers[0]->struct_size != sizeof(polyconv_layer)) throw Error(POLYCONV_INTERNAL, "a short layer");
  return std::make_unique<Nothing>();
}
const Kernel kCopies = {"copies", 0, kConfigs, 1, copies, create, POLYCONV_TRAIT_OVERLAP};

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

TEST_CASE("layers of an older library are read to their end and no further") {
  polyconv_host library = {};
  library.set_error = set_error;
  polyconv::sdk::host = &library;
  static const polyconv_backend *const backend = make_table({"older-host", "1", "cpu", {&kCopies}, nullptr});
  const polyconv_kernel *kernel = backend->kernels[0];
  CHECK(kernel->takes == POLYCONV_TRAIT_OVERLAP);
  polyconv_policy policy = {};
  policy.struct_size = sizeof policy;
  constexpr size_t kShort = offsetof(polyconv_layer, traits);
  std::vector<std::vector<unsigned char>> memory(2, std::vector<unsigned char>(kShort)); // so that sanitizers see more
  const polyconv_layer *layers[2];
  for (int i = 0; i < 2; ++i) {
    polyconv_layer layer = {};
    layer.struct_size = kShort;
    layer.groups = 3 + i;
    std::memcpy(memory[static_cast<size_t>(i)].data(), &layer, kShort);
    layers[i] = reinterpret_cast<const polyconv_layer *>(memory[static_cast<size_t>(i)].data());
  }
  const polyconv_request request = {sizeof request, POLYCONV_OP_CONVOLVE, 2, layers, &policy};
  polyconv_offer offer = {};
  offer.struct_size = sizeof offer;
  CHECK(kernel->supports(kernel, &request, -1, &offer) == POLYCONV_SUCCESS);
  CHECK(offer.estimate_us == 4);
  void *instance = nullptr;
  CHECK(kernel->create(kernel, &request, 0, &instance) == POLYCONV_SUCCESS);
  kernel->destroy(kernel, instance);
}
