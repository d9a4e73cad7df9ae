// choice.cu - which layers the Hopper product takes, in which config, and what a plan keeps of it; the same for
// every type.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/device/device.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "wgmma/instance.hpp"

namespace polyconv::cuda::wgmma {
namespace {

int64_t pixels_of(const polyconv_layer &l) {
  return l.output.size[0] * sdk::spatial(l.output);
}

} // namespace

// Of 128 bytes of one tap's channels.
int64_t depth_blocks(const polyconv_layer &l) {
  return ceil_div(l.weights.size[1] * element_bytes(l), 128) * sdk::taps(l);
}

int64_t partials_bytes(const polyconv_layer &l, int splits) {
  return splits == 1 ? 0 : splits * pixels_of(l) * partials_row(l) * 4;
}

namespace {

// ---------------------------------------------------------------- supports

// What the map of the activations can hold of an axis.
bool fits_map(const polyconv_layer &l, int axis, sdk::Offer &offer) {
  const bool flat = is_flat(l);
  const long long lowest = flat ? -128 : -16, highest = flat ? 127 : 15, farthest = flat ? 255 : 31;
  const long long lower = -l.pad_begin[axis], upper = upper_corner(l, axis);
  const long long reach = (l.weights.size[2 + axis] - 1) * l.dilation[axis], stride = l.stride[axis];
  if (stride > 8) return offer.reject("takes strides up to 8, not %lld", stride);
  if (reach > farthest) return offer.reject("takes filters that reach over %lld elements, not %lld", farthest, reach);
  if (lower < lowest || upper < lowest || upper > highest)
    return offer.reject("takes first taps from %lld before the image to %lld behind it, not %lld and %lld", -lowest,
                        highest, -lower, upper);
  return true;
}

bool fits_maps(const polyconv_layer &l, sdk::Offer &offer) {
  const int64_t vector = 16 / element_bytes(l);
  for (int axis = is_flat(l) ? 1 : 0; axis < 3; ++axis)
    if (!fits_map(l, axis, offer)) return false;
  for (const int axis : {0, 2, 3, 4}) {
    const int64_t stride = l.input.stride[axis];
    if (l.input.size[axis] > 1 && (stride % vector != 0 || stride < 1 || stride >= int64_t{1} << 37))
      return offer.reject("takes inputs whose strides are whole 16 bytes, not %lld elements",
                          static_cast<long long>(stride));
  }
  if (l.input.offset % vector != 0)
    return offer.reject("takes inputs that begin at whole 16 bytes, not at element %lld",
                        static_cast<long long>(l.input.offset));
  return true;
}

} // namespace

bool fits_tiles(const polyconv_layer &l, sdk::Offer &offer) {
  constexpr double kLimit = 1 << 30; // sums of two such stay below 2^31
  const double pixels = real(l.output.size[0]) * real(sdk::spatial(l.output));
  if (!(pixels < kLimit && real(l.output.size[1]) < kLimit && real(l.weights.size[1]) * real(sdk::taps(l)) < kLimit))
    return offer.reject("takes less than 2^30 pixels, output channels and products of a sum");
  if (!((pixels / 64 + 1) * (real(l.output.size[1]) / 64 + 1) * kMostSplits < kLimit))
    return offer.reject("takes less than 2^26 tiles");
  for (const int axis : {0, 2, 3, 4})
    if (!(real(l.input.size[axis]) < kLimit)) return offer.reject("takes inputs of less than 2^30 along an axis");
  return true;
}

bool takes_forward(const polyconv_layer &l, sdk::Offer &offer) {
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (!takes_no_pooling(l, offer, kPoolsNoTiles)) return false;
  if (!takes_one_group(l, offer)) return false;
  return takes_zeros(has_zero_padding(l) || has_no_padding(l), offer);
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  if (!takes_forward(l, offer)) return false;
  const int64_t channels = l.weights.size[1], vector = 16 / element_bytes(l);
  if (channels < 1 || channels % vector != 0)
    return offer.reject("takes input channels in whole 16 bytes, %lld, not %lld", static_cast<long long>(vector),
                        static_cast<long long>(channels));
  if (!takes_channels_last(l.input.stride[1] == 1 && l.result.stride[1] == 1, offer)) return false;
  return fits_tiles(l, offer) && fits_maps(l, offer) && has_code("90a", request.policy->device_index, offer);
}

bool takes_halves(const polyconv_layer &l, const polyconv_tensor &read, sdk::Offer &offer) {
  const int32_t type = read.type;
  return (is_half(type) && l.weights.type == type && l.result.type == type) ||
         offer.reject("takes f16 and bf16, the same for input, weights and output");
}

bool takes_plain_end(const polyconv_layer &l, sdk::Offer &offer) {
  if (!bias_and_relu_at_most(l)) return offer.reject("ends with a bias and a relu at most");
  return (l.result.size[1] % 8 == 0 && has_whole_vectors(l.result)) ||
         offer.reject("takes results whose pixels are whole 16 bytes");
}

bool takes_patches(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_halves(l, l.input, offer) || !takes(request, offer)) return false;
  if (!takes_2d(l, offer)) return false;
  if (l.stride[1] != 1 || l.stride[2] != 1) return offer.reject("takes stride 1");
  return takes_plain_end(l, offer);
}

