// wgmma_strided_data.cpp - backward data of strided layers, f16 and bf16, channels last, compute capability 9.0: all
// residues of the strides in one launch of the Hopper product, each stored in place (strided.cuh). Configs are
// tiles, as wgmma's. What has more residues, wgmma_data takes.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200, or the result's bytes.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/adjoint.hpp>

#include <cmath>
#include <vector>

#include "common/device/device.hpp"
#include "common/host.hpp"
#include "strided/strided.hpp"
#include "wgmma/instance.hpp"

namespace polyconv::cuda {
namespace {

using namespace wgmma;

#define POLYCONV_NAME(shape, pixels, channels, groups, teams, blocks, turned, name) name,
constexpr const char *kNames[] = {POLYCONV_WGMMA_STRIDED_TILES(POLYCONV_NAME)};
#undef POLYCONV_NAME

bool has_depth(const sdk::AdjointPart &part) {
  return part.has_taps && sdk::spatial(part.layer.input) > 0;
}

// ---------------------------------------------------------------- supports

// Microseconds in a shape: tiles of all parts, of which a multiprocessor takes its share, or the bytes. Tiles that are
// not turned leave 16 pixels at once, which is slow here; of two teams' tiles a third leaves while others multiply.
// Fitted to 30 times on an H200, all strided layers of ResNet-50 at batch 128.
double estimate(const polyconv_layer &l, const Shape &shape) {
  const double step = std::max(block_clocks(shape), (shape.pixels + shape.channels) * 128 / 55.0);
  const double bytes = shape.pixels * shape.channels * 2;
  const double leaving = shape.turned ? 670 + bytes / 39.8 : 1120 + bytes / 16;
  double clocks = 0, tiles = 0;
  for (int64_t number = 0; number < sdk::adjoint_parts(l); ++number) {
    const sdk::AdjointPart part = sdk::adjoint_part(l, number);
    if (part.is_empty || !has_depth(part)) continue;
    const polyconv_tensor &result = part.layer.result;
    const double count =
        real(ceil_div(result.size[0] * sdk::spatial(result), shape.pixels) * ceil_div(result.size[1], shape.channels));
    tiles += count;
    clocks += count * (real(depth_blocks(part.layer)) * step + leaving * (shape.teams > 1 ? 0.7 : 1));
  }
  const double multiplying = clocks / tiles * std::ceil(tiles / kHopperMultiprocessors) / kHopperWgmmaClocks;
  const double moving = 2 * (real(sdk::elements(l.result)) + real(sdk::elements(l.output))) / 3.2e6;
  return 6 + std::max(multiplying, moving) + 0.1 * std::min(multiplying, moving);
}

// Whether weights are new in every run, and all parts can read them as they lie.
bool reads_across(const polyconv_request &request) {
  const polyconv_layer &l = *request.layers[0];
  for (int64_t number = 0; number < sdk::adjoint_parts(l); ++number) {
    const sdk::AdjointPart part = sdk::adjoint_part(l, number);
    const polyconv_layer *const layer = &part.layer;
    polyconv_request of_part = request;
    of_part.layers = &layer;
    if (!part.is_empty && part.has_taps && weights_way(of_part, true) != WeightsWay::kAcross) return false;
  }
  return true;
}

bool takes_part(const polyconv_request &request, const sdk::AdjointPart &part, sdk::Offer &offer) {
  if (part.is_empty || !has_depth(part)) return true;
  const polyconv_layer *const layer = &part.layer;
  polyconv_request of_part = request;
  of_part.layers = &layer;
  return takes(of_part, offer);
}

bool supports_strided(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_DATA, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_halves(l, l.output, offer)) return false;
  const auto parts = static_cast<long long>(sdk::adjoint_parts(l));
  if (parts < 2 || parts > kMostParts)
    return offer.reject("takes strides of 2 to %d residues, not %lld", kMostParts, parts);
  if (!takes_no_pooling(l, offer, "pools no gradient of a strided layer")) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (l.pad_mode != POLYCONV_PAD_ZERO && l.pad_mode != POLYCONV_PAD_CONSTANT &&
        l.pad_begin[axis] + l.pad_end[axis] > 0)
      return offer.reject("folds no gradient of the padding back: pads with zeros or a constant");
  if (!takes_one_group(l, offer)) return false;
  if (!takes_channels_last(l.result.stride[1] == 1 && l.output.stride[1] == 1, offer)) return false;
  if (!takes_plain_end(l, offer)) return false;
  int64_t packed = 0;
  bool any = false, all = true;
  const bool flat = is_flat(sdk::adjoint_part(l, 0).layer);
  for (int64_t number = 0; number < parts; ++number) {
    const sdk::AdjointPart part = sdk::adjoint_part(l, number);
    if (!takes_part(request, part, offer)) return false;
    if (part.is_empty) continue;
    if (is_flat(part.layer) != flat) return offer.reject("takes residues that all are images, or all volumes");
    if (part.has_taps) packed += aligned_bytes(packed_bytes(part.layer));
    any = any || has_depth(part), all = all && has_depth(part);
  }
  if (!any) return offer.reject("takes no layer whose taps meet nothing");
  if (!all && l.epilogue.has_bias) return offer.reject("takes no bias where no taps meet: stores zeros there");
  offer_cheapest(kStridedConfigs, config, offer, [&](int32_t c) { return estimate(l, kShapes[kStridedShapes[c]]); });
  const bool packs = !reads_across(request);
  if (packs && sdk::has_new_weights(*request.policy)) offer.estimate_us += kPackingUs;
  if (!packs) return true;
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "adjoint_%s", packed_format(l, !sdk::has_new_weights(*request.policy)));
  offer.set_weights(0, format, packed);
  return true;
}

