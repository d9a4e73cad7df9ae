// wgmma_weights.cu - the gradient of weights, f16 and bf16, channels last, compute capability 9.0, on Hopper's tensor
// cores (weights.hpp). Configs are tiles, output channels x columns, where a column is an input channel of a tap.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/kernel.hpp"
#include "common/numbers.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/sums/gradients.cuh"
#include "common/types.hpp"
#include "pixel_matrix.hpp"
#include "weights/weights.hpp"
#include "wgmma/maps.hpp"

namespace polyconv::cuda {
namespace {

using namespace wgmma;

constexpr const char *kNames[] = {"128x256", "256x128", "128x128", "64x256",  "64x576", "256x64",
                                  "64x128",  "64x64",   "64x192",  "128x192", "128x64"};
static_assert(sizeof kNames / sizeof *kNames == kWeightsShapeCount, "every shape has a name");

// ---------------------------------------------------------------- supports

// Of the bytes that tiles fetch of a factor, how many the second cache sends: what several tiles want at the same time
// it sends to some of them at once.
double sent(double tiles) {
  return 0.82 + 0.18 / tiles;
}

// From 0, where all that a run touches stays in the second cache, to 1, where nothing does.
double overflow(double bytes) {
  return std::clamp((bytes - 27.3e6) / 6.2e6, 0.0, 1.0);
}

// Microseconds of a product: the longest share's products or their fetches, or the bytes; pieces and what becomes of
// them, or whole tiles on their way out; what the blocks of a cluster tell each other. Fitted to 620 times of 64 layers
// in graphs, and to 1,500 of 140 census layers run one by one, on an H200: 13 % rms; of the 64 the choice takes 2 %
// longer than the fastest that was measured.
double product_us(const polyconv_layer &l, const WeightsProduct &p, const WeightsShape &shape) {
  constexpr double kClocks = kHopperClocks;
  const double columns = shape.chunks * 64.0, tile_bytes = shape.rows * columns * 4;
  const double blocks = real(p.shares.workers) * p.sharing;
  const double factors = 2 * (real(sdk::elements(l.input)) + real(sdk::elements(l.output)));
  const bool all_whole = p.whole && p.shares.all_whole();
  const double over = overflow(factors + (all_whole ? 0 : pieces_of(p) * tile_bytes));
  // Clocks of a block of depth: its products', its fetches' by one block of threads, or what the second cache takes to
  // send the fetches of all.
  const double column_tiles = std::ceil(real(p.chunks) / shape.chunks);
  const double asked = shape.rows * sent(column_tiles) + columns * sent(p.row_tiles);
  const double clocks = std::max({shape.rows * columns * shape.depth / 2048,
                                  (shape.rows + columns) * shape.depth * 2 / (p.boxes ? 70.0 : 42.4),
                                  asked * shape.depth * 2 * blocks / (6790 - 1920 * over)});
  // Windows whose pixels begin within a sector of 32 bytes take longer.
  const double misaligned = sdk::taps(l) > 1 && row_of(l.input) % 16 != 0 ? 1.9 : 1;
  // Pixels of fewer than 64 bytes are asked for one by one.
  const double narrow = sdk::taps(l) > 1 && l.input.size[1] < 16 ? 1.5 : 1;
  const double multiplying = misaligned * narrow * blocks_of_longest(p) * (clocks + 59) / kClocks;
  const double moving = factors / (45.6e6 - 31.6e6 * over);
  const double weights = real(sdk::elements(l.weights));
  const double leaving = all_whole
                             ? weights / 0.69e6 + (p.sharing > 1 ? 0 : p.shares.group * tile_bytes / 148 / kClocks)
                             : 2.3 + pieces_of(p) * tile_bytes / 1.7e6 + weights / 1.37e6;
  const double telling = p.sharing == 1 ? 0 : 0.85 + tile_bytes * (1 - 1.0 / p.sharing) / 13.5 / kClocks;
  return 3.26 + std::max(multiplying, moving) + 0.603 * std::min(multiplying, moving) + leaving + telling;
}

// Of all ways to share out a layer's depth, the one that takes the least time: in pieces, in whole tiles where channels
// lie side by side, or in clusters, of which each sums one tile. (Clusters with several pieces took 1.2 to 1.4 times as
// long as they should.)
WeightsProduct product_of(const polyconv_layer &l, const WeightsShape &shape) {
  WeightsProduct best = make_weights_product(l, shape);
  if (l.groups > 1) return best; // what is a row's own is found among pieces
  best.whole = l.weights.stride[1] == 1 ? 1 : 0;
  double least = product_us(l, best, shape);
  const auto consider = [&](const WeightsProduct &p) {
    if (const double us = product_us(l, p, shape); us < least) least = us, best = p;
  };
  if (best.whole) {
    WeightsProduct whole = best;
    whole.shares = share_out_whole(best.shares, 1);
    consider(whole);
  }
  for (const int32_t sharing : {2, 4, kMostSharing}) {
    WeightsProduct p = make_weights_product(l, shape, sharing);
    p.whole = 1;
    p.shares = share_out_whole(p.shares, sharing);
    if (p.shares.workers == p.shares.tiles) consider(p);
  }
  return best;
}

// In a shape, 0 where it does not serve.
double estimate(const polyconv_layer &l, const WeightsShape &shape) {
  if (!suits_groups(l, shape)) return 0;
  return product_us(l, product_of(l, shape), shape) + bias_gradient_us(l);
}

bool supports_weights(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (!is_half(type) || l.output.type != type) return offer.reject("takes f16 and bf16, the same for input and output");
  if (!takes_no_empty({&l.output}, offer)) return false;
  polyconv_layer read = l; // maps know no groups
  read.groups = 1, read.weights.size[1] = l.input.size[1];
  if (!maps_hold_weights(request, read, offer)) return false;
  if (!offer_cheapest(kWeightsShapeCount, config, offer, [&](int32_t c) { return estimate(l, kWeightsShapes[c]); }))
    return offer.reject("takes groups of filters that tiles of 64, 128 or 256 are multiples of, or the reverse");
  const WeightsShape &shape = kWeightsShapes[offer.config];
  const WeightsProduct product = product_of(l, shape);
  offer.workspace_bytes = aligned_bytes(pieces_bytes(product, shape)) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  const Shares &shares = product.shares;
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
        launcher_(of_half(layer_.input.type, [&](auto t) { return weights_launcher_of<decltype(t)>(config); })) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    multiply(a, stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + aligned_bytes(pieces_bytes(product_, shape_)), stream);
  }

