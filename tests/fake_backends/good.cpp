// good.cpp - a fake backend that does everything right: two kernels, one with raw weights and one that packs. Its
// packed weights are the negated ones, so that raw weights taken for packed ones, or the other way round, show at once.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include "fake_direct.hpp"

#if !defined(FAKE_FLAGS)
#define FAKE_FLAGS 0
#endif

namespace {

using namespace fake;

bool one_layer(const polyconv_request &request, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer, not %d", static_cast<int>(request.count));
  return takes(*request.layers[0], offer);
}

class Direct final : public Instance {
 public:
  explicit Direct(const polyconv_layer &layer) : layer_(layer) {}
  void run(const polyconv_arguments &a, void *) const override {
    convolve(layer_, static_cast<const float *>(a.input),
             RawWeights{layer_.weights, static_cast<const float *>(a.weights[0])},
             static_cast<const float *>(a.bias[0]), static_cast<float *>(a.output));
  }

 private:
  polyconv_layer layer_;
};

class Negated final : public Instance {
 public:
  explicit Negated(const polyconv_layer &layer) : layer_(layer) {}

  void pack(int, const void *raw, void *packed, void *) override {
    pack_negated(layer_.weights, static_cast<const float *>(raw), static_cast<float *>(packed));
  }

  void run(const polyconv_arguments &a, void *) const override {
    convolve(layer_, static_cast<const float *>(a.input),
             NegatedWeights{layer_.weights, static_cast<const float *>(a.weights[0])},
             static_cast<const float *>(a.bias[0]), static_cast<float *>(a.output));
  }

 private:
  polyconv_layer layer_;
};

const char *const kDirectConfigs[] = {"plain"};
const Kernel kDirect = {
    "direct",
    0,
    kDirectConfigs,
    1,
    [](const polyconv_request &request, int32_t, Offer &offer) { return one_layer(request, offer); },
    [](const polyconv_request &request, int32_t) -> std::unique_ptr<Instance> {
      return std::make_unique<Direct>(*request.layers[0]);
    }};

const char *const kNegatedConfigs[] = {"first", "second"};
const Kernel kNegated = {"negated",
                         0,
                         kNegatedConfigs,
                         2,
                         [](const polyconv_request &request, int32_t config, Offer &offer) {
                           if (!one_layer(request, offer)) return false;
                           offer.set_weights(0, "fake_negated:1", negated_bytes(request.layers[0]->weights));
                           offer.estimate_us *= config == 1 ? 3 : 2;
                           return true;
                         },
                         [](const polyconv_request &request, int32_t) -> std::unique_ptr<Instance> {
                           return std::make_unique<Negated>(*request.layers[0]);
                         }};

polyconv_status probe(char *reason, size_t size) {
  std::snprintf(reason, size, "a note of the good fake");
  return POLYCONV_SUCCESS;
}

} // namespace

POLYCONV_DEFINE_BACKEND({FAKE_NAME, "1.2.3", "cpu", {&kDirect, &kNegated}, probe, nullptr, FAKE_FLAGS})