// ---------------------------------------------------------------- plan and run

class Strided final : public CudaInstance {
 public:
  Strided(const polyconv_request &request, int config)
      : CudaInstance(request),
        new_weights_(sdk::has_new_weights(*request.policy)),
        across_(reads_across(request)),
        shape_(kShapes[kStridedShapes[config]]),
        launcher_(
            of_half(layer_.output.type, [&](auto t) { return strided_launcher_of<decltype(t)>(config, across_); })) {
    for (int64_t number = 0; number < sdk::adjoint_parts(layer_); ++number)
      if (const sdk::AdjointPart part = sdk::adjoint_part(layer_, number); !part.is_empty) parts_.push_back({part, 0});
    // As adjoint.cu has them: in the order of taps, which does not depend on padding.
    std::stable_sort(parts_.begin(), parts_.end(),
                     [](const Part &a, const Part &b) { return a.of.tap_class < b.of.tap_class; });
    int64_t end = 0;
    for (Part &part : parts_) {
      part.packed_at = end;
      if (part.of.has_taps) end += aligned_bytes(packed_bytes(part.of.layer));
    }
    const auto depth = [](const Part &part) { return has_depth(part.of) ? depth_blocks(part.of.layer) : 0; };
    std::stable_sort(parts_.begin(), parts_.end(), [&](const Part &a, const Part &b) { return depth(a) > depth(b); });
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    PackedLayer layers[kMostParts] = {};
    int count = 0;
    for (const Part &part : parts_)
      if (part.of.has_taps) layers[count++] = {&part.of.layer, static_cast<char *>(packed) + part.packed_at};
    if (count > 0) pack_new_weights(layers, count, raw, stream);
    if (!new_weights_) fence_weights(stream);
  }

  struct Part {
    sdk::AdjointPart of;
    int64_t packed_at;
  };

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    StridedProduct all(product_of(parts_[0], a));
    for (const Part &part : parts_) {
      if (!has_depth(part.of)) {
        all.zeros[all.zero_parts++] = zeros_of(part, a);
        continue;
      }
      Product &p = all.part[all.parts];
      p = product_of(part, a);
      if (!p.plain) return launch_unaligned(a, stream); // parts may begin at different places of a view
      all.end[all.parts] = (all.parts > 0 ? all.end[all.parts - 1] : 0) + p.pixel_tiles * p.channel_tiles;
      ++all.parts;
    }
    launcher_.launch(all, multiprocessors_, stream);
  }

  void launch_unaligned(const polyconv_arguments &a, cudaStream_t stream) const {
    for (const Part &part : parts_) multiply_unaligned(part.of.layer, arguments_of(part, a), stream, across_);
  }

  polyconv_arguments arguments_of(const Part &part, const polyconv_arguments &a) const {
    polyconv_arguments b = a;
    b.input = static_cast<char *>(a.output) + part.of.input * 2;
    b.output = static_cast<char *>(a.input) + part.of.result * 2;
    if (!across_) b.weights[0] = static_cast<char *>(a.weights[0]) + part.packed_at;
    return b;
  }

  // Not `plain` where pointers do not lie as maps need them.
  Product product_of(const Part &part, const polyconv_arguments &a) const {
    const polyconv_layer &l = part.of.layer;
    const polyconv_arguments b = arguments_of(part, a);
    const void *input = begin_of(l.input, b.input);
    void *result = begin_of(l.result, b.output);
    Product p = make_product(l, b, shape_, 1);
    p.boxes = p.plain =
        (aligned(input, 16) && aligned(result, 16) && aligned(b.weights[0], 16) && aligned(p.conv.epilogue.bias, 8))
            ? 1
            : 0;
    if (!p.plain) return p;
    maps_.activations(l, input, shape_, &p);
    if (across_)
      maps_.across(l, static_cast<const uint16_t *>(b.weights[0]) + across_begin(l).element, shape_, &p);
    else
      maps_.weights(l, packed_rows(l), b.weights[0], shape_, &p);
    p.new_weights = new_weights_ ? 1 : 0;
    maps_.columns(l, result, shape_, p.flat, &p.results);
    return p;
  }

  Zeros zeros_of(const Part &part, const polyconv_arguments &a) const {
    const polyconv_layer &l = part.of.layer;
    Zeros z = {};
    for (int axis = 0; axis < 3; ++axis) z.out[axis] = static_cast<int32_t>(l.result.size[2 + axis]);
    z.pixels = static_cast<int32_t>(l.result.size[0] * sdk::spatial(l.result));
    z.flat = is_flat(parts_[0].of.layer) ? 1 : 0;
    maps_.columns(l, begin_of(l.result, arguments_of(part, a).output), {kZeroPixels, 64, 0, 0, 0, true, false}, z.flat,
                  &z.results);
    return z;
  }

  const bool new_weights_, across_;
  const Shape shape_;
  const StridedLauncher launcher_;
  const MapEncoders maps_;
  std::vector<Part> parts_;
  const int multiprocessors_ = multiprocessors_of(device_);
};

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_strided_data, kNames, supports_strided, instance_of<Strided>);

} // namespace polyconv::cuda
