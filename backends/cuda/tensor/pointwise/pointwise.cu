// pointwise.cu - forward, f16 and bf16, channels last: 1 x 1 layers whose weights are few, with a bias, a residual and
// a relu, clipped or not, at most; filters in eights, or fewer than eight. Such layers move far more bytes than they
// multiply; tiles that fetch weights anew, and rows of few channels by the TMA, keep the general products at a half to
// a quarter of memory's rate. Configs are the strips of 32 pixels that a warp has under way.
//
// Floor: input and output once. 24 -> 144 channels of 56 x 56, N = 128, f16: 135 MB.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "common/host.hpp"
#include "mma/product.hpp"
#include "pixel_matrix.hpp"
#include "pointwise/pointwise.cuh"

namespace polyconv::cuda {
namespace {

using namespace tensor;

constexpr int kStages[] = {2, 3, 4};
constexpr const char *kNames[] = {"stages2", "stages3", "stages4"};
constexpr int kConfigCount = sizeof kStages / sizeof *kStages;

Products products_of(const polyconv_layer &l) {
  return l.input.type == POLYCONV_BF16 ? Products::kBfloat : Products::kHalf;
}

// The geometry of a layer, without pointers.
Pointwise shape_of(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  Pointwise p = {};
  p.pixels = l.output.size[0] * sdk::spatial(l.output);
  p.input_row = row_of(l.input), p.result_row = row_of(l.result), p.residual_row = row_of(l.residual);
  p.channels = static_cast<int32_t>(l.input.size[1]), p.results = static_cast<int32_t>(l.output.size[1]);
  p.low = e.activation == POLYCONV_ACT_NONE ? -INFINITY : 0;
  p.high = e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.activation_alpha : INFINITY;
  p.residual_scale = e.residual_scale;
  return p;
}

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  if (!mma_takes(request, products_of(l), offer)) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (l.weights.size[2 + axis] != 1 || l.stride[axis] != 1 || l.pad_begin[axis] != 0 ||
        l.input.size[2 + axis] != l.output.size[2 + axis])
      return offer.reject("takes windows of one element, a step apart, without padding");
  if (!takes_one_group(l, offer)) return false;
  const bool few = shape_of(l).few();
  if (l.input.size[1] % 8 != 0 || (l.output.size[1] % 8 != 0 && !few))
    return offer.reject("takes channels in eights, or fewer than eight filters, not %" PRId64 " and %" PRId64,
                        l.input.size[1], l.output.size[1]);
  if (!takes_channels_last(l.input.stride[1] == 1 && l.result.stride[1] == 1, offer)) return false;
  const polyconv_epilogue &e = l.epilogue;
  if (e.has_scale || e.activation > POLYCONV_ACT_CLIPPED_RELU || l.save != POLYCONV_SAVE_NONE ||
      (e.has_bias && l.bias_type != POLYCONV_F32))
    return offer.reject("finishes with a bias, a residual and a relu, clipped or not, at most");
  const bool adds = e.residual_from != POLYCONV_RESIDUAL_NONE;
  if (few && adds) return offer.reject("adds no residual to fewer than eight filters");
  const bool leaves = few ? l.result.type == l.input.type && pixels_lie_apart(l.result, row_of(l.result))
                          : is_matrix(l.result, l.input.type);
  if (!is_matrix(l.input, l.input.type) || !leaves || (adds && !is_matrix(l.residual, l.input.type)))
    return offer.reject("takes tensors of one type whose pixels are equally far apart, by whole 16 bytes");
  return true;
}

// The warps of a block: as many as shared memory holds.
int warps_of(const Pointwise &p, int stages, int64_t shared) {
  const int64_t fit = (shared - p.shared_bytes(0, stages)) / p.warp_bytes(stages);
  return static_cast<int>(std::clamp<int64_t>(fit, 0, Pointwise::kMostWarps));
}

struct Ways {
  const polyconv_layer &layer;
  int64_t shared; // bytes of a block, at most

