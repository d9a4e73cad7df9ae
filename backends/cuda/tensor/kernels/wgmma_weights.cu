// wgmma_weights.cu - the gradient of weights, f16 and bf16, channels last, compute capability 9.0, on Hopper's tensor
// cores (wgmma_weights.hpp). Configs are tiles, output channels x columns, where a column is an input channel of a tap.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/bias_gradient.hpp"
#include "common/gradients.cuh"
#include "wgmma_weights.hpp"

namespace polyconv::cuda {
namespace {

using namespace wgmma;

constexpr const char *kNames[] = {"128x256", "256x128", "128x128", "64x256", "64x576", "256x64", "64x128", "64x64"};
static_assert(sizeof kNames / sizeof *kNames == kWeightsShapeCount, "every shape has a name");

// ---------------------------------------------------------------- supports

// The forward layer that reads the input with the same windows: what it takes, the maps can hold.
polyconv_layer forward_of(const polyconv_layer &l) {
  polyconv_layer f = l;
  f.direction = POLYCONV_FORWARD;
  f.result = l.output;
  f.epilogue = {};
  return f;
}

// A layer that reads the output's gradient as it is: windows of one pixel.
polyconv_layer reading_of(const polyconv_layer &l) {
  polyconv_layer r = forward_of(l);
  r.input = l.output;
  r.weights.size[1] = l.output.size[1];
  for (int axis = 0; axis < 3; ++axis) {
    r.weights.size[2 + axis] = r.stride[axis] = r.dilation[axis] = 1;
    r.pad_begin[axis] = r.pad_end[axis] = 0;
  }
  return r;
}

// Whether wgmma goes forward through a layer; else rejects in its words.
bool maps_hold(const polyconv_request &request, const polyconv_layer &layer, sdk::Offer &offer) {
  const polyconv_layer *const pointer = &layer;
  polyconv_request forward = request;
  forward.layers = &pointer;
  return wgmma::supports(forward, 0, offer);
}

double real(int64_t v) {
  return static_cast<double>(v);
}

// Microseconds in a shape: the blocks of depth of a worker take their products' time or their fetches', at 36 bytes a
// clock; then pieces are written and read. Fitted to the layers of ResNet-50 and VGG-16 at batch 128 on an H200 in
// every shape: 17 % rms; the shape that it chooses takes 3.7 % longer than the fastest on average.
double estimate(const polyconv_layer &l, const WeightsShape &shape) {
  const WeightsProduct p = make_weights_product(l, shape);
  const double columns = shape.chunks * 64.0, products = shape.rows * columns * shape.depth / 2048;
  const double fetch = (shape.rows + columns) * shape.depth * 2 / 36;
  const double pieces = std::min(real(p.shares.tiles) + kWorkers, real(p.shares.most) * kWorkers);
  const double bytes = 2 * (real(sdk::elements(l.input)) + real(sdk::elements(l.output)));
  const double blocks = std::ceil(real(p.shares.tiles) * p.shares.blocks / kWorkers);
  const double multiplying = blocks * (std::max(products, fetch) + 60) / 1400;
  return 8 + std::max(multiplying, bytes / 3.2e6) + pieces * shape.rows * columns * 8 / 4e6 + bias_gradient_us(l);
}

int64_t aligned(int64_t bytes) {
  return (bytes + POLYCONV_ALIGNMENT - 1) / POLYCONV_ALIGNMENT * POLYCONV_ALIGNMENT;
}

bool supports_weights(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", request.count);
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_BACKWARD_WEIGHTS) return offer.reject("computes the gradient of weights alone");
  const int32_t type = l.input.type;
  if ((type != POLYCONV_F16 && type != POLYCONV_BF16) || l.output.type != type)
    return offer.reject("takes f16 and bf16, the same for input and output");
  if (sdk::elements(l.output) == 0) return offer.reject("takes no empty batch");
  if (!maps_hold(request, forward_of(l), offer) || !maps_hold(request, reading_of(l), offer)) return false;
  double least = 0;
  for (int c = config < 0 ? 0 : config; c < (config < 0 ? kWeightsShapeCount : config + 1); ++c) {
    const double us = estimate(l, kWeightsShapes[c]);
    if (least == 0 || us < least) least = us, offer.config = c;
  }
  offer.estimate_us = least;
  const WeightsShape &shape = kWeightsShapes[offer.config];
  offer.workspace_bytes = aligned(pieces_bytes(make_weights_product(l, shape), shape)) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  const Shares shares = make_weights_product(l, shape).shares;
  if (!(real(shares.tiles) * shares.blocks < 1 << 30)) return offer.reject("takes less than 2^30 blocks of products");
  return offer.workspace_bytes <= request.policy->workspace_limit ||
         offer.reject("needs a workspace of %lld bytes for partial sums",
                      static_cast<long long>(offer.workspace_bytes));
}

// ---------------------------------------------------------------- plan and run

class WgmmaWeights final : public CudaInstance {
 public:
  WgmmaWeights(const polyconv_request &request, int config)
      : CudaInstance(request),
        shape_(kWeightsShapes[config]),
        product_(make_weights_product(layer_, shape_)),
        launcher_(layer_.input.type == POLYCONV_F16 ? weights_f16(config) : weights_bf16(config)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    multiply(a, stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + aligned(pieces_bytes(product_, shape_)), stream);
  }

  void multiply(const polyconv_arguments &a, cudaStream_t stream) const {
    const auto *x = static_cast<const char *>(a.input) + layer_.input.offset * 2;
    const auto *dy = static_cast<const char *>(a.output) + layer_.output.offset * 2;
    if (reinterpret_cast<uintptr_t>(x) % 16 != 0 || reinterpret_cast<uintptr_t>(dy) % 16 != 0) // maps cannot address it
      return static_cast<void>(dispatch_gradients(layer_.input.type, layer_.output.type, [&](auto row) {
        launch_weights_gradient<decltype(row), int64_t>(layer_, a, kMostGradientThreads, stream);
      }));
    WeightsProduct product = product_;
    encode_pixels(encoder_, layer_, false, x, shape_.depth, &product.activations);
    encode_pixels(encoder_, layer_, true, dy, shape_.depth, &product.gradients);
    product.pieces = static_cast<float *>(a.workspace);
    product.result = a.weights[0];
    launcher_.launch(product, stream);
    add_pieces(product, shape_, stream);
  }

  const WeightsShape shape_;
  const WeightsProduct product_;
  const WeightsLauncher launcher_;
  const PixelMapEncoder encoder_ = find_pixel_encoder();
};

std::unique_ptr<sdk::Instance> create_weights(const polyconv_request &request, int32_t config) {
  return std::make_unique<WgmmaWeights>(request, config);
}

} // namespace

extern const sdk::Kernel kernel_wgmma_weights;
const sdk::Kernel kernel_wgmma_weights = {"wgmma_weights", 0, kNames, kWeightsShapeCount, supports_weights,
                                          create_weights};

} // namespace polyconv::cuda
