// choice.cpp - which layers the Hopper product takes, and what a plan keeps of it; the same for every type.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/device/device.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "common/types.hpp"
#include "wgmma/instance.hpp"
#include "wgmma/wgmma_cost.hpp"

namespace polyconv::cuda::wgmma {
namespace {

int64_t pixels_of(const polyconv_layer &l) {
  return l.output.size[0] * sdk::spatial(l.output);
}

} // namespace

// Of so many bytes of one tap's channels.
int64_t depth_blocks(const polyconv_layer &l, int32_t row) {
  return ceil_div(l.weights.size[1] * element_bytes(l), row) * sdk::taps(l);
}

// Of 32 bytes.
int64_t last_steps(const polyconv_layer &l, int32_t row) {
  const int64_t bytes = l.weights.size[1] * element_bytes(l);
  return ceil_div(bytes - (ceil_div(bytes, row) - 1) * row, 32);
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

namespace {

bool takes_any_groups(const polyconv_layer &l, sdk::Offer &offer) {
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (!takes_no_pooling(l, offer, kPoolsNoTiles)) return false;
  return takes_zeros(has_zero_padding(l) || has_no_padding(l), offer);
}

bool takes_any_groups(const polyconv_request &request, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  if (!takes_any_groups(l, offer)) return false;
  if (l.weights.size[1] < 1) return offer.reject("takes one input channel at least");
  if (!takes_channels_last(l.input.stride[1] == 1 && l.result.stride[1] == 1, offer)) return false;
  return fits_tiles(l, offer) && fits_maps(l, offer) && has_code("90a", request.policy->device_index, offer);
}

} // namespace

bool takes_forward(const polyconv_layer &l, sdk::Offer &offer) {
  return takes_any_groups(l, offer) && takes_one_group(l, offer);
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  return takes_any_groups(request, offer) && takes_one_group(*request.layers[0], offer);
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
  if (l.stride[0] != 1 || l.stride[1] != 1 || l.stride[2] != 1) return offer.reject("takes stride 1");
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

int64_t workspace_bytes(const polyconv_layer &l, const Config &config) {
  return kShapes[config.shape].shared ? 0 : partials_bytes(l, config.splits);
}

struct Ways {
  const polyconv_request &request;
  int64_t limit = request.policy->workspace_limit;
  const polyconv_layer &layer = *request.layers[0];

  WeightsWay weights(int config) const {
    return weights_way(request, takes_across(shape_of(layer, kConfigs[config].shape)));
  }

  bool serves(int config, sdk::Offer *chosen) const {
    const auto [which, splits] = kConfigs[config];
    const Shape shape = shape_of(layer, which);
    if (shape.turned && !leaves_plainly(layer))
      return chosen != nullptr && chosen->reject(
                                      "takes only outputs of the input's type whose pixels are equally far "
                                      "apart, with a bias and a relu at most");
    return suits_groups(shape, chosen) && can_split(layer, splits, shape.shared ? INT64_MAX : limit, chosen);
  }
  // A tile writes to no other group, no product reads one, and no layer has more zeros than it must.
  bool suits_groups(const Shape &shape, sdk::Offer *chosen) const {
    const auto channels = static_cast<long long>(layer.weights.size[1]);
    const auto filters = static_cast<long long>(layer.weights.size[0] / std::max<int64_t>(1, layer.groups));
    const long long width = shape.row / element_bytes(layer) / shape.parts, wide = shape.channels / shape.parts;
    if (shape.parts > 1 && (layer.groups == 1 || channels != width || filters != wide)) // the last tile may be shorter
      return chosen != nullptr && chosen->reject("takes groups of %lld channels and %lld filters, not %lld and %lld",
                                                 width, wide, channels, filters);
    if (layer.groups > 1 && (channels % width != 0 || filters % wide != 0))
      return chosen != nullptr &&
             chosen->reject("takes groups of whole %lld channels and whole %lld filters, not %lld and %lld", width,
                            wide, channels, filters);
    return layer.groups > 1 || shape.row == 128 || channels <= width ||
           (chosen != nullptr && chosen->reject("takes up to %lld channels, not %lld", width, channels));
  }
  double us(int config) const {
    const bool packs = sdk::has_new_weights(*request.policy) && weights(config) == WeightsWay::kPacked;
    return product_us(layer, config) + (packs ? kPackingUs : 0);
  }
};

} // namespace

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes_any_groups(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  // Of one group there is a cheapest: unsplit configs need no workspace. Of several the last one takes the least.
  const int32_t speaker = l.groups > 1 ? kConfigCount - 1 : 0;
  const Ways ways{request};
  if (!offer_config(ways, kConfigCount, config, offer, speaker)) return false;
  offer_weights(request, ways.weights(offer.config), offer);
  offer.workspace_bytes = workspace_bytes(l, kConfigs[offer.config]);
  return true;
}

// ---------------------------------------------------------------- plan and run

namespace {

Launcher launcher_for(int32_t type, int shape, WeightsWay way) {
  if (way == WeightsWay::kAcross) return of_half(type, [&](auto t) { return across_launcher_of<decltype(t)>(shape); });
  return of_type(type, [&](auto t) { return launcher_of<decltype(t)>(shape); });
}

class Wgmma final : public NewWeightsInstance {
 public:
  Wgmma(const polyconv_request &request, const Config &config)
      : NewWeightsInstance(request, takes_across(shape_of(*request.layers[0], config.shape))),
        shape_(shape_of(layer_, config.shape)),
        splits_(config.splits),
        launcher_(launcher_for(layer_.input.type, config.shape, way_)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  // Tensor maps hold the run's pointers. Making them is arithmetic on the host, 128 bytes each.
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    const void *input = begin_of(layer_.input, a.input), *weights = weights_of(a);
    Product product = make_product(layer_, a, shape_, splits_);
    if (!aligned(input, 16) || !aligned(weights, 16) || (shape_.turned && !product.plain))
      return multiply_unaligned(a, stream);
    product.leaves_out = product.taps[0] > 1;
    maps_.activations(layer_, input, shape_, &product);
    if (way_ == WeightsWay::kAcross)
      maps_.across(layer_, weights, shape_, &product);
    else
      maps_.weights(layer_, rows_, weights, shape_, &product);
    product.new_weights = new_weights_ ? 1 : 0;
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
