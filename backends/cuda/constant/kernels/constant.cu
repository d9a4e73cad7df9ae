// constant.cu - forward 2D for few input channels, with the weights in the constant bank: a multiply-add takes a weight
// as an operand that costs no register and no load. The weights travel as parameters of the launch, so that plans,
// streams and captured graphs each have their own; what 32,764 bytes do not hold is split over output channels.
//
// Floor: max(2 N K P Q C R S / FMA rate, compulsory bytes / copy rate). For 7x7 and 4 filters a thread of 8 rows issues
// 98 shared loads and 98 loads of weight pairs beside 1568 multiply-adds; staging and stores add 10 to 20 %.
// SPDX-License-Identifier: Apache-2.0
#include "filter.cuh"

#include <cinttypes>

namespace polyconv::cuda {
namespace constant {
template <>
LaunchFunction find_instance<0>(int, int, bool);
template <>
LaunchFunction find_instance<3>(int, int, bool);
template <>
LaunchFunction find_instance<5>(int, int, bool);
template <>
LaunchFunction find_instance<7>(int, int, bool);
} // namespace constant

namespace {

using namespace constant;

constexpr int64_t kMostChannels = 16, kMostTaps = 1024, kMostLaunches = 16;
constexpr int kFilters[] = {16, 12, 10, 8, 4, 1}; // of a launch

struct Config {
  int rows, threads; // a thread, a block
};
constexpr Config kConfigs[] = {{4, 128}, {4, 256}, {8, 128}, {8, 256}};
const char *const kNames[] = {"rows4_threads128", "rows4_threads256", "rows8_threads128", "rows8_threads256"};
constexpr int kConfigCount = 4;

int64_t weights_of(const polyconv_layer &l, int filters) {
  return l.weights.size[1] * sdk::taps(l) * filters;
}

int64_t launches_of(const polyconv_layer &l, int filters) {
  return (l.weights.size[0] + filters - 1) / filters;
}

// How many filters a launch takes: the least multiply-adds with filters of zeros, then the fewest launches. 0: none
// fits.
int filters_of(const polyconv_layer &l) {
  int best = 0;
  double best_cost = 0;
  for (const int filters : kFilters) {
    if (weights_of(l, filters) > kMostWeights || launches_of(l, filters) > kMostLaunches) continue;
    const double launches = static_cast<double>(launches_of(l, filters));
    const double cost = launches * (filters + 0.5);
    if (best == 0 || cost < best_cost) best = filters, best_cost = cost;
  }
  return best;
}

// The size of filters that are unrolled, 0 for a loop over taps.
int unrolled_size(const polyconv_layer &l) {
  const int64_t n = l.weights.size[3];
  const bool simple = l.stride[1] == 1 && l.stride[2] == 1 && l.dilation[1] == 1 && l.dilation[2] == 1;
  return simple && n == l.weights.size[4] && (n == 3 || n == 5 || n == 7) ? static_cast<int>(n) : 0;
}

LaunchFunction instance_for(const polyconv_layer &l, int rows) {
  const int filters = filters_of(l);
  const bool one_channel = l.weights.size[1] == 1;
  switch (unrolled_size(l)) {
    case 3: return find_instance<3>(filters, rows, one_channel);
    case 5: return find_instance<5>(filters, rows, one_channel);
    case 7: return find_instance<7>(filters, rows, one_channel);
    default: return find_instance<0>(filters, rows, one_channel);
  }
}

bool plain(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  return !sdk::has_pooling(l) && !e.has_scale && e.residual_from == POLYCONV_RESIDUAL_NONE &&
         (e.activation == POLYCONV_ACT_NONE || e.activation == POLYCONV_ACT_RELU) && l.save == POLYCONV_SAVE_NONE &&
         l.result.type == POLYCONV_F32 && (!e.has_bias || l.bias_type == POLYCONV_F32);
}

// ---------------------------------------------------------------- pack

// Launch by launch [channel][s][r][filter], filters beyond the last as zeros.
__global__ void pack_weights(const View<int32_t> raw, const void *from, int32_t type, float *to, int32_t filters,
                             int32_t count) {
  for (int32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    int32_t rest = i / filters;
    const int32_t r = rest % raw.size[3];
    rest /= raw.size[3];
    const int32_t s = rest % raw.size[4];
    rest /= raw.size[4];
    const int32_t c = rest % raw.size[1], k = rest / raw.size[1] * filters + i % filters;
    to[i] = k < raw.size[0] ? load<float>(from, type, raw.at(k, c, 0, r, s)) : 0.0f;
  }
}

// ---------------------------------------------------------------- plan and run

class Constant final : public CudaInstance {
 public:
  Constant(const polyconv_request &request, const Config &config)
      : CudaInstance(request), filters_(filters_of(layer_)), launch_(instance_for(layer_, config.rows)) {
    if (launch_ == nullptr || !choose_tiling(layer_, config.rows, config.threads, filters_, parameters_.tile))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-constant/constant: no tiling for a problem that was accepted");
    parameters_.input_type = layer_.input.type;
    parameters_.plain = plain(layer_) ? 1 : 0;
  }

