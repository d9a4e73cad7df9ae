// constant.cu - forward 2D for few input channels, with the weights in the constant bank: a multiply-add takes a weight
// as an operand that costs no register, and one load of it serves all outputs of a thread. The weights travel as
// parameters of the launch, so that plans, streams and captured graphs each have their own; what 32,764 bytes do not
// hold is split over output channels into several launches.
//
// Floor: max(2 N K P Q C R S / FMA rate, compulsory bytes / copy rate). For 7x7, 2 filters and 20 rows a thread issues
// 7 vector loads and 7 loads of weight pairs beside 280 multiply-adds; staging and stores are what else there is.
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "common/host.hpp"
#include "constant_cost.hpp"
#include "filter.cuh"

namespace polyconv::cuda {
namespace constant {
extern template const void *find_kernel<1, 0>(const Variant &);
extern template const void *find_kernel<3, 0>(const Variant &);
extern template const void *find_kernel<4, 0>(const Variant &);
extern template const void *find_kernel<5, 0>(const Variant &);
extern template const void *find_kernel<7, 0>(const Variant &);
} // namespace constant

namespace {

using namespace constant;

const void *kernel_for(int taps, const Variant &variant) {
  switch (taps) {
    case 1: return find_kernel<1>(variant);
    case 3: return find_kernel<3>(variant);
    case 4: return find_kernel<4>(variant);
    case 5: return find_kernel<5>(variant);
    default: return find_kernel<7>(variant);
  }
}

constexpr int64_t kMostChannels = 16, kMostTaps = 1024, kMostLaunches = 16;

const char *const kNames[] = {"filters1_rows8",  "filters2_rows12", "filters2_rows20", "filters4_rows8",
                              "filters4_rows12", "filters5_rows8",  "filters8_rows9",  "filters12_rows4"};
static_assert(sizeof kNames / sizeof kNames[0] == kShapeCount);

// A bias and a relu at most, and no pooling: stored from registers.
bool plain(const polyconv_layer &l) {
  return !sdk::has_pooling(l) && bias_and_relu_at_most(l) && l.result.type == POLYCONV_F32;
}

// False where a group is too large for a launch, or launches are too many.
bool split_filters(const polyconv_layer &l, const Shape &shape, const Passes &passes, Split &split) {
  const int64_t groups = (l.weights.size[0] + shape.filters - 1) / shape.filters;
  split.row = row_of_weights(passes.taps, shape.filters);
  const int64_t row = split.row;
  const int64_t rows = l.weights.size[1] * l.weights.size[4] * passes.count; // of a group
  split.weights = plain(l) && groups * rows <= kFewWeights / row ? kFewWeights : kMostWeights;
  const int64_t most = split.weights / row / rows;
  if (most == 0 || groups > most * kMostLaunches) return false;
  const int64_t launches = std::max<int64_t>((groups + most - 1) / most, 1);
  split.launches = static_cast<int32_t>(launches);
  split.groups = static_cast<int32_t>((groups + launches - 1) / launches);
  return true;
}

// ---------------------------------------------------------------- pack

// Launch by launch the parameter of the kernel, with zeros where there is no filter, tap or row.
__global__ void pack_weights(const __grid_constant__ View<int32_t> raw, const __grid_constant__ Passes passes,
                             const Split split, const void *from, int32_t type, float *to, int32_t filters) {
  const int32_t length = split.row, all = split.launches * split.weights;
  for (int32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < all; i += gridDim.x * blockDim.x) {
    const int32_t in_row = i % split.weights % length, launch = i / split.weights;
    int32_t row = i % split.weights / length;
    const int32_t pass = row % passes.count;
    row /= passes.count;
    const int32_t s = row % raw.size[4];
    row /= raw.size[4];
    const int32_t c = row % raw.size[1], group = row / raw.size[1];
    const int32_t tap = in_row / filters, k = (launch * split.groups + group) * filters + in_row % filters;
    const bool exists = group < split.groups && k < raw.size[0] && tap < passes.rows[pass];
    const int32_t r = passes.first[pass] + tap * passes.step;
    to[i] = exists ? load<float>(from, type, raw.at(k, c, 0, r, s)) : 0.0f;
  }
}

// ---------------------------------------------------------------- plan and run

class Constant final : public CudaInstance {
 public:
  Constant(const polyconv_request &request, const Shape &shape) : CudaInstance(request), shape_(shape) {
    const DeviceScope scope(device_);
    const auto shared = static_cast<int>(std::min<int64_t>(block_shared_bytes(device_), kMostShared));
    const int taps = taps_of(layer_);
    Tiling &tile = launch_.tile;
    double us = 0;
    if (!make_passes(layer_, taps, 0, launch_.passes) || !split_filters(layer_, shape, launch_.passes, split_) ||
        !choose_tiling(layer_, shape, split_, plain(layer_), shared, tile, us))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-constant/constant: no tiling for a problem that was accepted");
    make_passes(layer_, taps, tile.phase_rows, launch_.passes);
    kernel_ = kernel_for(taps, {shape, split_.weights == kFewWeights, plain(layer_)});
    allow_shared(kernel_, shared);
    launch_.input_type = layer_.input.type;
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    pack_weights<<<blocks_for(int64_t{split_.launches} * split_.weights, 256), 256, 0, stream>>>(
        View<int32_t>(layer_.weights), launch_.passes, split_, raw, layer_.weights.type, static_cast<float *>(packed),
        shape_.filters);
    check_launch("cuda-constant's packing");
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Conv<int32_t> p(layer_, a);
    Launch launch = launch_;
    const void *x = a.input;
    void *y = a.output;
    const auto *weights = static_cast<const float *>(a.weights[0]); // on the host: POLYCONV_KERNEL_HOST_WEIGHTS
    const auto all = static_cast<int32_t>(layer_.weights.size[0]);
    for (int32_t i = 0; i < split_.launches; ++i, weights += split_.weights) {
      launch.first_filter = i * split_.groups * shape_.filters;
      launch.filters = all - launch.first_filter;
      launch.groups = std::min(split_.groups, (launch.filters + shape_.filters - 1) / shape_.filters);
      void *arguments[] = {&p, &launch, const_cast<float *>(weights), &x, &y};
      cudaLaunchKernel(kernel_, dim3(static_cast<unsigned>(launch.tile.blocks)),
                       dim3(static_cast<unsigned>(launch.tile.threads())), arguments,
                       static_cast<size_t>(shared_bytes(shape_, launch.tile)), stream);
      check_launch("cuda-constant/constant");
    }
  }

