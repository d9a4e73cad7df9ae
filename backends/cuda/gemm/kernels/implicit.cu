// implicit.cu - forward, every float type: the fused implicit matrix product. The matrix of im2col exists only as tiles
// in shared memory, gathered there by cp.async or in vectors of channels; see product.cuh.
//
// Floor: 2 N K P Q C R S at the FMA rate: 50.5 TFLOP/s of strict f32 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include "common/instance.hpp"
#include "product.hpp"

namespace polyconv::cuda {
namespace {

using namespace gemm;

// Blocks of k that keep to one tap waste the end of a tap's last block; then addresses cost next to nothing.
bool keeps_to_taps(const polyconv_layer &l, int depth) {
  const int64_t channels = l.weights.size[1], cut = (channels + depth - 1) / depth * depth;
  return cut * 8 <= channels * 9 || channels >= 128;
}

// Whether 16 bytes of neighbouring channels can be read at once, were the pointer aligned to them.
bool has_vectors(const polyconv_layer &l) {
  const int64_t vector = l.input.type == POLYCONV_F64 ? 2 : l.input.type == POLYCONV_F32 ? 4 : 8;
  if (l.input.stride[1] != 1 || l.weights.size[1] % vector != 0 || l.input.offset % vector != 0) return false;
  for (const int axis : {0, 2, 3, 4})
    if (l.input.size[axis] > 1 && l.input.stride[axis] % vector != 0) return false;
  return true;
}

Source preferred_source(const polyconv_layer &l, int tile) {
  if (!keeps_to_taps(l, kShapes[tile].depth)) return Source::kScattered;
  return has_vectors(l) ? Source::kVectors : Source::kTaps;
}

// ---------------------------------------------------------------- plan and run

class Implicit final : public CudaInstance {
 public:
  Implicit(const polyconv_request &request, int tile) : CudaInstance(request), source_(preferred_source(layer_, tile)) {
    preferred_ = find_product(layer_.input.type, tile, source_);
    unaligned_ = find_product(layer_.input.type, tile, source_ == Source::kVectors ? Source::kTaps : source_);
    const DeviceScope scope(device_);
    preferred_.prepare(), unaligned_.prepare();
  }

  void pack(int, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    pack_weights(layer_, raw, packed, static_cast<cudaStream_t>(stream));
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Product product = make_product(layer_, a);
    const int64_t size = layer_.input.type == POLYCONV_F64 ? 8 : layer_.input.type == POLYCONV_F32 ? 4 : 2;
    product.input = static_cast<const char *>(a.input) + layer_.input.offset * size;
    const bool aligned = reinterpret_cast<uintptr_t>(product.input) % 16 == 0;
    (aligned ? preferred_ : unaligned_).launch(product, stream);
  }

  const Source source_;
  Launcher preferred_, unaligned_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int tile = choose_tile(l, config, offer);
  if (tile < 0) return false;
  offer.config = tile;
  offer.set_weights(0, packed_format(l), packed_bytes(l));
  const Source source = preferred_source(l, tile);
  const double gathering = source == Source::kScattered                        ? 1.2
                           : source == Source::kTaps && l.input.stride[1] == 1 ? 1.5
                                                                               : 1;
  offer.estimate_us = product_us(l, kShapes[tile]) * gathering;
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Implicit>(request, config);
}

} // namespace

extern const sdk::Kernel kernel_implicit;
const sdk::Kernel kernel_implicit = {"implicit", 0, kTileNames, kTileCount, supports, create};

} // namespace polyconv::cuda
