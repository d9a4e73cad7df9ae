// wgmma_emulated.cpp - forward, f32 under math fp32_emulated, channels last, compute capability 9.0: the product of
// wgmma.cpp with factors in three bf16 each, six products, and sums that are rounded to nearest in registers every 32
// channels; see emulated.cuh. Configs are tiles, pixels x channels x depth; "k4": depth is split over four
// tiles, whose partial sums lie in the workspace and are added in the order of depth.
//
// Floor: 6 x 2 N K P Q C R S at the rate of bf16 on the tensor cores: 132 TFLOP/s of f32 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "emulated/emulated.hpp"
#include "wgmma/wgmma_cost.hpp"

#include <cmath>

#include "rounded.hpp"
#include "wgmma/maps.hpp"

namespace polyconv::cuda {
namespace {

using namespace wgmma;

#define POLYCONV_NAME(shape, splits, name, suffix) name "x32" suffix,
constexpr const char *kNames[] = {POLYCONV_EMULATED_CONFIGS(POLYCONV_NAME)};
#undef POLYCONV_NAME

struct Ways {
  const polyconv_layer &layer;
  int64_t limit; // of the workspace

  bool serves(int config, sdk::Offer *chosen) const {
    return can_split(layer, kEmulatedConfigs[config].splits, limit, chosen);
  }
  // Clocks of the busiest multiprocessor, and bytes. Fitted to 251 times on an H200: eleven layers in every config, and
  // ResNet-50 and VGG-16 (128), Stable Diffusion's U-Net (8); 7 % rms.
  double us(int config) const {
    const auto [which, splits] = kEmulatedConfigs[config];
    const Shape &shape = kEmulatedShapes[which];
    const auto parts = [](int64_t count, int64_t of) { return real(ceil_div(count, of)); };
    const double tiles = parts(layer.output.size[0] * sdk::spatial(layer.output), shape.pixels) *
                         parts(layer.output.size[1], shape.channels) * splits;
    const double turns = std::ceil(tiles / (kHopperMultiprocessors * shape.blocks)) * shape.blocks;
    const double stage = shape.pixels / 64.0 * 12 * (shape.channels / 2.0 + 13); // instructions
    const double leaving = shape.pixels * shape.channels * 4 / 28.3;
    const double bytes = 4 * (real(sdk::elements(layer.input)) + real(sdk::elements(layer.output)));
    const double adding = splits == 1 ? 0 : 0.8 + real(partials_bytes(layer, splits)) / 0.88e6;
    return 3.7 + turns * (parts(depth_blocks(layer), splits) * stage + leaving) / 1858 + bytes / 14.4e6 + adding +
           scattering_us(layer, shape);
  }
};

class Emulated final : public CudaInstance {
 public:
  Emulated(const polyconv_request &request, const Config &config)
      : CudaInstance(request),
        shape_(kEmulatedShapes[config.shape]),
        splits_(config.splits),
        launcher_(product_emulated(config.shape)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override { pack_parts(layer_, raw, packed, stream); }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    const void *input = begin_of(layer_.input, a.input);
    if (!aligned(input, 16)) return multiply_unaligned_parts(layer_, a, stream);
    Product product = make_product(layer_, a, shape_, splits_);
    maps_.activations(layer_, input, shape_, &product, true);
    maps_.parts(layer_, a.weights[0], shape_, &product.weights);
    if (product.boxes) maps_.results(layer_, begin_of(layer_.result, a.output), shape_, &product.results);
    launcher_.launch(product, multiprocessors_, stream);
    if (splits_ > 1) add_partials(product, stream);
  }

  const Shape shape_;
  const int splits_;
  const Launcher launcher_;
  const MapEncoders maps_;
  const int multiprocessors_ = multiprocessors_of(device_);
};

bool supports_parts(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes_f32_weights(request, POLYCONV_MATH_FP32_EMULATED, offer) || !takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  // There is a cheapest: unsplit configs need no workspace.
  if (!offer_config(Ways{l, request.policy->workspace_limit}, kEmulatedConfigCount, config, offer)) return false;
  offer.set_weights(0, "cuda_krsc_3bf16:1", parts_bytes(l));
  offer.workspace_bytes = partials_bytes(l, kEmulatedConfigs[offer.config].splits);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_emulated, kNames, supports_parts, instance_of<Emulated, kEmulatedConfigs>);

} // namespace polyconv::cuda