  void pack(int, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    const auto count = static_cast<int32_t>(weights_of(layer_, filters_) * launches_of(layer_, filters_));
    pack_weights<<<blocks_for(count, 256), 256, 0, static_cast<cudaStream_t>(stream)>>>(
        View<int32_t>(layer_.weights), raw, layer_.weights.type, static_cast<float *>(packed), filters_, count);
    check_launch("cuda-constant's packing");
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    const Conv<int32_t> p(layer_, a);
    const auto *weights = static_cast<const float *>(a.weights[0]); // on the host: POLYCONV_KERNEL_HOST_WEIGHTS
    const auto all = static_cast<int32_t>(layer_.weights.size[0]);
    Launch parameters = parameters_;
    for (int32_t first = 0; first < all; first += filters_, weights += weights_of(layer_, filters_)) {
      parameters.first_filter = first;
      parameters.filters = std::min(filters_, all - first);
      launch_(p, parameters, weights, a.input, a.output, stream);
    }
  }

  const int filters_;
  const LaunchFunction launch_;
  Launch parameters_ = {};
};

bool takes_types(const polyconv_layer &l) {
  const int32_t x = l.input.type;
  return l.sum_type == POLYCONV_F32 &&
         (x == POLYCONV_F32 || x == POLYCONV_F16 || x == POLYCONV_BF16 || x == POLYCONV_U8 || x == POLYCONV_U16);
}

bool is_2d(const polyconv_layer &l) {
  return l.input.size[2] == 1 && l.weights.size[2] == 1 && l.output.size[2] == 1 && l.pad_begin[0] == 0 &&
         (!sdk::has_pooling(l) || l.epilogue.pool.window[0] == 1);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", static_cast<int>(request.count));
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (request.policy->dynamic_weights != 0)
    return offer.reject("weights are parameters of each launch, and a captured launch keeps those it was given");
  if (!takes_types(l)) return offer.reject("sums in f32: f32, f16, bf16 and images of u8 and u16");
  if (!is_2d(l)) return offer.reject("takes images of one or two dimensions");
  if (l.groups != 1) return offer.reject("takes one group, not %" PRId64, l.groups);
  if (l.weights.size[1] > kMostChannels)
    return offer.reject("takes up to %" PRId64 " input channels, not %" PRId64, kMostChannels, l.weights.size[1]);
  if (sdk::taps(l) > kMostTaps)
    return offer.reject("takes filters of up to %" PRId64 " taps, not %" PRId64, kMostTaps, sdk::taps(l));
  if (!fits_int32(l)) return offer.reject("addresses with 32 bits, and a tensor has 2^31 elements or more");
  if (fused_pooling_refused(l, offer)) return false;
  const int filters = filters_of(l);
  if (filters == 0)
    return offer.reject("%" PRId64 " weights take more than %" PRId64 " launches of %d parameters",
                        sdk::elements(l.weights), kMostLaunches, kMostWeights);
  offer.config = config >= 0 ? config : filters > 8 || unrolled_size(l) == 0 ? 1 : 3;
  if (instance_for(l, kConfigs[offer.config].rows) == nullptr)
    return offer.reject("%d filters a launch times %d rows a thread are too many registers", filters,
                        kConfigs[offer.config].rows);
  Tiling tile;
  const Config &chosen = kConfigs[offer.config];
  if (!choose_tiling(l, chosen.rows, chosen.threads, filters, tile)) {
    offer.rejects_pooling = sdk::has_pooling(l) ? 1 : 0;
    return offer.reject("no tile of %d rows and %d threads fits: its input or the pooling window is too large",
                        chosen.rows, chosen.threads);
  }
  if (tile.blocks > INT32_MAX) return offer.reject("launches up to 2^31 blocks, not %" PRId64, tile.blocks);
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "cuda_constant_f32_k%d:1", filters);
  const double launches = static_cast<double>(launches_of(l, filters));
  offer.set_weights(0, format, weights_of(l, filters) * launches_of(l, filters) * 4);
  const double lane_us = unrolled_size(l) != 0 ? 20e6 : 8e6; // products a microsecond
  const double bytes =
      4 * (launches * static_cast<double>(sdk::elements(l.input)) + static_cast<double>(sdk::elements(l.result)));
  offer.estimate_us = 3 * launches + std::max(launches * cost(l, chosen.rows, filters, tile) *
                                                  static_cast<double>(l.weights.size[1]) / lane_us,
                                              bytes / 3.5e6);
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Constant>(request, kConfigs[config]);
}

} // namespace

extern const sdk::Kernel kernel_constant;
const sdk::Kernel kernel_constant = {"constant", POLYCONV_KERNEL_HOST_WEIGHTS, kNames, kConfigCount, supports, create};

} // namespace polyconv::cuda
