// shuffle.cu - filters of one input channel, single images and depthwise layers: rows in registers, horizontal
// neighbours by warp shuffle, marching down the rows so that each is read once for all rows of taps.
//
// Floor: one read and one write of each pixel at the copy rate, or 2 n^2 operations an output at the FMA rate. A tile
// of 32 lanes lends 1 lane at each end (3x3 to 9x9), so 1/16 of its loads and products are for others; a strip of 64
// rows reads (64 + n - 1) / 64 of its input. Strides compute every output and store those that there are.
// SPDX-License-Identifier: Apache-2.0
#include "march.cuh"

#include <cinttypes>

namespace polyconv::cuda {
namespace {

using namespace shuffle;

struct Config {
  int width, rows; // lanes of a tile, rows of a strip
};
constexpr Config kConfigs[] = {{8, 16}, {8, 64}, {16, 16}, {16, 64}, {32, 16}, {32, 32}, {32, 64}, {32, 128}};
const char *const kNames[] = {"lanes8_rows16",  "lanes8_rows64",  "lanes16_rows16", "lanes16_rows64",
                              "lanes32_rows16", "lanes32_rows32", "lanes32_rows64", "lanes32_rows128"};
constexpr int kConfigCount = 8;

LaunchFunction instance_for(const polyconv_layer &l) {
  const int64_t n = l.weights.size[3];
  return n <= 7 ? find_small(n, l.input.type) : find_large(n, l.input.type);
}

// Outputs of an axis as if the stride were 1.
int64_t extent(const polyconv_layer &l, int axis) {
  return (l.output.size[2 + axis] - 1) * l.stride[axis] + 1;
}

int64_t useful_columns(const polyconv_layer &l, int width) {
  const int n = static_cast<int>(l.weights.size[3]), left = left_columns(n);
  return int64_t{kColumns} * (width - halo_lanes(left) - halo_lanes(n - 1 - left));
}

March shape(const polyconv_layer &l, const Config &config) {
  March m = {};
  const int64_t columns = useful_columns(l, config.width);
  m.width = config.width;
  m.rows = config.rows;
  m.tiles_w = static_cast<int32_t>((extent(l, 2) + columns - 1) / columns);
  m.strips = static_cast<int32_t>((extent(l, 1) + config.rows - 1) / config.rows);
  m.per_input = static_cast<int32_t>(l.output.size[1] / l.input.size[1]);
  m.tiles = l.output.size[0] * l.output.size[1] * m.tiles_w * m.strips;
  return m;
}

// Whether rows begin at multiples of 4 elements from a pointer, and run without a gap.
bool in_fours(const polyconv_tensor &t) {
  return t.stride[4] == 1 && t.stride[3] % kColumns == 0 && (t.size[1] == 1 || t.stride[1] % kColumns == 0) &&
         (t.size[0] == 1 || t.stride[0] % kColumns == 0) && t.offset % kColumns == 0;
}

bool aligned(const void *pointer, int32_t type) {
  const uintptr_t bytes = type == POLYCONV_F32 ? 4 : type == POLYCONV_U8 ? 1 : 2;
  return reinterpret_cast<uintptr_t>(pointer) % (bytes * kColumns) == 0;
}

bool plain(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  return sdk::is_float(l.input.type) && !e.has_scale && e.residual_from == POLYCONV_RESIDUAL_NONE &&
         (e.activation == POLYCONV_ACT_NONE || e.activation == POLYCONV_ACT_RELU) && l.save == POLYCONV_SAVE_NONE &&
         (l.result.type == POLYCONV_F32 || l.result.type == l.input.type) &&
         (!e.has_bias || l.bias_type == POLYCONV_F32);
}

// ---------------------------------------------------------------- plan and run

class Shuffle final : public CudaInstance {
 public:
  Shuffle(const polyconv_request &request, const Config &config)
      : CudaInstance(request), launch_(instance_for(layer_)), shape_(shape(layer_, config)) {
    shape_.plain = plain(layer_) ? 1 : 0;
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    March m = shape_;
    m.vector_loads = in_fours(layer_.input) && aligned(a.input, layer_.input.type);
    m.vector_stores = in_fours(layer_.result) && aligned(a.output, layer_.result.type);
    launch_(Conv<int32_t>(layer_, a), m, a.input, a.weights[0], a.output, stream);
  }

