// plan.cu - what the kernels of mma.sync have in common on the host: configs, what is taken, the choice, the run.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "common/sums/partials.cuh"
#include "mma/product.hpp"

namespace polyconv::cuda::tensor {
namespace {

struct Config {
  int tile, splits;
};
constexpr Config kConfigs[] = {{k256x128, 1}, {k128x128, 1}, {k128x64, 1}, {k64x64, 1}, {k128x64, 2},
                               {k128x64, 4},  {k64x64, 2},   {k64x64, 4},  {k64x64, 8}, {k64x64, 16}};
static_assert(sizeof kConfigs / sizeof *kConfigs == kMmaConfigCount, "every config has a name");

// 128 x 64 gives the same bits where a tile does not gather, or needs more shared memory than the device lends a block
// (256 x 128 on chips of 8.6, 8.9 and 12.0).
MmaLauncher find_product(Products products, int tile, Source source, int device) {
  const MmaLauncher found = mma_launcher_of(products, has_tile(products, tile, source) ? tile : k128x64, source);
  return found.shared_bytes <= block_shared_bytes(device) ? found : mma_launcher_of(products, k128x64, source);
}

class Mma final : public CudaInstance {
 public:
  Mma(const polyconv_request &request, Products products, const Config &config)
      : CudaInstance(request),
        products_(products),
        splits_(config.splits),
        alignment_(alignment_of(preferred_source(layer_, products))),
        preferred_(find_product(products, config.tile, preferred_source(layer_, products), device_)),
        unaligned_(find_product(products, config.tile, unaligned_source(layer_), device_)) {
    const DeviceScope scope(device_);
    preferred_.prepare(), unaligned_.prepare();
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    mma_pack(layer_, products_, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    MmaProduct product = make_mma_product(layer_, products_, a);
    if (splits_ > 1) set_split(layer_, splits_, a.workspace, &product);
    (aligned(product.input, alignment_) ? preferred_ : unaligned_).launch(product, stream);
    if (splits_ > 1) add_partials<float>(layer_, product, stream);
  }

  const Products products_;
  const int splits_, alignment_;
  const MmaLauncher preferred_, unaligned_;
};

// The mode that products enter, its name, and the type of tensors that they take.
struct Rule {
  int32_t math;
  const char *name;
  int32_t type;
};
Rule rule_of(Products products) {
  switch (products) {
    case Products::kHalf: return {POLYCONV_MATH_STRICT, "strict", POLYCONV_F16};
    case Products::kBfloat: return {POLYCONV_MATH_STRICT, "strict", POLYCONV_BF16};
    case Products::kTf32: return {POLYCONV_MATH_TF32, "tf32", POLYCONV_F32};
    default: return {POLYCONV_MATH_FP32_EMULATED, "fp32_emulated", POLYCONV_F32};
  }
}

} // namespace

MmaLauncher mma_launcher_of(Products products, int tile, Source source) {
  switch (products) {
    case Products::kHalf: return mma_product<f16>(tile, source);
    case Products::kBfloat: return mma_product<bf16>(tile, source);
    case Products::kTf32: return mma_product<f32>(tile, source);
    default: return mma_emulated(tile, source);
  }
}

bool mma_takes(const polyconv_request &request, Products products, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const Rule rule = rule_of(products);
  if (l.input.type != rule.type || l.weights.type != rule.type)
    return offer.reject("takes input and weights of type %s", rule.type == POLYCONV_F32 ? "f32" : "f16 or bf16");
  if (request.policy->math < rule.math)
    return offer.reject("rounds or splits the factors of its products: only under math %s or freer", rule.name);
  offer.math = rule.math;
  if (!takes_no_pooling(l, offer, kPoolsNoTiles)) return false;
  return fits_implicit(l, offer);
}

namespace {

struct Ways {
  const polyconv_layer &layer;
  Products products;
  Source source;
  int64_t limit;          // of the workspace
  bool converted = false; // to channels last, and back

  bool serves(int config, sdk::Offer *chosen) const {
    const auto [tile, splits] = kConfigs[config];
    if (!has_tile(products, tile, source))
      return chosen != nullptr &&
             chosen->reject("%s has registers for %s only", kMmaConfigs[config],
                            has_tile(products, tile, Source::kVectors)
                                ? "zero padding, 31 taps along the axes and channels in vectors of 16 bytes"
                                : "factors that need no conversion");
    if (splits > 1 && mma_blocks(layer, products) < 2 * splits)
      return chosen != nullptr && chosen->reject("splits no sum of %lld blocks of k over %d blocks",
                                                 static_cast<long long>(mma_blocks(layer, products)), splits);
    const int64_t bytes = partials_bytes(layer, splits);
    return takes_workspace(bytes, limit, chosen);
  }
  double us(int config) const {
    // Channels first leave element by element.
    const double leaving = converted || layer.result.stride[1] == 1 ? 0 : 6.7e-6;
    return mma_us(layer, products, kConfigs[config].tile, source, kConfigs[config].splits) +
           leaving * static_cast<double>(sdk::elements(layer.output));
  }
};

// Whether converting the tensors to channels last, which the plan does, takes less time than reading them as they are.
bool gathers_in_vain(const polyconv_layer &l, Products products, int64_t limit) {
  const Source now = preferred_source(l, products), then = converted_source(l, products);
  if (now == then || sdk::channels_last(l.input)) return false;
  const double bytes = static_cast<double>(sdk::elements(l.input) + sdk::elements(l.output)) *
                       static_cast<double>(sdk::type_bytes(l.input.type));
  if (bytes > static_cast<double>(limit)) return false;
  const auto least = [&](Source source, bool converted) {
    const Ways ways = {l, products, source, limit, converted};
    return cheapest(kMmaConfigCount, -1, [&](int32_t config) { return us_of(ways, config); }).us;
  };
  return least(then, true) + 8 + 2 * bytes / 2.5e6 < least(now, false);
}

} // namespace

const char *const kMmaConfigs[kMmaConfigCount] = {"256x128",  "128x128", "128x64",  "64x64",   "128x64k2",
                                                  "128x64k4", "64x64k2", "64x64k4", "64x64k8", "64x64k16"};

bool mma_supports(const polyconv_request &request, Products products, int32_t config, sdk::Offer &offer) {
  if (!mma_takes(request, products, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int64_t limit = request.policy->workspace_limit;
  if (gathers_in_vain(l, products, limit)) {
    offer.wants_layout = 1 + POLYCONV_CHANNELS_LAST;
    return offer.reject("would gather channels one by one: takes less time with a conversion to channels last");
  }
  // There is a cheapest: the smallest tile takes everything without a workspace.
  const Ways ways = {l, products, preferred_source(l, products), limit};
  if (!offer_config(ways, kMmaConfigCount, config, offer)) return false;
  offer.set_weights(0, mma_packed_format(products), mma_packed_bytes(l, products));
  offer.workspace_bytes = partials_bytes(l, kConfigs[offer.config].splits);
  return true;
}

std::unique_ptr<sdk::Instance> mma_create(const polyconv_request &request, Products products, int32_t config) {
  return std::make_unique<Mma>(request, products, kConfigs[config]);
}

} // namespace polyconv::cuda::tensor
