// wgmma_first.cpp - forward, f16 and bf16, channels first, windows of one element at stride 1, any dimensions, compute
// capability 9.0: a matrix product on Hopper's tensor cores that turns no tensor (first.hpp). Configs are tiles, output
// channels x pixels; "x32": blocks of depth of 32 channels instead of 64.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 790 TFLOP/s of f16 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/device.hpp"
#include "common/host.hpp"
#include "first/first.hpp"
#include "wgmma/instance.hpp"

namespace polyconv::cuda {
namespace {

using namespace first;

#define POLYCONV_NAME(rows, chunks, row_groups, chunk_groups, depth, name) name,
constexpr const char *kNames[] = {POLYCONV_FIRST_TILES(POLYCONV_NAME)};
#undef POLYCONV_NAME

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, const polyconv_layer &l, sdk::Offer &offer) {
  if (!wgmma::takes_halves(l, l.input, offer) || !wgmma::takes_forward(l, offer)) return false;
  if (!takes_rows(l, l.result, offer)) return false;
  // Of what is 16 bytes the TMA writes all, so that results end with them.
  if (l.result.size[4] % 8 != 0) return offer.reject("takes results whose rows of pixels are whole 16 bytes");
  if (!bias_and_relu_at_most(l)) return offer.reject("ends with a bias and a relu at most");
  const double chunks = real(l.output.size[0]) * real(ceil_div(l.output.size[4], kChunk));
  if (!(chunks * real(ceil_div(l.output.size[1], 64)) < 1 << 30)) return offer.reject("takes less than 2^30 tiles");
  return wgmma::fits_tiles(l, offer) && has_code("90a", request.policy->device_index, offer);
}

// Microseconds: products, or the bytes.
double estimate(const polyconv_layer &l, const FirstShape &shape) {
  const double columns = shape.chunks * kChunk, rows = shape.rows;
  const double chunks = real(l.output.size[0]) * real(ceil_div(l.output.size[4], kChunk));
  const double tiles = std::ceil(chunks / shape.chunks) * real(ceil_div(l.output.size[1], shape.rows));
  const double blocks = real(ceil_div(l.weights.size[1], shape.depth));
  const double fetched = rows * 128 + columns * shape.depth * 2;
  const double step = std::max(rows * columns * shape.depth / 2048, fetched / 64) + 16;
  const double turns = std::ceil(tiles / kHopperMultiprocessors);
  const double multiplying = (830 + turns * (blocks * step + 300 + rows * columns / 24)) / 1600;
  const double elements = real(sdk::elements(l.input)) + real(sdk::elements(l.output)) + real(sdk::elements(l.weights));
  const double moving = 2 * elements / 4.6e6;
  return 1.3 + std::max(multiplying, moving) + 0.4 * std::min(multiplying, moving);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const polyconv_layer l = in_rows(*request.layers[0]);
  if (!takes(request, l, offer)) return false;
  offer_cheapest(kFirstShapeCount, config, offer, [&](int32_t c) { return estimate(l, kFirstShapes[c]); });
  offer.set_weights(0, wgmma::packed_format(l), wgmma::packed_bytes(l));
  return true;
}

// ---------------------------------------------------------------- plan and run

class WgmmaFirst final : public wgmma::WgmmaInstance {
 public:
  WgmmaFirst(const polyconv_request &request, int config)
      : WgmmaInstance(request),
        rows_(in_rows(layer_)),
        shape_(kFirstShapes[config]),
        launcher_(of_half(layer_.input.type, [&](auto t) { return first_launcher_of<decltype(t)>(config); })) {
    const DeviceScope scope(device_);
    multiprocessors_ = multiprocessors_of(device_);
    launcher_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const void *input = begin_of(rows_.input, a.input), *result = begin_of(rows_.result, a.output);
    if (!aligned(input, 16) || !aligned(result, 16)) return wgmma::multiply_unaligned(layer_, a, stream);
    FirstProduct product = make_product(rows_, shape_);
    if (layer_.epilogue.has_bias) product.bias = static_cast<const float *>(a.bias[0]);
    wgmma::Shape weights = {};
    weights.channels = shape_.rows;
    maps_.weights(rows_, wgmma::packed_rows(rows_), a.weights[0], weights, &product.weights);
    maps_.rows(rows_.input, input, shape_.depth, &product.activations);
    maps_.rows(rows_.result, result, 64, &product.results);
    launcher_.launch(product, multiprocessors_, stream);
  }

  const polyconv_layer rows_;
  const FirstShape shape_;
  const FirstLauncher launcher_;
  int multiprocessors_ = 0;
};

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_first, kNames, supports, instance_of<WgmmaFirst>);

} // namespace polyconv::cuda
