// wgmma_tf32_planes.cpp - forward, f32 under math tf32, channels first, compute capability 9.0: no tensor is turned, on
// its way in or out; see planes.cuh and near.cuh. Configs are tiles, pixels x channels x
// depth; "n": pixels and those around them are fetched once for all taps, where outputs lie as inputs do; "d": depth
// counts channels, then taps, without gaps, for few channels; "t2": two teams of warps take a tile each in turn.
//
// Floor: 2 N K P Q C R S at the rate of TF32 on the tensor cores, 418 TFLOP/s on an H200, and the bytes of both
// tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/device/device.hpp"
#include "common/host.hpp"
#include "common/implicit.hpp"
#include "planes/planes.hpp"
#include "rounded.hpp"
#include "wgmma/maps.hpp"

namespace polyconv::cuda {
namespace {

using namespace wgmma;

#define POLYCONV_NAME(pixels, channels, groups, teams, reading, name) name "x32",
constexpr const char *kNames[] = {POLYCONV_PLANES_TILES(POLYCONV_NAME)};
#undef POLYCONV_NAME

// Whether outputs lie as inputs do, so that a tap reads all of them from as many elements on.
bool is_near(const polyconv_layer &l) {
  int64_t expected = 1;
  for (int axis = 4; axis >= 2; --axis) {
    if (l.stride[axis - 2] != 1 || l.output.size[axis] != l.input.size[axis]) return false;
    if (l.input.stride[axis] != expected && (l.input.size[axis] > 1 || l.weights.size[axis] > 1)) return false;
    expected *= l.input.size[axis];
  }
  return true;
}

// The neighbouring pixels that a copy may bring, from an aligned pointer.
int32_t vector_of(const polyconv_layer &l) {
  const bool whole = sdk::spatial(l.input) % 4 == 0 && l.input.offset % 4 == 0 && l.input.stride[1] % 4 == 0 &&
                     (l.input.size[0] == 1 || l.input.stride[0] % 4 == 0);
  return whole ? 4 : 1;
}

// Whether each output reads the pixel at its own place: four neighbours are copied at once.
bool copies_vectors(const polyconv_layer &l) {
  const bool padded = l.pad_begin[0] != 0 || l.pad_begin[1] != 0 || l.pad_begin[2] != 0;
  return sdk::taps(l) == 1 && !padded && is_near(l) && vector_of(l) == 4;
}

// Nothing but a bias, a residual that lies as the result does, and a relu, clipped or not, all f32.
bool leaves_plainly_in_planes(polyconv_layer l) {
  if (l.result.type != POLYCONV_F32) return false;
  if (l.epilogue.residual_from != POLYCONV_RESIDUAL_NONE) {
    if (l.residual.type != POLYCONV_F32 || l.residual.offset != l.result.offset) return false;
    if (!std::equal(l.result.stride, l.result.stride + 5, l.residual.stride)) return false;
  }
  l.epilogue.residual_from = POLYCONV_RESIDUAL_NONE;
  if (l.epilogue.activation == POLYCONV_ACT_CLIPPED_RELU) l.epilogue.activation = POLYCONV_ACT_RELU;
  return bias_and_relu_at_most(l);
}

int64_t dense_depth(const polyconv_layer &l) {
  return l.weights.size[1] * sdk::taps(l);
}

// Whether the table of a dense tile holds its places, and 31 bits each.
bool fits_table(const polyconv_layer &l) {
  double reach = real(l.weights.size[1]) * real(l.input.stride[1]);
  for (int axis = 0; axis < 3; ++axis)
    reach += real(l.weights.size[2 + axis] - 1) * real(l.dilation[axis]) * real(l.input.stride[2 + axis]);
  return dense_depth(l) <= kMostDense && reach < 1 << 30;
}

struct Ways {
  const polyconv_layer &layer;

