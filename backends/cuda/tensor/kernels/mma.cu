// mma.cu - forward, f16 and bf16 with f32 sums: the general implicit matrix product on the matrix units by mma.sync,
// for every chip from 8.0 on. The matrix of im2col exists only as tiles in shared memory, copied there in vectors of
// channels or gathered element by element; see mma_product.cuh. Configs are tiles, pixels x channels, some with k split
// over blocks ("k4"), for problems of few tiles: the partial sums of an output lie in the workspace and are added in
// the order of k.
//
// Floor: 2 N K P Q C R S at the rate of mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include "common/partials.cuh"
#include "mma.hpp"

namespace polyconv::cuda {
namespace {

using namespace tensor;

struct Config {
  int tile, splits;
};
constexpr Config kConfigs[] = {{k256x128, 1}, {k128x128, 1}, {k128x128w8, 1}, {k128x64, 1}, {k64x64, 1},
                               {k128x64, 2},  {k128x64, 4},  {k64x64, 2},     {k64x64, 4},  {k64x64, 8},
                               {k64x64, 16}};
constexpr const char *kNames[] = {"256x128",  "128x128", "128x128w8", "128x64",  "64x64",   "128x64k2",
                                  "128x64k4", "64x64k2", "64x64k4",   "64x64k8", "64x64k16"};
constexpr int kConfigCount = sizeof kConfigs / sizeof *kConfigs;
static_assert(sizeof kNames / sizeof *kNames == kConfigCount, "every config has a name");

MmaLauncher find_product(int32_t type, int tile, Source source) {
  if (!gathers(tile) && source == Source::kGathered) tile = k128x128w8; // the same bits from another tile
  return type == POLYCONV_F16 ? mma_half(tile, source) : mma_bf16(tile, source);
}

class Mma final : public CudaInstance {
 public:
  Mma(const polyconv_request &request, const Config &config) : CudaInstance(request), splits_(config.splits) {
    preferred_ = find_product(layer_.input.type, config.tile, preferred_source(layer_));
    unaligned_ = find_product(layer_.input.type, config.tile, Source::kGathered);
    const DeviceScope scope(device_);
    preferred_.prepare(), unaligned_.prepare();
  }

  void pack(int, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    mma_pack(layer_, raw, packed, static_cast<cudaStream_t>(stream));
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    MmaProduct product = make_mma_product(layer_, a);
    const bool aligned = reinterpret_cast<uintptr_t>(product.input) % kChunk == 0;
    if (splits_ > 1) set_split(layer_, splits_, a.workspace, &product);
    (aligned ? preferred_ : unaligned_).launch(product, stream);
    if (splits_ > 1) add_partials<float>(layer_, product, stream);
  }

  const int splits_;
  MmaLauncher preferred_, unaligned_;
};

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", request.count);
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if ((l.input.type != POLYCONV_F16 && l.input.type != POLYCONV_BF16) || l.input.type != l.weights.type)
    return offer.reject("takes f16 and bf16, the same for input and weights");
  if (sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("computes tiles of pixels in a row, not of patches: does not pool");
  }
  return fits_implicit(l, offer);
}

// Whether a config serves; `chosen`: somebody wants this one, and hears why not.
bool serves(const polyconv_layer &l, int64_t limit, int config, sdk::Offer *chosen) {
  const auto [tile, splits] = kConfigs[config];
  if (!gathers(tile) && preferred_source(l) == Source::kGathered)
    return chosen != nullptr &&
           chosen->reject("%s takes zero padding, 31 taps at most along the axes, and 16-byte vectors of channels",
                          kNames[config]);
  if (splits > 1 && mma_blocks(l) < 2 * splits)
    return chosen != nullptr && chosen->reject("splits no sum of %lld blocks of 32 products over %d blocks",
                                               static_cast<long long>(mma_blocks(l)), splits);
  const int64_t bytes = partials_bytes(l, splits);
  return bytes <= limit || (chosen != nullptr && chosen->reject("needs a workspace of %lld bytes for partial sums",
                                                                static_cast<long long>(bytes)));
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int64_t limit = request.policy->workspace_limit;
  if (config >= 0 && !serves(l, limit, config, &offer)) return false;
  const auto us = [&](int c) { return mma_us(l, kConfigs[c].tile, preferred_source(l), kConfigs[c].splits); };
  int best = -1;
  double least = 0;
  for (int c = 0; config < 0 && c < kConfigCount; ++c) {
    if (!serves(l, limit, c, nullptr)) continue;
    if (best < 0 || us(c) < least) best = c, least = us(c);
  }
  if (config < 0) config = best; // there is one: the smallest tile gathers without a workspace
  offer.config = config;
  offer.set_weights(0, mma_packed_format(l), mma_packed_bytes(l));
  offer.workspace_bytes = partials_bytes(l, kConfigs[config].splits);
  offer.estimate_us = us(config);
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Mma>(request, kConfigs[config]);
}

} // namespace

extern const sdk::Kernel kernel_mma;
const sdk::Kernel kernel_mma = {"mma", 0, kNames, kConfigCount, supports, create};

} // namespace polyconv::cuda
