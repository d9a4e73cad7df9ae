// pair.hpp - what the pairs that plan their tiles have alike: the plan, the offer, and what a plan keeps. `Side` says
// how:
//
//   struct Side {
//     using Plan = PairPlan<Pair>;
//     static constexpr const char *name;
//     static constexpr int configs;
//     static bool takes(const polyconv_request &, sdk::Offer &); // of two layers
//     static bool make_plan(const polyconv_request &, int config, Plan &, sdk::Offer &);
//     static void tell(const Plan &, sdk::Offer &); // weights, threads, the note
//     static Kernel find(int32_t type, int shape);
//     static void pack(const polyconv_layer &, int number, const void *raw, void *packed, cudaStream_t);
//     void launch(Kernel, const polyconv_layer *, Pair &, const Plan &, cudaStream_t) const; // pointers are set
//   };
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cheapest.hpp"
#include "common/kernel.hpp"
#include "layers.hpp"
#include "mobile/mobile.hpp"

namespace polyconv::cuda::chain {

template <class Pair>
struct PairPlan {
  Pair pair; // all but pointers and maps
  int shape = -1;
  int64_t blocks = 0, shared_bytes = 0;
  double us = 0;
};

inline mobile::MobileLayers pair_layers(const polyconv_request &request) {
  return {nullptr, request.layers[0], request.layers[1]};
}

template <class Side>
bool pair_supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!fuses(request, 2, offer) || !Side::takes(request, offer)) return false;
  typename Side::Plan plan;
  const auto us = [&](int32_t i) { return Side::make_plan(request, i, plan, offer) ? plan.us : 0; };
  if (!offer_cheapest(Side::configs, config, offer, us)) return false;
  Side::make_plan(request, offer.config, plan, offer);
  offer.blocks = plan.blocks, offer.shared_bytes = plan.shared_bytes;
  Side::tell(plan, offer);
  return true;
}

template <class Side>
class PairInstance final : public ChainInstance {
 public:
  PairInstance(const polyconv_request &request, int32_t config) : ChainInstance(request) {
    sdk::Offer offer = {};
    if (!Side::make_plan(request, config, plan_, offer))
      throw sdk::Error(POLYCONV_INTERNAL, std::string(Side::name) + ": no tile for a chain that was accepted");
    kernel_ = Side::find(layers_[0].input.type, plan_.shape);
    const DeviceScope scope(device_);
    allow_shared(kernel_, block_shared_bytes(device_));
  }

 private:
  void pack_layer(const polyconv_layer &layer, int number, const void *raw, void *packed,
                  cudaStream_t stream) override {
    Side::pack(layer, number, raw, packed, stream);
  }
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    auto pair = plan_.pair;
    mobile::set_pointers(layers_, 2, a, pair.m);
    side_.launch(kernel_, layers_, pair, plan_, stream);
  }

  const Side side_ = {};
  typename Side::Plan plan_;
  decltype(Side::find(0, 0)) kernel_ = nullptr;
};

} // namespace polyconv::cuda::chain