  bool serves(int config, sdk::Offer *chosen) const {
    const Pointwise p = shape_of(layer);
    if (warps_of(p, kStages[config], shared) >= 4) return true;
    return chosen != nullptr &&
           chosen->reject(
               "needs %d bytes of shared memory for the weights and four warps' strips, a block has %" PRId64,
               p.shared_bytes(4, kStages[config]), shared);
  }
  // Bytes, of which those that are written take longer and few warps move fewer at a time; or a warp's chunks, one
  // after the other. Fitted to the layers of MobileNetV2 at batch 128 on an H200, 10 % rms.
  double us(int config) const {
    const Pointwise p = shape_of(layer);
    const int stages = kStages[config], warps = warps_of(p, stages, shared);
    const bool adds = layer.epilogue.residual_from != POLYCONV_RESIDUAL_NONE;
    const double written = 2.0 * real(p.pixels) * p.results;
    const double read = 2.0 * real(p.pixels) * p.channels + (adds ? written : 0);
    // A lane that stores the few results of a pixel writes a part of each sector: 6 layers.
    const double writing = p.few() ? real(p.pixels) / 100e3 : written / 2.4e6;
    const double moving = (writing + read / 4e6) * (0.8 + 3.2 / warps);
    const double rounds = real(ceil_div(p.strips(), int64_t{kHopperMultiprocessors} * warps));
    const double waiting = 1.1 * rounds * real(ceil_div(p.results, Pointwise::kChunk));
    return 3 + std::max(moving, waiting) - 0.05 * stages; // of equals, more strips under way
  }
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const Ways ways = {l, block_shared_bytes(request.policy->device_index)};
  if (!offer_config(ways, kConfigCount, config, offer)) return false;
  offer.set_weights(0, mma_packed_format(products_of(l)), mma_packed_bytes(l, products_of(l)));
  return true;
}

// ---------------------------------------------------------------- plan and run

using Kernel = void (*)(Pointwise);

template <class T>
Kernel kernel_of(int config) {
  constexpr Kernel kernels[] = {multiply_strips<T, 2>, multiply_strips<T, 3>, multiply_strips<T, 4>};
  return kernels[config];
}

class PointwiseInstance final : public CudaInstance {
 public:
  PointwiseInstance(const polyconv_request &request, int32_t config)
      : CudaInstance(request),
        kernel_(layer_.input.type == POLYCONV_BF16 ? kernel_of<__nv_bfloat16>(config) : kernel_of<__half>(config)),
        stages_(kStages[config]) {
    const DeviceScope scope(device_);
    const Pointwise p = shape_of(layer_);
    const auto lent = static_cast<int>(block_shared_bytes(device_));
    most_warps_ = warps_of(p, stages_, lent);
    allow_shared(kernel_, lent);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    mma_pack(layer_, products_of(layer_), raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    const bool adds = layer_.epilogue.residual_from != POLYCONV_RESIDUAL_NONE;
    Pointwise p = shape_of(layer_);
    p.input = begin_of(layer_.input, a.input);
    p.result = begin_of(layer_.result, a.output);
    p.residual = adds ? begin_of(layer_.residual, a.residual[0]) : nullptr;
    p.weights = a.weights[0], p.bias = layer_.epilogue.has_bias ? a.bias[0] : nullptr;
    const auto address = [](const void *pointer) { return reinterpret_cast<uintptr_t>(pointer); };
    p.aligned = (address(p.input) | (p.few() ? 0 : address(p.result)) | address(p.residual)) % 16 == 0;
    const int64_t blocks = std::min<int64_t>(p.strips(), multiprocessors_);
    const auto warps = static_cast<int>(std::min<int64_t>(most_warps_, ceil_div(p.strips(), blocks)));
    launch_waiting(kernel_, static_cast<unsigned>(blocks), 32 * warps,
                   static_cast<size_t>(p.shared_bytes(warps, stages_)), stream, p);
  }

  const Kernel kernel_;
  const int stages_;
  int most_warps_ = 0;
  const int multiprocessors_ = multiprocessors_of(device_);
};

} // namespace

POLYCONV_DEFINE_KERNEL(pointwise, kNames, supports, instance_of<PointwiseInstance>);

} // namespace polyconv::cuda
