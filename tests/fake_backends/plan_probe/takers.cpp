// takers.cpp - plan_probe's kernels that convolve. What each is for stands beside its definition.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include <chrono>
#include <cstring>
#include <thread>

#include "probe.hpp"

namespace probe {
namespace {

constexpr int64_t kScratchBytes = 1000;

// Computes a layer, or a chain in one go with what lies between in its workspace.
class Direct final : public Instance {
 public:
  explicit Direct(const polyconv_request &request) {
    for (int i = 0; i < request.count; ++i) layers_.push_back(*request.layers[i]);
  }

  void run(const polyconv_arguments &a, void *) const override {
    const float *results[POLYCONV_MAX_CHAIN]; // a run allocates nothing
    float *between = static_cast<float *>(a.workspace);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const polyconv_layer &l = layers_[i];
      const int index = static_cast<int>(i), from = l.epilogue.residual_from;
      Operands x = operands(a, index);
      if (i > 0) x.input = results[i - 1];
      if (i + 1 < layers_.size()) {
        x.output = between;
        between += elements(l.result);
      }
      if (from == POLYCONV_RESIDUAL_INPUT) x.residual = static_cast<const float *>(a.input);
      if (from >= POLYCONV_RESIDUAL_LAYER) x.residual = results[from - POLYCONV_RESIDUAL_LAYER];
      compute(l, RawWeights{l.weights, static_cast<const float *>(a.weights[index])}, x);
      results[i] = x.output;
    }
  }

 private:
  std::vector<polyconv_layer> layers_;
};

std::unique_ptr<Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<Direct>(request);
}

bool single(const polyconv_request &request, Offer &offer, double estimate_us) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer");
  if (!computable(*request.layers[0], offer)) return false;
  offer.estimate_us = estimate_us;
  return true;
}

// A kernel of one layer that takes a fixed time.
template <int us>
bool takes_in(const polyconv_request &request, int32_t, Offer &offer) {
  return single(request, offer, us);
}

const char *const kOnly[] = {"only"};

// Two configs; left to itself it chooses the second. Tells which runs by nothing but its name.
const char *const kSpeeds[] = {"slow", "fast"};
bool two_speeds(const polyconv_request &request, int32_t config, Offer &offer) {
  offer.config = config < 0 ? 1 : config;
  return single(request, offer, offer.config == 1 ? 50 : 100);
}
const Kernel kTwoSpeeds = {"two_speeds", 0, kSpeeds, 2, two_speeds, create};

// Ties with two_speeds@fast and stands after it in the list.
const Kernel kTies = {"ties", 0, kOnly, 1, takes_in<50>, create};

// Was taught tensors that overlap themselves: it reads by strides. So do the others, but nobody knows.
const Kernel kTaught = {"taught", 0, kOnly, 1, takes_in<60>, create, POLYCONV_TRAIT_OVERLAP};

// Flags.
const Kernel kAtomic = {"atomic", POLYCONV_KERNEL_ATOMIC, kOnly, 1, takes_in<4>, create};
const Kernel kVariant = {"variant", POLYCONV_KERNEL_VARIANT, kOnly, 1, takes_in<5>, create};
const Kernel kTransform = {"transform", POLYCONV_KERNEL_TRANSFORM, kOnly, 1, takes_in<3>, create};
const Kernel kGeneric = {"generic", POLYCONV_KERNEL_GENERIC, kOnly, 1, takes_in<200>, create};
// A fallback that boasts.
const Kernel kGenericQuick = {"generic_quick", POLYCONV_KERNEL_GENERIC, kOnly, 1, takes_in<1>, create};

// Must be bound, and says so at run.
class Bound final : public Instance {
 public:
  explicit Bound(const polyconv_request &request) : direct_(request) {}
  void *bind(const polyconv_arguments &a) override { return new polyconv_arguments(a); }
  void unbind(void *bound) override { delete static_cast<polyconv_arguments *>(bound); }
  void run(const polyconv_arguments &a, void *stream) const override {
    if (a.bound == nullptr) throw Error(POLYCONV_INTERNAL, "it was not bound");
    direct_.run(*static_cast<const polyconv_arguments *>(a.bound), stream);
  }

 private:
  Direct direct_;
};
std::unique_ptr<Instance> create_bound(const polyconv_request &request, int32_t) {
  return std::make_unique<Bound>(request);
}
const Kernel kBound = {"bound", POLYCONV_KERNEL_NEEDS_BIND, kOnly, 1, takes_in<6>, create_bound};

