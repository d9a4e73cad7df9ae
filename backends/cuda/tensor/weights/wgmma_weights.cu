// wgmma_weights.cu - the gradient of weights, f16 and bf16, channels last, compute capability 9.0, on Hopper's tensor
// cores (weights.hpp). Configs are tiles, output channels x columns, where a column is an input channel of a tap.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/numbers.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/sums/gradients.cuh"
#include "weights/weights.hpp"

namespace polyconv::cuda {
namespace {

using namespace wgmma;

constexpr const char *kNames[] = {"128x256", "256x128", "128x128", "64x256", "64x576",
                                  "256x64",  "64x128",  "64x64",   "64x192", "128x192"};
static_assert(sizeof kNames / sizeof *kNames == kWeightsShapeCount, "every shape has a name");

// ---------------------------------------------------------------- supports

// Microseconds of a product: the longest share's products or their fetches, faster where few workers fetch, or the
// bytes; pieces and what becomes of them, or whole tiles on their way out. Fitted to 210 times on an H200, ResNet-50
// and VGG-16 at batch 128: 14 % rms; and what whole tiles and pieces cost small layers to 34 others, at batch 32.
double product_us(const polyconv_layer &l, const WeightsProduct &p, const WeightsShape &shape) {
  const double fetching = std::clamp(real(kWorkers) / p.shares.workers, 1.0, 2.0), columns = shape.chunks * 64.0;
  const double clocks = std::max(shape.rows * columns * shape.depth / 2048,
                                 block_clocks(shape, 1, 0) / fetching); // no products: what fetches take
  // Windows whose pixels begin within a sector of 32 bytes, and gradients that do, take longer; 121 layers on an H100.
  const bool windows = sdk::taps(l) > 1 && l.weights.size[1] % 16 != 0, gradients = l.weights.size[0] % 16 != 0;
  const double misaligned = windows ? 1.4 : gradients ? 1.25 : 1;
  const double multiplying = misaligned * blocks_of_longest(p.shares) * (clocks + 32) / 2117;
  const double moving = 2 * (real(sdk::elements(l.input)) + real(sdk::elements(l.output))) / 4.6e6;
  const bool whole = p.whole && p.shares.all_whole();
  const double leaving = whole ? p.shares.group * shape.rows * columns * 0.2 / 2117 : 3; // or the kernel that adds
  return 2.8 + std::max(multiplying, moving) + 0.36 * std::min(multiplying, moving) + adding_us(l, p, shape) + leaving;
}

// Tiles that one worker sums alone leave at once where channels lie side by side. Where that takes less time, so do
// all.
WeightsProduct product_of(const polyconv_layer &l, const WeightsShape &shape) {
  WeightsProduct p = make_weights_product(l, shape);
  p.whole = l.weights.stride[1] == 1 ? 1 : 0;
  WeightsProduct whole = p;
  whole.shares = share_out_whole(p.shares);
  return p.whole && product_us(l, whole, shape) < product_us(l, p, shape) ? whole : p;
}

// In a shape: the one that it chooses took 1.3 % longer than the fastest on average, 12 % at most, on the 210.
double estimate(const polyconv_layer &l, const WeightsShape &shape) {
  return product_us(l, product_of(l, shape), shape) + bias_gradient_us(l);
}

bool supports_weights(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (!is_half(type) || l.output.type != type) return offer.reject("takes f16 and bf16, the same for input and output");
  if (!takes_no_empty({&l.output}, offer)) return false;
  if (!maps_hold_weights(request, l, offer)) return false;
  offer_cheapest(kWeightsShapeCount, config, offer, [&](int32_t c) { return estimate(l, kWeightsShapes[c]); });
  const WeightsShape &shape = kWeightsShapes[offer.config];
  offer.workspace_bytes = aligned_bytes(pieces_bytes(product_of(l, shape), shape)) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  const Shares shares = product_of(l, shape).shares;
  if (!(real(shares.tiles) * shares.blocks < 1 << 30)) return offer.reject("takes less than 2^30 blocks of products");
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class WgmmaWeights final : public CudaInstance {
 public:
  WgmmaWeights(const polyconv_request &request, int config)
      : CudaInstance(request),
        shape_(kWeightsShapes[config]),
        product_(product_of(layer_, shape_)),
        launcher_(layer_.input.type == POLYCONV_F16 ? weights_f16(config) : weights_bf16(config)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    multiply(a, stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + aligned_bytes(pieces_bytes(product_, shape_)), stream);
  }

  void multiply(const polyconv_arguments &a, cudaStream_t stream) const {
    const auto *x = static_cast<const char *>(a.input) + layer_.input.offset * 2;
    const auto *dy = static_cast<const char *>(a.output) + layer_.output.offset * 2;
    if (!aligned(x, 16) || !aligned(dy, 16)) // maps cannot address it
      return static_cast<void>(dispatch_gradients(layer_.input.type, layer_.output.type, [&](auto row) {
        launch_weights_gradient<decltype(row), int64_t>(layer_, a, kMostGradientThreads, stream);
      }));
    WeightsProduct product = product_;
    if (product.boxes) {
      encode_boxes(boxes_, layer_.input, x, shape_.depth, shape_.chunks, &product.activations[0]);
      encode_boxes(boxes_, layer_.output, dy, shape_.depth, shape_.rows / 64, &product.gradients[0]);
    } else {
      encode_pixels(encoder_, layer_, false, x, shape_.depth, &product.activations[0]);
      encode_pixels(encoder_, layer_, true, dy, shape_.depth, &product.gradients[0]);
    }
    product.pieces = static_cast<float *>(a.workspace);
    product.result = a.weights[0];
    launcher_.launch(product, stream);
    add_pieces(product, shape_, stream);
  }

  const WeightsShape shape_;
  const WeightsProduct product_;
  const WeightsLauncher launcher_;
  const PixelMapEncoder encoder_ = find_pixel_encoder();
  const BoxMapEncoder boxes_ = find_box_encoder();
};

std::unique_ptr<sdk::Instance> create_weights(const polyconv_request &request, int32_t config) {
  return std::make_unique<WgmmaWeights>(request, config);
}

} // namespace

extern const sdk::Kernel kernel_wgmma_weights;
const sdk::Kernel kernel_wgmma_weights = {"wgmma_weights", 0, kNames, kWeightsShapeCount, supports_weights,
                                          create_weights};

} // namespace polyconv::cuda