bool can_split(const polyconv_layer &l, int splits, int64_t limit, sdk::Offer *chosen) {
  if (splits > 1 && depth_blocks(l) < splits)
    return chosen != nullptr && chosen->reject("splits no sum of %lld blocks of depth into %d",
                                               static_cast<long long>(depth_blocks(l)), splits);
  const int64_t bytes = partials_bytes(l, splits);
  return takes_workspace(bytes, limit, chosen);
}

namespace {

// ---------------------------------------------------------------- estimate

// Bytes of a block of depth of a tile.
double step_bytes(const Shape &shape) {
  return (shape.pixels + shape.channels) * 128;
}

// Its clocks: its products', its fetch's, by rate or, where few bytes are under way, by latency, or what both take of
// shared memory. `sharing`: blocks of the multiprocessor that run.
double step_clocks(const Shape &shape, double sharing) {
  const double fetch = step_bytes(shape), products = shape.pixels * shape.channels / 32.0;
  const int32_t rows = shape.turned ? shape.channels : shape.pixels, columns = shape.pixels + shape.channels - rows;
  const double shared = fetch + rows / 64.0 * 4 * (2048 + 32 * columns);
  const double latency = 1590 * fetch * shape.blocks / 180e3 / sharing;
  return std::max({products, fetch / 79, shared / 144, latency}) * (shape.teams > 1 ? 1.03 : 1.0);
}

} // namespace

double block_clocks(const Shape &shape) {
  return step_clocks(shape, shape.blocks);
}

namespace {

// Clocks of a multiprocessor for its tiles in a config. A second team or block of the multiprocessor multiplies while
// the first one's tile leaves. Clusters want all of their blocks at once, and some multiprocessors stay without. Turned
// shapes share weights in pairs, which saves power, and power is what large layers run out of.
double clocks(const polyconv_layer &l, const Config &config) {
  constexpr double kFirst = 830; // until the first bytes are there
  const Shape &shape = kShapes[config.shape];
  const double tiles =
      real(ceil_div(pixels_of(l), shape.pixels) * ceil_div(l.output.size[1], shape.channels) * config.splits);
  const double steps = real(ceil_div(depth_blocks(l), config.splits));
  const double bytes = shape.pixels * shape.channels * real(element_bytes(l));
  const bool in_pieces = !shape.turned && bytes > 65536; // what leaves has no room beside three stages
  const double leaving = 300 + bytes / 47 + (in_pieces ? 1000 : 0);
  if (shape.shared) {
    const double waves = std::ceil(tiles / (shape.blocks * (config.splits == 2 ? kHopperMultiprocessors : 112)));
    constexpr double kSecondCache = 8000; // bytes a clock, to all
    const double step =
        std::max({step_clocks(shape, 1), step_clocks(shape, 2) * (tiles > kHopperMultiprocessors ? 2 : 1),
                  std::min<double>(tiles, kHopperMultiprocessors) * step_bytes(shape) / kSecondCache});
    return waves * (steps * step + leaving + kFirst);
  }
  const double turns =
      tiles <= kHopperMultiprocessors ? 1 : std::ceil(tiles / (kHopperMultiprocessors * shape.blocks)) * shape.blocks;
  const double sharing = shape.turned && turns > 1 ? 0.98 : 1;
  const double multiplying = steps * step_clocks(shape, std::min<double>(shape.blocks, turns)) * sharing;
  if (turns > 1 && shape.teams > 1) {
    const double moving = (steps * step_bytes(shape) + bytes) / 52.3;
    return kFirst + turns * std::max({multiplying, (multiplying + leaving + 600) / 2, moving}) + leaving;
  }
  return kFirst + turns * (multiplying + (turns > 1 ? leaving / shape.blocks : leaving));
}

// What is more than the tile's own end is finished one by one; of that, a residual is read two values at a time.
double finishing_us(const polyconv_layer &l) {
  const double outputs = real(sdk::elements(l.output));
  if (!leaves_in_pairs(l)) return 13 + outputs / 86e3;
  return l.epilogue.residual_from == POLYCONV_RESIDUAL_NONE ? 0 : outputs / 430e3;
}

// How many times as long fetches of windows take where pixels begin within a sector of 32 bytes: every tap asks for one
// sector more of each. Of 98 layers of several taps on an H100; those of one tap read neighbours and show nothing.
double misalignment(const polyconv_layer &l) {
  return sdk::taps(l) > 1 && l.weights.size[1] * element_bytes(l) % 32 != 0 ? 1.8 : 1;
}

// Results whose rows are no whole 16 bytes leave element by element, and every one of a tile's columns is asked for.
double scattering_us(const polyconv_layer &l, const Shape &shape) {
  const bool boxes = l.result.size[1] * sdk::type_bytes(l.result.type) % 16 == 0;
  return boxes ? 0 : real(pixels_of(l)) * shape.channels / 340e3; // two layers of 2 and 3 filters on an H100
}

// Pixels of fewer than 64 bytes share what memory sends at a time, and the TMA asks for each of them.
double narrow_us(const polyconv_layer &l) {
  return l.weights.size[1] * element_bytes(l) < 64 ? real(pixels_of(l)) / 15e3 : 0;
}

int64_t workspace_bytes(const polyconv_layer &l, const Config &config) {
  return kShapes[config.shape].shared ? 0 : partials_bytes(l, config.splits);
}

struct Ways {
  const polyconv_layer &layer;
  int64_t limit; // of the workspace