  void multiply(const polyconv_arguments &a, cudaStream_t stream) const {
    const void *const x = begin_of(layer_.input, a.input), *const dy = begin_of(layer_.output, a.output);
    if (!aligned(x, 16) || !aligned(dy, 16)) // maps cannot address it
      return static_cast<void>(dispatch_gradients(layer_.input.type, layer_.output.type, [&](auto row) {
        launch_weights_gradient<decltype(row), int64_t>(layer_, a, kMostGradientThreads, stream);
      }));
    WeightsProduct product = product_;
    if (product.boxes) {
      maps_.matrix(layer_.input, x, shape_.depth, product.boxes & kBoxOfActivations ? shape_.chunks : 1,
                   &product.activations[0]);
      maps_.matrix(layer_.output, dy, shape_.depth, product.boxes & kBoxOfGradients ? shape_.rows / 64 : 1,
                   &product.gradients[0]);
    } else {
      maps_.pixels(layer_, false, x, shape_.depth, &product.activations[0]);
      maps_.pixels(layer_, true, dy, shape_.depth, &product.gradients[0]);
    }
    product.pieces = static_cast<float *>(a.workspace);
    product.result = a.weights[0];
    product.vector = vector_of(product);
    launcher_.launch(product, stream);
    add_pieces(product, shape_, stream);
  }

  const WeightsShape shape_;
  const WeightsProduct product_;
  const WeightsLauncher launcher_;
  const MapEncoders maps_;
};

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_weights, kNames, supports_weights, instance_of<WgmmaWeights>);

} // namespace polyconv::cuda
