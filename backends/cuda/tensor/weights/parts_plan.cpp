// parts_plan.cpp - which layers the gradient of weights in parts takes, and what a plan keeps of it.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/sums/bias_gradient.hpp"
#include "weights/parts.hpp"
#include "wgmma/maps.hpp"

namespace polyconv::cuda::wgmma {
namespace {

// A plane: dense, channels last, in whole 16 bytes.
polyconv_tensor plane_of(polyconv_tensor t) {
  t.type = POLYCONV_BF16, t.offset = 0;
  t.size[1] = (t.size[1] + 7) / 8 * 8;
  int64_t stride = 1;
  for (const int axis : {1, 4, 3, 2, 0}) t.stride[axis] = stride, stride *= t.size[axis];
  return t;
}

// The layer whose factors are planes.
polyconv_layer layer_of_planes(const polyconv_layer &l) {
  polyconv_layer p = l;
  p.input = plane_of(l.input), p.output = plane_of(l.output);
  return p;
}

struct Bytes {
  int64_t input, output, pieces; // of the workspace: planes, and what is added up
};
Bytes bytes_of(const polyconv_layer &planes, const WeightsShape &shape, int parts) {
  return {aligned_bytes(sdk::elements(planes.input) * 2 * parts),
          aligned_bytes(sdk::elements(planes.output) * 2 * parts),
          aligned_bytes(pieces_bytes(make_weights_product(planes, shape), shape))};
}

// Microseconds: as wgmma_weights has them, and the copies. 10 % too much on average over ResNet-50 at batch 128.
double estimate(const polyconv_layer &planes, const WeightsShape &shape, int parts) {
  const WeightsProduct p = make_weights_product(planes, shape);
  const double clocks = block_clocks(shape, parts, parts == 3 ? 6 : 3) + 100;
  const double elements = real(sdk::elements(planes.input)) + real(sdk::elements(planes.output));
  return 8 + blocks_of_longest(p) * clocks / 1400 + pieces_of(p) * shape.rows * shape.chunks * 256 / 2.77e6 +
         real(sdk::elements(planes.weights)) / 4e5 + elements * (4 + 2 * parts) / 3.8e6;
}

} // namespace

bool supports_weights_parts(const polyconv_request &request, int32_t config, const Splitting &splitting,
                            sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const auto [parts, math, name] = splitting;
  if (request.policy->math < math)
    return offer.reject("splits the factors of its products: only under math %s or freer", name);
  offer.math = math;
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_BACKWARD_WEIGHTS) return offer.reject("computes the gradient of weights alone");
  if (l.input.type != POLYCONV_F32 || l.output.type != POLYCONV_F32) return offer.reject("takes f32");
  if (!takes_no_empty({&l.output}, offer)) return false;
  if (!takes_channels_last(l.input.stride[1] == 1 && l.output.stride[1] == 1, offer)) return false;
  const polyconv_layer planes = layer_of_planes(l);
  polyconv_layer whole = planes; // in channels, as the maps see it
  whole.weights.size[1] = planes.input.size[1];
  if (!maps_hold_weights(request, whole, offer)) return false;
  const auto us = [&](int32_t c) { return estimate(planes, kPartsShapes[c], splitting.parts); };
  offer_cheapest(kPartsShapeCount, config, offer, us);
  offer.estimate_us += bias_gradient_us(l);
  const WeightsShape &shape = kPartsShapes[offer.config];
  const Bytes bytes = bytes_of(planes, shape, parts);
  offer.workspace_bytes = bytes.input + bytes.output + bytes.pieces + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  const Shares shares = make_weights_product(planes, shape).shares;
  if (!(real(shares.tiles) * shares.blocks < 1 << 30)) return offer.reject("takes less than 2^30 blocks of products");
  return takes_workspace(request, offer, "factors in parts");
}

namespace {

class WeightsOfParts final : public CudaInstance {
 public:
  WeightsOfParts(const polyconv_request &request, int config, int parts)
      : CudaInstance(request),
        parts_(parts),
        shape_(kPartsShapes[config]),
        planes_(layer_of_planes(layer_)),
        product_(make_weights_product(planes_, shape_)),
        bytes_(bytes_of(planes_, shape_, parts)),
        launcher_(weights_parts(config, parts)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    char *const x = static_cast<char *>(a.workspace), *const dy = x + bytes_.input, *const pieces = dy + bytes_.output;
    split(layer_.input, a.input, parts_, x, stream);
    split(layer_.output, a.output, parts_, dy, stream);
    WeightsProduct product = product_;
    product.boxes = 0, product.each = 0;
    for (int part = 0; part < parts_; ++part) {
      maps_.pixels(planes_, false, x + part * sdk::elements(planes_.input) * 2, shape_.depth,
                   &product.activations[part]);
      maps_.pixels(planes_, true, dy + part * sdk::elements(planes_.output) * 2, shape_.depth,
                   &product.gradients[part]);
    }
    product.pieces = reinterpret_cast<float *>(pieces);
    set_result(product, a.weights[0]);
    launcher_.launch(product, stream);
    add_pieces(product, shape_, stream);
    bias_gradient(layer_, a, pieces + bytes_.pieces, stream);
  }

  const int parts_;
  const WeightsShape shape_;
  const polyconv_layer planes_;
  const WeightsProduct product_;
  const Bytes bytes_;
  const WeightsLauncher launcher_;
  const MapEncoders maps_;
};

} // namespace

std::unique_ptr<sdk::Instance> create_weights_parts(const polyconv_request &request, int32_t config, int parts) {
  return std::make_unique<WeightsOfParts>(request, config, parts);
}

} // namespace polyconv::cuda::wgmma