  bool serves(int config, sdk::Offer *chosen) const {
    const auto [which, splits] = kConfigs[config];
    const Shape &shape = kShapes[which];
    if (shape.turned && !leaves_plainly(layer))
      return chosen != nullptr && chosen->reject(
                                      "takes only outputs of the input's type whose pixels are equally far "
                                      "apart, with a bias and a relu at most");
    return can_split(layer, splits, shape.shared ? INT64_MAX : limit, chosen);
  }
  // What multiplies, and what moves, half hidden by the longer of the two. Fitted to the f16 layers of ResNet-50
  // (batches 1 and 128), VGG-16 (128) and Stable Diffusion's U-Net (8) on an H200, and again, since ends are short, to
  // 76 of ResNet-50 (1, 128), MobileNetV2 (1) and the U-Net (8): of the configs of each, the one that it chooses
  // took 2.0 % longer than the fastest on average, 23 % at most. Leaving once more, since tiles are found without
  // divisions, to 36 layers: 1.4 %, before 1.9, but for pixels of 48 bytes, which other kernels take.
  double us(int config) const {
    const polyconv_layer &l = layer;
    const auto [which, splits] = kConfigs[config];
    // A few clusters add up sooner than many.
    const double tiles =
        real(ceil_div(pixels_of(l), kShapes[which].pixels) * ceil_div(l.output.size[1], kShapes[which].channels));
    const double crowd = std::clamp((tiles - 4) / 4, 0.0, 1.0);
    const double elements =
        real(sdk::elements(l.input)) + real(sdk::elements(l.output)) + real(sdk::elements(l.weights));
    const double volume = is_flat(l) || sdk::taps(l) == 1 ? 1 : 1.2; // maps of five axes are walked slower
    const double multiplying = volume * misalignment(l) * clocks(l, kConfigs[config]) / kHopperWgmmaClocks,
                 moving = elements * real(element_bytes(l)) / 6.02e6;
    const double adding = splits == 1             ? 0
                          : kShapes[which].shared ? 0.9 + 0.17 * splits * crowd + (kShapes[which].channels - 64) / 37.0
                                                  : 1.5 + real(partials_bytes(l, splits)) / 1.06e6;
    return 1.3 + std::max(multiplying, moving) + 0.456 * std::min(multiplying, moving) + adding + finishing_us(l) +
           narrow_us(l) + scattering_us(l, kShapes[which]);
  }
};

} // namespace

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  // There is a cheapest: unsplit configs need no workspace.
  if (!offer_config(Ways{l, request.policy->workspace_limit}, kConfigCount, config, offer)) return false;
  offer.set_weights(0, packed_format(l), packed_bytes(l));
  offer.workspace_bytes = workspace_bytes(l, kConfigs[offer.config]);
  return true;
}

// ---------------------------------------------------------------- plan and run

namespace {

Launcher launcher_for(int32_t type, int shape) {
  return type == POLYCONV_F16 ? product_f16(shape) : type == POLYCONV_BF16 ? product_bf16(shape) : product_tf32(shape);
}

class Wgmma final : public WgmmaInstance {
 public:
  Wgmma(const polyconv_request &request, const Config &config)
      : WgmmaInstance(request),
        shape_(kShapes[config.shape]),
        splits_(config.splits),
        launcher_(launcher_for(layer_.input.type, config.shape)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  // Tensor maps hold the run's pointers. Making them is arithmetic on the host, 128 bytes each.
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    const void *input = begin_of(layer_.input, a.input);
    Product product = make_product(layer_, a, shape_, splits_);
    if (!aligned(input, 16) || (shape_.turned && !product.plain)) return multiply_unaligned(layer_, a, stream);
    maps_.activations(layer_, input, shape_, &product);
    maps_.weights(layer_, a.weights[0], shape_, &product.weights);
    if (product.boxes) maps_.results(layer_, begin_of(layer_.result, a.output), shape_, &product.results);
    launcher_.launch(product, multiprocessors_, stream);
    if (product.partials != nullptr) add_partials(product, stream);
  }

  const Shape shape_;
  const int splits_;
  const Launcher launcher_;
  const int multiprocessors_ = multiprocessors_of(device_);
};

} // namespace

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Wgmma>(request, kConfigs[config]);
}

} // namespace polyconv::cuda::wgmma
