// pyramid.cu - a chain of 2D layers in one kernel: every layer's tile lies in shared memory, with the overlap that the
// layers after it need computed again by each block.
//
// Floor: the products of all layers, recomputed ones included, at the FMA rate, or the bytes of the chain's input and
// result. Nothing between them touches memory.
// SPDX-License-Identifier: Apache-2.0
#include "pyramid.cuh"

namespace polyconv::cuda {
namespace {

using namespace chain;

__global__ void __launch_bounds__(kMostThreads)
    fuse(const __grid_constant__ Pyramid p, const __grid_constant__ Pointers at, const int32_t pad_mode) {
  extern __shared__ __align__(16) float shared[];
  auto block = static_cast<int32_t>(blockIdx.x);
  Here here = {shared, 0, 0, {0, block % p.tiles[1]}};
  block /= p.tiles[1];
  here.tile[0] = block % p.tiles[0];
  here.image = block / p.tiles[0] * p.images;
  here.images = min(p.images, p.batch - here.image);
  for (int32_t i = 0; i < p.layers; ++i)
    for (auto e = static_cast<int32_t>(4 * threadIdx.x); e < p.stage[i].weight_count;
         e += 4 * static_cast<int32_t>(blockDim.x))
      copy_async<16>(shared + p.stage[i].weights + e, at.weights[i] + e, true);
  stage_input(p, at, here, pad_mode);
  await_copies();
#pragma unroll 1
  for (int32_t i = 0; i < p.layers; ++i) {
    __syncthreads();
    convolve(p, at, here, i);
    if (p.stage[i].pool_kind != POLYCONV_POOL_NONE) {
      __syncthreads();
      pool(p, at, here, i);
    }
    if (i + 1 < p.layers) pad_map(p, here, p.map[i + 1]);
  }
}

// ---------------------------------------------------------------- plan and run

constexpr PyramidConfig kConfigs[] = {{8, 32, 256}, {16, 16, 256}, {16, 32, 256}, {32, 32, 512}, {64, 64, 512}};
constexpr const char *kNames[] = {"r8_c32_t256", "r16_c16_t256", "r16_c32_t256", "r32_c32_t512", "r64_c64_t512"};
constexpr int kConfigCount = 5;
constexpr const char *kFormat = "cuda_chain_pyramid4:1";

class Fused final : public sdk::Instance {
 public:
  Fused(const polyconv_request &request, const PyramidConfig &config)
      : device_(request.policy->device_index), pad_mode_(request.layers[0]->pad_mode) {
    sdk::Offer offer = {};
    if (!make_pyramid(request, config, pyramid_, cost_, offer))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-chain/pyramid: no tiles for a chain that was accepted");
    for (int i = 0; i < request.count; ++i) layers_[i] = *request.layers[i];
    const DeviceScope scope(device_);
    check(cudaFuncSetAttribute(fuse, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kSharedBytes)),
          "asking for shared memory");
  }
  void pack(int layer, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    pack_weights(layers_[layer], raw, packed, static_cast<cudaStream_t>(stream));
  }
  void run(const polyconv_arguments &a, void *stream) const override {
    if (cost_.blocks == 0) return;
    const DeviceScope scope(device_);
    Pointers at = {};
    at.input = a.input, at.result = a.output;
    for (int i = 0; i < pyramid_.layers; ++i) {
      const polyconv_epilogue &e = layers_[i].epilogue;
      at.weights[i] = static_cast<const float *>(a.weights[i]);
      at.bias[i] = e.has_bias ? static_cast<const float *>(a.bias[i]) : nullptr;
      at.scale[i] = e.has_scale ? static_cast<const float *>(a.scale[i]) : nullptr;
      at.residual[i] = e.residual_from == POLYCONV_RESIDUAL_BUFFER ? a.residual[i] : nullptr;
    }
    fuse<<<static_cast<unsigned>(cost_.blocks), cost_.threads, static_cast<size_t>(cost_.shared_bytes),
           static_cast<cudaStream_t>(stream)>>>(pyramid_, at, pad_mode_);
    check_launch("cuda-chain/pyramid");
  }

 private:
  const int device_, pad_mode_;
  polyconv_layer layers_[POLYCONV_MAX_CHAIN] = {};
  Pyramid pyramid_;
  PyramidCost cost_;
};

bool takes_layer(const polyconv_request &request, int i, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[i];
  const int32_t x = l.input.type, w = l.weights.type;
  const bool image = x == POLYCONV_U8 || x == POLYCONV_U16;
  const bool same = x == w && (x == POLYCONV_F32 || x == POLYCONV_F16 || x == POLYCONV_BF16);
  if (l.direction != POLYCONV_FORWARD) return offer.reject("layer %d: computes outputs, not gradients", i);
  if (l.sum_type != POLYCONV_F32 || !(same || (image && w == POLYCONV_F32)))
    return offer.reject("layer %d: sums in f32: f32, f16, bf16 and images of u8 and u16", i);
  if (!is_2d(l)) return offer.reject("layer %d: its tiles are of two dimensions, not three", i);
  if (!fits_int32(l)) return offer.reject("layer %d: a tensor has 2^31 elements or more", i);
  if (l.save != POLYCONV_SAVE_NONE) return offer.reject("layer %d: saves nothing", i);
  if (i > 0 && l.pad_mode != POLYCONV_PAD_ZERO && l.pad_mode != POLYCONV_PAD_CONSTANT)
    return offer.reject("layer %d: pads with zeros or a constant between layers", i);
  return true;
}

// Products at half the FMA rate, and a launch.
double pyramid_us(const PyramidCost &cost) {
  return 5 + cost.products / 5e6;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count < 2) return offer.reject("fuses two layers or more");
  for (int i = 0; i < request.count; ++i)
    if (!takes_layer(request, i, offer)) return false;
  offer.estimate_us = 0;
  for (int i = config < 0 ? 0 : config; i < (config < 0 ? kConfigCount : config + 1); ++i) {
    Pyramid pyramid;
    PyramidCost cost;
    if (!make_pyramid(request, kConfigs[i], pyramid, cost, offer)) continue;
    const double us = pyramid_us(cost);
    if (offer.estimate_us == 0 || us < offer.estimate_us) offer.estimate_us = us, offer.config = i;
  }
  if (offer.estimate_us == 0) return false;
  for (int i = 0; i < request.count; ++i) offer.set_weights(i, kFormat, packed_bytes(*request.layers[i]));
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Fused>(request, kConfigs[config]);
}

} // namespace

extern const sdk::Kernel kernel_pyramid;
const sdk::Kernel kernel_pyramid = {"pyramid", 0, kNames, kConfigCount, supports, create};

} // namespace polyconv::cuda
