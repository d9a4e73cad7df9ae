// implicit.cpp - forward, every float type: the fused implicit matrix product. The matrix of im2col exists only as
// tiles in shared memory, gathered there pixel by pixel or in vectors of channels; see product.cuh. Configs are tiles,
// pixels x channels x depth, some with k split over blocks ("k4"), for problems of few tiles: the partial sums of an
// output lie in the workspace and are added in the order of k.
//
// Floor: 2 N K P Q C R S at the FMA rate: 50.5 TFLOP/s of strict f32 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "common/sums/partials.hpp"
#include "product/product.hpp"

namespace polyconv::cuda {
namespace {

using namespace gemm;

struct Config {
  int tile, splits;
};
constexpr Config kConfigs[] = {{k128x256x16, 1}, {k256x128x16, 1}, {k128x64x16, 1}, {k64x64x16, 1},
                               {k128x32x16, 1},  {k64x64x16, 2},   {k64x64x16, 4},  {k64x64x16, 8},
                               {k64x64x16, 16},  {k32x32x16, 1},   {k32x32x16, 2},  {k32x32x16, 4}};
constexpr const char *kNames[] = {"128x256x16", "256x128x16", "128x64x16",   "64x64x16", "128x32x16",  "64x64x16k2",
                                  "64x64x16k4", "64x64x16k8", "64x64x16k16", "32x32x16", "32x32x16k2", "32x32x16k4"};
constexpr int kConfigCount = sizeof kConfigs / sizeof *kConfigs;
static_assert(sizeof kNames / sizeof *kNames == kConfigCount, "every config has a name");

// Whether neighbouring threads, of neighbouring pixels, read far apart: single channels of channels last.
bool reads_apart(const polyconv_layer &l) {
  return l.input.stride[1] == 1 && !has_vectors(l.input, l.weights.size[1]);
}

// Blocks of k that keep to one tap waste the end of a tap's last block, which is nothing where there is but one tap;
// then addresses cost next to nothing. A k that finds its own tap takes 1.5 times as long as one of such a block.
bool keeps_to_taps(const polyconv_layer &l, int depth) {
  const int64_t channels = l.weights.size[1], cut = (channels + depth - 1) / depth * depth;
  if (channels >= 128 || sdk::taps(l) == 1) return true;
  return reads_apart(l) ? cut * 8 <= channels * 9 : cut * 3 <= channels * 4;
}

Source preferred_source(const polyconv_layer &l, int tile) {
  if (reads_rows(l)) return Source::kRows;
  if (!keeps_to_taps(l, kShapes[tile].depth)) return Source::kScattered;
  return has_vectors(l.input, l.weights.size[1]) ? Source::kVectors : Source::kTaps;
}

// ---------------------------------------------------------------- plan and run

class Implicit final : public CudaInstance {
 public:
  Implicit(const polyconv_request &request, const Config &config)
      : CudaInstance(request), splits_(config.splits), source_(preferred_source(layer_, config.tile)) {
    const Source other = source_ == Source::kVectors || source_ == Source::kRows ? Source::kTaps : source_;
    preferred_ = find_product(layer_.input.type, config.tile, source_, device_);
    unaligned_ = find_product(layer_.input.type, config.tile, other, device_);
    const DeviceScope scope(device_);
    preferred_.prepare(), unaligned_.prepare();
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    pack_weights(layer_, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Product product = make_product(layer_, a);
    product.input = begin_of(layer_.input, a.input);
    if (splits_ > 1) set_split(layer_, splits_, a.workspace, &product);
    (aligned(product.input, 16) ? preferred_ : unaligned_).launch(product, stream);
    if (splits_ > 1) add_splits(layer_, product, stream);
  }

  const int splits_;
  const Source source_;
  Launcher preferred_, unaligned_;
};

struct Ways {
  const polyconv_layer &layer;
  int64_t limit; // of the workspace

  bool serves(int config, sdk::Offer *chosen) const {
    const auto [tile, splits] = kConfigs[config];
    if (!has_tile(layer.input.type, tile))
      return chosen != nullptr && chosen->reject("has no tile of %s for this type", kNames[config]);
    const int64_t products = layer.weights.size[1] * sdk::taps(layer), depth = kShapes[tile].depth;
    if (splits > 1 && (products + depth - 1) / depth < 2 * splits)
      return chosen != nullptr &&
             chosen->reject("splits no sum of %lld products over %d blocks", static_cast<long long>(products), splits);
    const int64_t bytes = partials_bytes(layer, splits);
    return takes_workspace(bytes, limit, chosen);
  }
  double us(int config) const {
    const auto [tile, splits] = kConfigs[config];
    const Source source = preferred_source(layer, tile);
    const double apart = source == Source::kTaps && reads_apart(layer) ? 1.5 : 1;
    return product_us(layer, kShapes[tile], source, splits) * apart + partials_us(layer, splits);
  }
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  // There is a cheapest: the smallest tiles serve every type without a workspace.
  if (!offer_config(Ways{l, request.policy->workspace_limit}, kConfigCount, config, offer)) return false;
  offer.set_weights(0, packed_format(l), packed_bytes(l));
  offer.workspace_bytes = partials_bytes(l, kConfigs[offer.config].splits);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(implicit, kNames, supports, instance_of<Implicit, kConfigs>, 0, sdk::kActivationTraits);

} // namespace polyconv::cuda
