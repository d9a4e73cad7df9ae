// fused.hpp - what the plan keeps of the chains of mobile.hpp, and their offer. `Chain` says which layers
// they are and which kernel runs them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/cheapest.hpp"
#include "common/kernel.hpp"
#include "layers.hpp"
#include "mobile/mobile.hpp"

namespace polyconv::cuda::mobile {

inline constexpr MobileConfig kConfigs[] = {{4, 1}, {4, 2}, {2, 1}, {2, 2}, {2, 4}, {1, 1}, {1, 2}};
inline constexpr const char *kConfigNames[] = {"r4_s1", "r4_s2", "r2_s1", "r2_s2", "r2_s4", "r1_s1", "r1_s2"};
inline constexpr int kConfigCount = 7;

template <class Chain>
class Fused final : public chain::ChainInstance {
 public:
  Fused(const polyconv_request &request, int32_t config) : ChainInstance(request) {
    const polyconv_layer *layers[3] = {&layers_[0], &layers_[1], &layers_[2]};
    sdk::Offer offer = {};
    if (!plan_mobile(Chain::of(layers), kConfigs[config], chain::most_shared(request), plan_, offer))
      throw sdk::Error(POLYCONV_INTERNAL, std::string(Chain::name) + ": no tile for a chain that was accepted");
    kernel_ = Chain::find(layers_[0].input.type, plan_.shape);
    if (kernel_ == nullptr) throw sdk::Error(POLYCONV_INTERNAL, std::string(Chain::name) + ": no kernel for a plan");
    const DeviceScope scope(device_);
    allow_shared(kernel_, block_shared_bytes(device_));
  }

 private:
  void pack_layer(const polyconv_layer &layer, int number, const void *raw, void *packed,
                  cudaStream_t stream) override {
    const int from_last = Chain::layers - 1 - number;
    if (from_last == 1)
      pack_filters(layer, raw, packed, stream);
    else
      pack_fragments(layer, from_last == 0 ? plan_.shape.pairs : 1, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    Mobile m = plan_.shape;
    set_pointers(layers_, Chain::layers, a, m);
    kernel_<<<static_cast<unsigned>(plan_.blocks), m.warps() * 32, static_cast<size_t>(plan_.shared_bytes), stream>>>(
        m);
    check_launch(Chain::name);
  }

  MobilePlan plan_;
  MobileKernel kernel_ = nullptr;
};

// What polyconv_explain tells of a plan.
inline void tell(const MobilePlan &plan, bool expands, sdk::Offer &offer) {
  const Mobile &m = plan.shape;
  const int64_t filtered = int64_t{m.batch} * m.out[0] * m.out[1] * m.hidden;
  const int64_t positions = int64_t{m.all_tiles()} * m.positions(), once = int64_t{m.batch} * m.in[0] * m.in[1];
  offer.recomputed_outputs = filtered * (m.slices - 1);
  if (expands) offer.recomputed_outputs += std::max<int64_t>(positions - once, 0) * m.hidden;
  offer.blocks = plan.blocks, offer.shared_bytes = plan.shared_bytes, offer.threads = m.warps() * 32;
  offer.occupancy = static_cast<float>(plan.together * m.warps()) / 64;
  std::snprintf(offer.note, sizeof offer.note, "tiles of %dx%d pixels of %d images, %d channels at a time",
                m.units[0] * m.rows, m.units[1] * kUnitWidth, m.images, m.chunk());
}

template <class Chain>
bool mobile_supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!chain::fuses(request, Chain::layers, offer)) return false;
  const MobileLayers layers = Chain::of(request.layers);
  if (!mobile_takes(layers, offer)) return false;
  MobilePlan plan;
  const int64_t shared = chain::most_shared(request);
  const auto us = [&](int32_t i) { return plan_mobile(layers, kConfigs[i], shared, plan, offer) ? plan.us : 0; };
  if (!offer_cheapest(kConfigCount, config, offer, us)) return false;
  plan_mobile(layers, kConfigs[offer.config], shared, plan, offer);
  const Mobile &m = plan.shape;
  tell(plan, Chain::layers == 3, offer);
  if (Chain::layers == 3) offer.set_weights(0, "cuda_chain_fragments1:1", fragments_bytes(m.channels, m.hidden, 1));
  offer.set_weights(Chain::layers - 2, "cuda_chain_filters:1", filters_bytes(m.hidden));
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "cuda_chain_fragments%d:1", m.pairs);
  offer.set_weights(Chain::layers - 1, format, fragments_bytes(m.hidden, m.results, m.pairs));
  return true;
}

template <class Chain>
constexpr sdk::Kernel mobile_kernel(const char *name) {
  return kernel_of(name, kConfigNames, mobile_supports<Chain>, instance_of<Fused<Chain>>);
}

} // namespace polyconv::cuda::mobile