  const Shape shape_;
  const void *kernel_ = nullptr;
  Launch launch_ = {};
  Split split_ = {};
};

bool takes_types(const polyconv_layer &l) {
  const int32_t x = l.input.type;
  return l.sum_type == POLYCONV_F32 && (is_single_or_half(x) || x == POLYCONV_U8 || x == POLYCONV_U16);
}

// Fills the offer for a shape; false, with the reason, where the shape does not serve.
bool offer_shape(const polyconv_layer &l, const Shape &shape, sdk::Offer &offer) {
  Passes passes;
  Split split;
  if (!make_passes(l, taps_of(l), 0, passes))
    return offer.reject("a filter of %" PRId64 " rows takes more than %d passes", l.weights.size[3], kMostPasses);
  if (!split_filters(l, shape, passes, split))
    return offer.reject("%" PRId64 " weights take more than %" PRId64 " launches of %d parameters",
                        sdk::elements(l.weights), kMostLaunches, kMostWeights);
  Tiling tile;
  if (!fits(l, shape, kSureShared) || !choose_tiling(l, shape, split, plain(l), kMostShared, tile, offer.estimate_us)) {
    offer.rejects_pooling = sdk::has_pooling(l) ? 1 : 0;
    return offer.reject("no tile of %d rows fits: its input or the pooling window is too large", shape.rows);
  }
  if (tile.blocks > INT32_MAX) return offer.reject("launches up to 2^31 blocks, not %" PRId64, tile.blocks);
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "cuda_constant_f32_%dx%d_%d:2", split.groups, shape.filters, split.weights);
  offer.set_weights(0, format, int64_t{split.launches} * split.weights * 4);
  return true;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (request.policy->dynamic_weights != 0)
    return offer.reject("weights are parameters of each launch, and a captured launch keeps those it was given");
  if (!takes_images(takes_types(l), offer)) return false;
  if (!takes_2d(l, offer)) return false;
  if (!takes_one_group(l, offer)) return false;
  if (l.weights.size[1] > kMostChannels)
    return offer.reject("takes up to %" PRId64 " input channels, not %" PRId64, kMostChannels, l.weights.size[1]);
  if (sdk::taps(l) > kMostTaps)
    return offer.reject("takes filters of up to %" PRId64 " taps, not %" PRId64, kMostTaps, sdk::taps(l));
  if (!takes_int32(l, offer)) return false;
  if (fused_pooling_refused(l, offer)) return false;
  bool found = config >= 0;
  return offer_filled(kShapeCount, config, offer, [&](int32_t i, sdk::Offer &o) {
    if (config < 0 && found && kShapes[i].filters > l.weights.size[0])
      return false; // zeros for filters that there are not
    const bool serves = offer_shape(l, kShapes[i], o);
    found = found || serves;
    return serves;
  });
}

} // namespace

POLYCONV_DEFINE_KERNEL(constant, kNames, supports, instance_of<Constant, kShapes>, POLYCONV_KERNEL_HOST_WEIGHTS);

} // namespace polyconv::cuda