  const LaunchFunction launch_;
  March shape_;
};

bool is_2d(const polyconv_layer &l) {
  return l.input.size[2] == 1 && l.weights.size[2] == 1 && l.output.size[2] == 1 && l.pad_begin[0] == 0;
}

// Lanes and rows that are computed, in products: what a config costs.
double lane_steps(const polyconv_layer &l, const Config &config) {
  const March m = shape(l, config);
  const double rows = static_cast<double>(std::min<int64_t>(m.rows, extent(l, 1)) + l.weights.size[3] - 1);
  return static_cast<double>(m.tiles) * m.width * kColumns * rows * static_cast<double>(sdk::taps(l));
}

// The config with the least work; longer strips only where shorter ones keep the device busy.
int choose(const polyconv_layer &l) {
  constexpr double kWarps = 132 * 16;
  int best = -1;
  double best_cost = 0;
  for (int i = 0; i < kConfigCount; ++i) {
    if (useful_columns(l, kConfigs[i].width) <= 0) continue;
    const March m = shape(l, kConfigs[i]);
    const double warps = static_cast<double>(m.tiles) * m.width / 32;
    const double cost = lane_steps(l, kConfigs[i]) * std::max(1.0, kWarps / std::max(1.0, warps));
    if (best < 0 || cost < best_cost) best = i, best_cost = cost;
  }
  return best;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", static_cast<int>(request.count));
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (!is_2d(l)) return offer.reject("takes images of one or two dimensions");
  if (l.weights.size[1] != 1)
    return offer.reject("takes filters of one input channel, not %" PRId64, l.weights.size[1]);
  const int64_t n = l.weights.size[3];
  if (n != l.weights.size[4] || n > 15)
    return offer.reject("takes square filters of up to 15x15, not %" PRId64 "x%" PRId64, n, l.weights.size[4]);
  if (l.dilation[1] != 1 || l.dilation[2] != 1)
    if (n > 1) return offer.reject("neighbours are the next columns and rows: takes no dilation");
  if (l.sum_type != POLYCONV_F32 || instance_for(l) == nullptr)
    return offer.reject("sums in f32: f32, f16, bf16 and images of u8 and u16");
  if (sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("a row's sums are gone when the next is complete: does not pool");
  }
  if (!fits_int32(l)) return offer.reject("addresses with 32 bits, and a tensor has 2^31 elements or more");
  offer.config = config >= 0 ? config : choose(l);
  if (useful_columns(l, kConfigs[offer.config].width) <= 0)
    return offer.reject("a tile of %d lanes is too narrow for filters of %" PRId64 " columns",
                        kConfigs[offer.config].width, n);
  if (shape(l, kConfigs[offer.config]).tiles >= INT32_MAX / 32) return offer.reject("launches up to 2^26 tiles");
  const double item = l.input.type == POLYCONV_F32 ? 4 : l.input.type == POLYCONV_U8 ? 1 : 2;
  const double bytes = item * static_cast<double>(sdk::elements(l.input) + sdk::elements(l.result));
  const double rate = n <= 7 ? 18e6 : 5e6; // products a microsecond
  offer.estimate_us = 3 + std::max(bytes / 3.6e6, lane_steps(l, kConfigs[offer.config]) / rate);
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Shuffle>(request, kConfigs[config]);
}

} // namespace

extern const sdk::Kernel kernel_shuffle;
const sdk::Kernel kernel_shuffle = {"shuffle", 0, kNames, kConfigCount, supports, create};

} // namespace polyconv::cuda
