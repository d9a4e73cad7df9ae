// tiles.cpp - forward in two dimensions: a block stages the inputs of a patch of outputs, halo included, and the
// weights of a few output channels in shared memory, some input channels at a time, and every input is then read from
// there by all the taps and channels that want it. The next channels are copied while these are summed.
//
// Floor: max(2 N K P Q C R S / FMA rate, compulsory bytes / copy rate). The halo is read again by neighbouring blocks.
// A thread of 4 outputs and 8 channels loads 6 inputs and 6 vectors of weights a column of a 3x3 filter for 96
// products: the loads keep up with the products, and what is lost is idle lanes where the patch does not divide the
// image.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "tiles/patch.hpp"

#include <cinttypes>

namespace polyconv::cuda {
namespace {

using namespace shared;

// Named by width, threads, outputs and channels of a thread.
constexpr PatchConfig kConfigs[] = {{16, 256, 1, 4}, {16, 256, 4, 4}, {16, 128, 4, 8}, {16, 128, 7, 8}, {25, 250, 1, 4},
                                    {25, 250, 4, 4}, {32, 256, 1, 1}, {32, 256, 4, 1}, {32, 256, 2, 4}, {32, 256, 4, 4},
                                    {32, 256, 4, 8}, {32, 128, 7, 8}, {64, 256, 4, 8}, {64, 256, 5, 12}};
constexpr const char *kNames[] = {"w16_t256_o1_k4", "w16_t256_o4_k4", "w16_t128_o4_k8", "w16_t128_o7_k8",
                                  "w25_t250_o1_k4", "w25_t250_o4_k4", "w32_t256_o1_k1", "w32_t256_o4_k1",
                                  "w32_t256_o2_k4", "w32_t256_o4_k4", "w32_t256_o4_k8", "w32_t128_o7_k8",
                                  "w64_t256_o4_k8", "w64_t256_o5_k12"};
constexpr int kConfigCount = 14;

// The size of filters that are unrolled, 0 for a loop over taps.
int unrolled_size(const polyconv_layer &l) {
  const int64_t n = l.weights.size[3];
  const bool simple = l.stride[1] == 1 && l.stride[2] == 1 && l.dilation[1] == 1 && l.dilation[2] == 1;
  return simple && n == l.weights.size[4] && (n == 3 || n == 5 || n == 7) ? static_cast<int>(n) : 0;
}

PatchLaunch instance_for(const polyconv_layer &l, const PatchConfig &config) {
  switch (unrolled_size(l)) {
    case 3: return find_patch<3>(config.outputs, config.channels);
    case 5: return find_patch<5>(config.outputs, config.channels);
    case 7: return find_patch<7>(config.outputs, config.channels);
    default: return find_patch<0>(config.outputs, config.channels);
  }
}

bool plain(const polyconv_layer &l) {
  return !sdk::has_pooling(l) && bias_and_relu_at_most(l) &&
         (l.result.type == POLYCONV_F32 || (l.result.type == l.input.type && sdk::is_float(l.input.type)));
}

bool patch_of(const polyconv_layer &l, const PatchConfig &config, Patch &s) {
  s = {};
  s.plain = plain(l) ? 1 : 0;
  s.input_type = l.input.type;
  return make_patch(l, config, s);
}

// A thread's issue slots for its products, with what loads their operands; idle lanes are counted as others.
double product_slots(const polyconv_layer &l, const Patch &s, const PatchConfig &config) {
  const double taps = static_cast<double>(sdk::taps(l)), n = unrolled_size(l);
  const int sums = config.outputs * config.channels;
  const double weights = config.channels >= 4 ? config.channels / 4.0 : config.channels;
  if (l.stride[2] > 1) // 1.7: four layers of 9 x 9 on an H200
    return taps * s.group_in * (2.33 * sums + 0.5 * config.outputs + 0.5 * weights) * (taps < 81 ? 1 : 1.7);
  const double inputs = n > 0 ? (config.outputs + n - 1) / n : config.outputs + 2.0;  // loads a tap
  return taps * s.group_in * (sums + 3 * inputs + 2.3 * weights) * (n > 0 ? 1 : 1.5); // 1.5: a loop over taps
}

// And for staging, for each chunk and for a block. At strides a chunk's wait counts most.
double other_slots(const polyconv_layer &l, const Patch &s, const PatchConfig &config) {
  const bool strided = l.stride[2] > 1;
  const double staged = (strided ? 0.5 : 1.8) * s.group_in * s.images * s.plane / s.threads;
  const double chunks = static_cast<double>(ceil_div(s.group_in, s.chunk));
  return staged + (strided ? 1358 * chunks : 670 + 290 * chunks) + 14.0 * config.outputs * config.channels;
}

// Fitted to an H200: issue slots where enough warps share a multiprocessor; or the compulsory bytes. Sums that go
// through shared memory to be pooled or finished one by one are slow, a thread's own most of all where nothing else
// hides them.
double tiles_us(const polyconv_layer &l, const Patch &s, const PatchConfig &config) {
  const bool strided = l.stride[2] > 1;
  const int sums = config.outputs * config.channels, registers = sums <= 16 ? 72 : sums <= 32 ? 96 : 128;
  const int fit =
      std::min({65536 / (registers * s.threads), kHopperShared / (s.shared_bytes + 1024), 2048 / s.threads});
  const double resident = std::max(std::min(fit, 32), 1);
  const auto blocks = static_cast<double>(s.blocks);
  const double busy = std::min(1.0, resident * s.threads / 32 / 14.4),
               tail = 1 + (strided ? 0.42 : 0.36) * kHopperMultiprocessors * resident / std::max(blocks, 1.0);
  const double halves = s.input_type == POLYCONV_F32 ? 1 : strided ? 1.52 : 1.4;
  const double slots = blocks * s.threads / 32 * (product_slots(l, s, config) + other_slots(l, s, config)) * halves;
  const double bytes = 4 * static_cast<double>(sdk::elements(l.input) + sdk::elements(l.result));
  // Columns that are not neighbours move in sectors of 32 bytes, up to one for each; inputs for each group of filters.
  const auto sectors = [](const polyconv_tensor &t) {
    const int64_t apart = t.stride[4] == 1 ? 0 : std::clamp<int64_t>(t.stride[4], 1, 8);
    return 4 * static_cast<double>(sdk::elements(t) * apart);
  };
  const auto passes = static_cast<double>(ceil_div(l.weights.size[0] / l.groups, int64_t{config.channels}));
  const double scattered = sectors(l.result) / 2.05e6 + sectors(l.input) * passes / 7.3e6;
  const bool wide = sdk::has_pooling(l) && l.epilogue.pool.window[2] > 2; // windows' columns share banks
  const polyconv_pool &pool = l.epilogue.pool;
  const double window = sdk::has_pooling(l) ? static_cast<double>(pool.window[1] * pool.window[2]) : 1;
  const double finishing = s.plain ? 0
                                   : std::max(static_cast<double>(sdk::elements(l.output)) / (wide ? 37e3 : 100e3),
                                              0.5 * window * config.channels);
  // Many channels wait for every chunk: 1 x 1 took 1.4 to 1.7 times as long (three layers on an H200), larger windows
  // of one group 1.15 to 1.27 times (seven layers).
  const double waiting = s.group_in < 16 ? 1 : sdk::taps(l) == 1 ? 1.5 : l.groups == 1 ? 1.25 : 1;
  const double summing = slots / (kHopperMultiprocessors * 4 * kHopperFmaClocks * busy) * tail * waiting;
  return (strided ? 3.8 : 2.5) + std::max({summing, bytes / 3.6e6, scattered}) + finishing;
}

// ---------------------------------------------------------------- plan and run

class Tiles final : public CudaInstance {
 public:
  Tiles(const polyconv_request &request, const PatchConfig &config)
      : CudaInstance(request), launch_(instance_for(layer_, config)) {
    if (launch_ == nullptr || !patch_of(layer_, config, patch_))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-shared/tiles: no patch for a problem that was accepted");
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    launch_(Conv<int32_t>(layer_, a), patch_, a.input, a.weights[0], a.output, stream);
  }

  const PatchLaunch launch_;
  Patch patch_ = {};
};

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_images(sums_images(l), offer)) return false;
  if (!takes_2d(l, offer)) return false;
  if (!takes_int32(l, offer)) return false;
  return !fused_pooling_refused(l, offer);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  bool many = false;
  const auto us = [&](int32_t i) {
    Patch patch;
    const bool fits = patch_of(l, kConfigs[i], patch);
    many = many || (fits && patch.blocks > INT32_MAX);
    return fits && patch.blocks <= INT32_MAX ? tiles_us(l, patch, kConfigs[i]) : 0;
  };
  if (offer_cheapest(kConfigCount, config, offer, us)) return true;
  if (many) return offer.reject("launches up to 2^31 blocks");
  offer.rejects_pooling = sdk::has_pooling(l) ? 1 : 0;
  return offer.reject("a patch and its halo, or the pooling window, do not fit into %d bytes of shared memory",
                      static_cast<int>(kSharedBytes));
}

} // namespace

POLYCONV_DEFINE_KERNEL(tiles, kNames, supports, instance_of<Tiles, kConfigs>);

} // namespace polyconv::cuda