  bool serves(int config, sdk::Offer *chosen) const {
    const int64_t channels = layer.weights.size[1];
    const PlanesShape &shape = kPlanesShapes[config];
    if (shape.reading == Reading::kDense)
      return fits_table(layer) ||
             (chosen != nullptr &&
              chosen->reject("takes up to %d channels x taps, not %lld, less than 2^30 elements apart", kMostDense,
                             static_cast<long long>(dense_depth(layer))));
    if (shape.reading == Reading::kNear && !(is_near(layer) && make_near(layer, shape, 1).weights_stages > 0))
      return chosen != nullptr && chosen->reject("takes outputs as many and as dense as inputs, and taps near by");
    if (shape.reading == Reading::kNear && sdk::taps(layer) == 1)
      return chosen != nullptr && chosen->reject("takes windows of more than one element: others read no input twice");
    return channels % 4 == 0 ||
           (chosen != nullptr &&
            chosen->reject("takes input channels in whole 16 bytes, 4, not %lld", static_cast<long long>(channels)));
  }
  // Clocks of the busiest multiprocessor, by the longest of products, fetch and copies, then leaving, and bytes; partly
  // hidden by the longer of the two. Fitted to 161 times on an H200: 22 layers of ResNet-50 and VGG-16 (128) in every
  // config; 12 % rms, and what it chose took 1 % longer than the fastest on average, 6 % at most. Near tiles anew, to
  // seven layers; and the least time of ragged planes to two.
  double us(int config) const {
    const polyconv_layer &l = layer;
    const PlanesShape &shape = kPlanesShapes[config];
    const bool near = shape.reading == Reading::kNear, dense = shape.reading == Reading::kDense;
    const bool one_tap = sdk::taps(l) == 1, strided = l.stride[2] > 1;
    const auto parts = [](int64_t count, int64_t of) { return real(ceil_div(count, of)); };
    const double tiles =
        parts(l.output.size[0] * sdk::spatial(l.output), shape.pixels) * parts(l.output.size[1], shape.channels);
    const double products = shape.pixels * shape.channels / 35.8 + (near ? 1.9 * shape.pixels : 348);
    const double fetch = (shape.channels + (one_tap ? shape.pixels : 0)) * 128 / 40.7;
    const double each = dense ? 12 : near || copies_vectors(l) ? 0 : strided ? 11.9 : 5.75; // clocks a copy
    const double steps = dense ? parts(dense_depth(l), 32) : real(depth_blocks(l));
    const double multiplying = steps * std::max({products, fetch, shape.pixels * each});
    const bool turns = leaves_turned(shape.channels, shape.reading), whole = sdk::spatial(l.output) % 8 == 0;
    const double leaving = 1300 + shape.pixels * shape.channels / 9.87 * (whole ? 1 : turns ? 2.9 : 4.3);
    const double turn = shape.teams > 1 ? std::max(multiplying, leaving) : multiplying + leaving;
    const double computing = std::ceil(tiles / kHopperMultiprocessors) * turn / kHopperWgmmaClocks;
    const double read = real(sdk::elements(l.input)) * (one_tap && strided ? 0.5 : 1);
    const double moving = (read + real(sdk::elements(l.output))) * 4 / 4.85e6;
    return (whole ? 3.5 : 4) + std::max(computing, moving) + 0.39 * std::min(computing, moving);
  }
};

class Planes final : public CudaInstance {
 public:
  Planes(const polyconv_request &request, int32_t config)
      : CudaInstance(request),
        shape_(kPlanesShapes[config]),
        launcher_(product_planes(config)),
        vector_(vector_of(layer_)),
        plain_(leaves_plainly_in_planes(layer_)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    (shape_.reading == Reading::kDense ? pack_dense : pack_weights)(layer_, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    PlanesProduct product = make_planes(layer_, a, shape_);
    product.plain = plain_ ? 1 : 0;
    polyconv_layer weights = layer_;
    if (shape_.reading == Reading::kDense) {
      product.tap_blocks = product.depth_blocks = static_cast<int32_t>((dense_depth(layer_) + 31) / 32);
      weights.weights.size[1] = dense_row(layer_);
      for (int axis = 2; axis < 5; ++axis) weights.weights.size[axis] = 1;
    }
    product.vector = aligned(a.input, 16) ? vector_ : 1;
    if (shape_.reading == Reading::kNear) product.near = make_near(layer_, shape_, product.vector);
    if (shape_.reading == Reading::kTaps && !copies_vectors(layer_)) product.vector = 1;
    maps_.weights(weights, packed_rows(weights), a.weights[0], shape_, &product);
    launcher_.launch(product, multiprocessors_, stream);
  }

  const PlanesShape shape_;
  const PlanesLauncher launcher_;
  const int32_t vector_;
  const bool plain_;
  const MapEncoders maps_;
  const int multiprocessors_ = multiprocessors_of(device_);
};

// Whether neighbours along a row are neighbours in memory.
bool has_planes(const polyconv_tensor &t) {
  return t.stride[4] == 1 || t.size[4] == 1;
}

bool supports_planes(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes_f32_weights(request, POLYCONV_MATH_TF32, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_forward(l, offer)) return false;
  const int64_t taps = l.weights.size[2] + l.weights.size[3] + l.weights.size[4];
  if (taps > 31) return offer.reject("takes 31 taps along the axes, not %lld", static_cast<long long>(taps));
  if (!has_planes(l.input) || !has_planes(l.result)) return offer.reject("takes channels first");
  if (!fits_tiles(l, offer) || !fits_implicit(l, offer)) return false;
  if (!has_code("90a", request.policy->device_index, offer)) return false;
  if (l.weights.size[1] < 1) return offer.reject("takes one input channel or more");
  if (!fits_table(l) && l.weights.size[1] % 4 != 0)
    return offer.reject("takes input channels in whole 16 bytes, 4, or up to %d channels x taps, not %lld and %lld",
                        kMostDense, static_cast<long long>(l.weights.size[1]), static_cast<long long>(dense_depth(l)));
  if (!offer_config(Ways{l}, kPlanesShapeCount, config, offer)) return false;
  if (kPlanesShapes[offer.config].reading == Reading::kDense)
    offer.set_weights(0, "cuda_kcrs8_f32:1", l.weights.size[0] * dense_row(l) * 4);
  else
    offer.set_weights(0, packed_format(l), packed_bytes(l));
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_tf32_planes, kNames, supports_planes, instance_of<Planes>);

} // namespace polyconv::cuda