// Wants every tensor in one layout.
template <int32_t layout>
bool likes(const polyconv_request &request, int32_t, Offer &offer) {
  if (!single(request, offer, 10)) return false;
  const polyconv_layer &l = *request.layers[0];
  const auto lies_right = [](const polyconv_tensor &t) {
    return layout == POLYCONV_CHANNELS_LAST ? channels_last(t) : channels_first(t);
  };
  if (lies_right(l.input) && lies_right(l.result) &&
      (l.epilogue.residual_from == POLYCONV_RESIDUAL_NONE || lies_right(l.residual)) &&
      (l.save == POLYCONV_SAVE_NONE || lies_right(l.saved)))
    return true;
  offer.wants_layout = 1 + layout;
  return offer.reject("takes one layout only");
}
const Kernel kLikesLast = {"likes_last", 0, kOnly, 1, likes<POLYCONV_CHANNELS_LAST>, create};
const Kernel kLikesFirst = {"likes_first", 0, kOnly, 1, likes<POLYCONV_CHANNELS_FIRST>, create};

// Packs; and packs in a way that cannot be updated.
class Packs final : public Instance {
 public:
  explicit Packs(const polyconv_request &request) : layer_(*request.layers[0]) {}
  void pack(int, const void *raw, void *packed, void *) override {
    pack_negated(layer_.weights, static_cast<const float *>(raw), static_cast<float *>(packed));
  }
  void run(const polyconv_arguments &a, void *) const override {
    compute(layer_, NegatedWeights{layer_.weights, static_cast<const float *>(a.weights[0])}, operands(a, 0));
  }

 private:
  polyconv_layer layer_;
};
std::unique_ptr<Instance> create_packs(const polyconv_request &request, int32_t) {
  return std::make_unique<Packs>(request);
}
bool packs(const polyconv_request &request, int32_t, Offer &offer) {
  if (!single(request, offer, 30)) return false;
  offer.set_weights(0, "plan_probe:1", negated_bytes(request.layers[0]->weights));
  return true;
}
bool packs_once(const polyconv_request &request, int32_t config, Offer &offer) {
  if (request.policy->dynamic_weights != 0) return offer.reject("cannot repack in place");
  if (!packs(request, config, offer)) return false;
  offer.estimate_us = 20;
  offer.set_weights(0, "plan_probe_once:1", offer.weights_bytes[0]);
  return true;
}
const Kernel kPacks = {"packs", 0, kOnly, 1, packs, create_packs};
const Kernel kPacksOnce = {"packs_once", 0, kOnly, 1, packs_once, create_packs};

// Fills its workspace to the last byte.
class Scratch final : public Instance {
 public:
  explicit Scratch(const polyconv_request &request) : direct_(request) {}
  void run(const polyconv_arguments &a, void *stream) const override {
    std::memset(a.workspace, 0xff, static_cast<size_t>(kScratchBytes));
    direct_.run(a, stream);
  }

 private:
  Direct direct_;
};
bool scratch(const polyconv_request &request, int32_t, Offer &offer) {
  offer.workspace_bytes = kScratchBytes;
  return single(request, offer, 15);
}
std::unique_ptr<Instance> create_scratch(const polyconv_request &request, int32_t) {
  return std::make_unique<Scratch>(request);
}
const Kernel kScratch = {"scratch", 0, kOnly, 1, scratch, create_scratch};

// Learns in create what it needs of the workspace that it offered: more with a tuning budget; "greedy" more than that.
const char *const kAppetites[] = {"modest", "greedy"};
class Settles final : public Instance {
 public:
  Settles(const polyconv_request &request, int64_t bytes) : direct_(request), bytes_(bytes) {}
  int64_t workspace_bytes() const override { return bytes_; }
  void run(const polyconv_arguments &a, void *stream) const override {
    std::memset(a.workspace, 0xff, static_cast<size_t>(bytes_));
    direct_.run(a, stream);
  }

 private:
  Direct direct_;
  int64_t bytes_;
};
bool settles(const polyconv_request &request, int32_t config, Offer &offer) {
  if (config < 0) return offer.reject("settles only when forced");
  offer.workspace_bytes = 8 * kScratchBytes;
  return single(request, offer, 16);
}
std::unique_ptr<Instance> create_settles(const polyconv_request &request, int32_t config) {
  const int64_t modest = request.policy->tuning_ms > 0 ? 2 * kScratchBytes : kScratchBytes / 2;
  return std::make_unique<Settles>(request, config == 0 ? modest : 9 * kScratchBytes);
}
const Kernel kSettles = {"settles", 0, kAppetites, 2, settles, create_settles};

// Enters TF32 where that is allowed.
bool tf32(const polyconv_request &request, int32_t, Offer &offer) {
  if (request.policy->math < POLYCONV_MATH_TF32) return offer.reject("rounds products to TF32");
  offer.math = POLYCONV_MATH_TF32;
  return single(request, offer, 2);
}
const Kernel kTf32 = {"tf32", 0, kOnly, 1, tf32, create};

// Better and worse as the batch grows, and one that takes few images only.
bool per_image(const polyconv_request &request, int32_t, Offer &offer) {
  return single(request, offer, 10.0 * static_cast<double>(request.layers[0]->input.size[kN]));
}
bool per_thread(const polyconv_request &request, int32_t, Offer &offer) {
  return single(request, offer, 25.0 / request.policy->threads);
}
bool few_images(const polyconv_request &request, int32_t, Offer &offer) {
  const int64_t batch = request.layers[0]->input.size[kN];
  if (batch > 4) return offer.reject("takes up to 4 images, not %d", static_cast<int>(batch));
  return single(request, offer, 1);
}
const Kernel kPerImage = {"per_image", 0, kOnly, 1, per_image, create};
const Kernel kPerThread = {"per_thread", 0, kOnly, 1, per_thread, create};
const Kernel kFewImages = {"few_images", 0, kOnly, 1, few_images, create};

// Fuses exactly two, and any number of layers.
bool fuses(const polyconv_request &request, Offer &offer, double estimate_us) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  int64_t between = 0;
  for (int i = 0; i < request.count; ++i) {
    if (!computable(*request.layers[i], offer)) return false;
    if (i + 1 < request.count) between += elements(request.layers[i]->result);
  }
  offer.estimate_us = estimate_us;
  offer.workspace_bytes = between * static_cast<int64_t>(sizeof(float));
  offer.shared_bytes = kScratchBytes * request.count;
  return true;
}
bool fuses_two(const polyconv_request &request, int32_t, Offer &offer) {
  return request.count == 2 ? fuses(request, offer, 12) : offer.reject("fuses two layers");
}
bool fuses_all(const polyconv_request &request, int32_t, Offer &offer) {
  if (request.count < 2 || !fuses(request, offer, 40)) return request.count > 1 ? false : offer.reject("fuses layers");
  offer.recomputed_outputs = 12;
  offer.blocks = 7;
  offer.threads = 128;
  offer.occupancy = 0.5f;
  offer.say("tiles of %d layers", static_cast<int>(request.count));
  return true;
}

bool fuses_generically(const polyconv_request &request, int32_t, Offer &offer) {
  return request.count > 1 ? fuses(request, offer, 2) : offer.reject("fuses layers");
}

// Take much longer than they estimate: a chain, and a layer.
class Drags final : public Instance {
 public:
  explicit Drags(const polyconv_request &request) : direct_(request) {}
  void run(const polyconv_arguments &a, void *stream) const override {
    direct_.run(a, stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }

 private:
  Direct direct_;
};
std::unique_ptr<Instance> create_drags(const polyconv_request &request, int32_t) {
  return std::make_unique<Drags>(request);
}
bool fuses_slowly(const polyconv_request &request, int32_t, Offer &offer) {
  return request.count > 1 ? fuses(request, offer, 1) : offer.reject("fuses layers");
}
const Kernel kFusesSlowly = {"fuses_slowly", 0, kOnly, 1, fuses_slowly, create_drags};
const Kernel kDrags = {"drags", 0, kOnly, 1, takes_in<1>, create_drags};
const Kernel kFusesTwo = {"fuses_two", 0, kOnly, 1, fuses_two, create};
const Kernel kFusesGenerically = {"fuses_generically", POLYCONV_KERNEL_GENERIC, kOnly, 1, fuses_generically, create};
const Kernel kFusesAll = {"fuses_all", 0, kOnly, 1, fuses_all, create};

} // namespace

const std::vector<const Kernel *> takers = {
    &kTwoSpeeds,   &kTies,      &kAtomic,     &kVariant,      &kTransform,        &kGeneric,
    &kBound,       &kLikesLast, &kLikesFirst, &kPacks,        &kPacksOnce,        &kScratch,
    &kTf32,        &kPerImage,  &kPerThread,  &kFewImages,    &kFusesTwo,         &kFusesAll,
    &kFusesSlowly, &kDrags,     &kSettles,    &kGenericQuick, &kFusesGenerically, &kTaught};

} // namespace probe
