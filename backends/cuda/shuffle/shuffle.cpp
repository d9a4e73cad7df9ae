// shuffle.cpp - filters of one input channel, single images and depthwise layers: rows in registers, horizontal
// neighbours by warp shuffle, marching down the rows so that each is read once for all rows of taps.
//
// Floor: one read and one write of each pixel at the copy rate, or 2 n^2 operations an output at the FMA rate. A strip
// of 64 rows reads (64 + n - 1) / 64 of its input, mostly from the L2 cache. Strides of 1 and 2 compute what is wanted;
// larger ones, and different ones along rows and columns, compute every output and store those that there are.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "shape.hpp"

#include <cinttypes>
#include <cmath>

namespace polyconv::cuda {
namespace {

using namespace shuffle;

struct Config {
  int width, rows; // lanes of a tile, positions of a strip
};
constexpr Config kConfigs[] = {{2, 16}, {2, 64},  {4, 16},  {4, 64},  {8, 8},    {8, 16},
                               {8, 32}, {8, 64},  {16, 8},  {16, 16}, {16, 32},  {16, 64},
                               {32, 8}, {32, 16}, {32, 32}, {32, 64}, {32, 128}, {32, 256}};
const char *const kNames[] = {"lanes2_rows16",  "lanes2_rows64",   "lanes4_rows16",  "lanes4_rows64",  "lanes8_rows8",
                              "lanes8_rows16",  "lanes8_rows32",   "lanes8_rows64",  "lanes16_rows8",  "lanes16_rows16",
                              "lanes16_rows32", "lanes16_rows64",  "lanes32_rows8",  "lanes32_rows16", "lanes32_rows32",
                              "lanes32_rows64", "lanes32_rows128", "lanes32_rows256"};
constexpr int kConfigCount = 18;

// A bias and a relu at most, and a result that registers can store.
bool leaves_from_registers(const polyconv_layer &l) {
  return bias_and_relu_at_most(l) && (l.result.type == POLYCONV_F32 || l.result.type == l.input.type) &&
         (l.result.type < POLYCONV_S32 || l.epilogue.out_scale == 1) &&
         (l.result.stride[4] == 1 || l.result.size[4] == 1);
}

// Whether pooling takes windows of 2 x 2, side by side, and all of them whole.
bool pools_pairs(const polyconv_layer &l) {
  const polyconv_pool &pool = l.epilogue.pool;
  for (int axis : {1, 2})
    if (pool.window[axis] != 2 || pool.stride[axis] != 2 || pool.pad_begin[axis] != 0 ||
        2 * l.result.size[2 + axis] > l.output.size[2 + axis])
      return false;
  return true;
}

// How an instance goes about a layer.
struct Way {
  int step;
  bool direct;
  LaunchFunction launch;
};

Way way_for(const polyconv_layer &l) {
  const int64_t n = l.weights.size[3];
  const bool pools = sdk::has_pooling(l), leaves = leaves_from_registers(l);
  const auto moves_by = [&](int64_t step) { return l.stride[1] == step && l.stride[2] == step; };
  if (n > kSmall) return {1, leaves && !pools && moves_by(1), find<kLarge>(n, l.input.type)};
  if (leaves && !pools && moves_by(2)) return {2, true, find<kStrided>(n, l.input.type)};
  if (leaves && !pools && moves_by(1)) return {1, true, find<kDirect>(n, l.input.type)};
  return {1, leaves && pools && moves_by(1) && pools_pairs(l), find<kStaged>(n, l.input.type)};
}

int bytes_of(int32_t type) {
  return type == POLYCONV_F32 ? 4 : type == POLYCONV_U8 ? 1 : 2;
}

int columns(const polyconv_layer &l) {
  return columns_of(static_cast<int>(l.weights.size[3]), bytes_of(l.input.type));
}

// Result columns of a lane that leaves them from its registers.
int columns_stored(const polyconv_layer &l, const Way &way) {
  return columns(l) / way.step / (sdk::has_pooling(l) ? 2 : 1);
}

// Positions of results along an axis: the windows of `count` of them, and how far one moves.
struct Span {
  int64_t window, move;
};
Span span(const polyconv_layer &l, int axis, int64_t position_step) {
  if (!sdk::has_pooling(l)) return {1, position_step};
  const polyconv_pool &pool = l.epilogue.pool;
  return {(pool.window[axis] - 1) * position_step + 1, pool.stride[axis] * position_step};
}
int64_t fit(int64_t positions, const Span &s) {
  return positions < s.window ? 0 : (positions - s.window) / s.move + 1;
}
// m.results_w is 0 where a tile is too narrow for one result; the counts are set by count_tiles.
March shape(const polyconv_layer &l, const Way &way, const Config &config) {
  March m = {};
  m.width = config.width;
  m.direct = way.direct ? 1 : 0;
  m.per_input = static_cast<int32_t>(l.output.size[1] / l.input.size[1]);
  m.step_h = static_cast<int32_t>(l.stride[1] / way.step);
  m.step_w = static_cast<int32_t>(l.stride[2] / way.step);
  const Span high = span(l, 1, m.step_h), wide = span(l, 2, m.step_w);
  const int64_t positions = config.width * columns(l) / way.step;
  int64_t results_w = fit(positions, wide);
  // A tile begins where vectors do, if a smaller number of results gives such a beginning.
  for (int64_t fewer = results_w; fewer > 0 && fewer > results_w / 2; --fewer)
    if (fewer * wide.move * way.step % columns(l) == 0) {
      results_w = fewer;
      break;
    }
  // The march goes on in groups of rows: a strip takes what its last group would compute for nothing, and strips are
  // of one height.
  const int64_t n = l.weights.size[3], group = rows_ahead(static_cast<int>(n)) / way.step, lead = (n - 1) / way.step;
  const int64_t positions_h = ceil_div(config.rows + lead, group) * group - lead;
  const int64_t all = std::max<int64_t>(1, l.result.size[3]);
  const int64_t strips = ceil_div(all, std::max<int64_t>(1, fit(positions_h, high)));
  m.results_w = static_cast<int32_t>(results_w);
  m.results_h = static_cast<int32_t>(ceil_div(all, strips));
  m.rows = static_cast<int32_t>((m.results_h - 1) * high.move + high.window);
  return m;
}

// Tiles of a channel and warps of all, as far as they can be counted.
double count_tiles(const polyconv_layer &l, March *m) {
  m->tiles_w = static_cast<int32_t>(ceil_div(l.result.size[4], m->results_w));
  m->strips = static_cast<int32_t>(ceil_div(l.result.size[3], m->results_h));
  const int64_t tiles = l.output.size[0] * m->tiles_w * m->strips;
  const int64_t warps = ceil_div(tiles, 32 / m->width) * l.output.size[1];
  m->tiles = static_cast<int32_t>(std::min<int64_t>(tiles, INT32_MAX));
  m->warps = static_cast<int32_t>(std::min<int64_t>(warps, INT32_MAX));
  return static_cast<double>(warps);
}

// Whether rows begin at multiples of `many` elements from a pointer, and run without a gap.
bool in_vectors(const polyconv_tensor &t, int many) {
  return t.stride[4] == 1 && t.stride[3] % many == 0 && (t.size[1] == 1 || t.stride[1] % many == 0) &&
         (t.size[0] == 1 || t.stride[0] % many == 0) && t.offset % many == 0;
}
void set_flags(const polyconv_layer &l, const Way &way, March *m) {
  const int own = columns(l), left = (static_cast<int>(l.weights.size[3]) - 1) / 2;
  const int64_t first = -(sdk::has_pooling(l) ? l.epilogue.pool.pad_begin[2] : 0) * l.stride[2] - l.pad_begin[2] + left;
  m->folds = l.pad_mode != POLYCONV_PAD_ZERO && l.pad_mode != POLYCONV_PAD_CONSTANT;
  m->fills = l.pad_mode == POLYCONV_PAD_CONSTANT && l.pad_value != 0;
  m->vector_loads = in_vectors(l.input, own) && l.input.size[4] % own == 0 && first % own == 0 &&
                    m->results_w * span(l, 2, m->step_w).move * way.step % own == 0;
  m->vector_stores = in_vectors(l.result, columns_stored(l, way));
}

// ---------------------------------------------------------------- plan and run

class Shuffle final : public CudaInstance {
 public:
  Shuffle(const polyconv_request &request, const Config &config)
      : CudaInstance(request), way_(way_for(layer_)), shape_(shape(layer_, way_, config)) {
    count_tiles(layer_, &shape_);
    set_flags(layer_, way_, &shape_);
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    March m = shape_;
    const int own = columns(layer_);
    if (!aligned(a.input, own * bytes_of(layer_.input.type))) m.vector_loads = 0;
    if (!aligned(a.output, columns_stored(layer_, way_) * bytes_of(layer_.result.type))) m.vector_stores = 0;
    way_.launch(Conv<int32_t>(layer_, a), m, a.input, a.weights[0], a.output, stream);
  }

  const Way way_;
  March shape_;
};

// What a row costs more, in instructions, where its elements are loaded one by one: beyond four segments of memory the
// lanes take turns.
double element_cost(const polyconv_layer &l, const March &m) {
  const double turns = std::max(0.0, 32.0 / m.width / m.tiles_w - 4);
  const int own = columns(l), edge = (static_cast<int>(l.weights.size[3]) + 2) / 4 * 2;
  const double load = l.weights.size[3] > kSmall ? 22 : 44; // nine layers of the census on an H200
  return m.vector_loads ? 0 : (own + edge) * (load + 0.6 * turns * turns);
}

// Columns that are no neighbours in memory move in sectors of 32 bytes, up to one for each.
double apart_us(const polyconv_layer &l) {
  const auto sectors = [](const polyconv_tensor &t) {
    const int64_t apart = t.stride[4] == 1 ? 0 : std::min<int64_t>(t.stride[4] * bytes_of(t.type), 32);
    return static_cast<double>(apart * sdk::elements(t));
  };
  return sectors(l.input) / 7.3e6 + sectors(l.result) / 2.16e6;
}

// Microseconds, fitted to every config of 14 problems on an H200; -1 where a tile is too narrow for one result.
// Products of all lanes, useful or not, with what each row costs besides, and the bytes; the longer hides most of the
// shorter. Short strips have less of the image under way at once, which the L2 cache likes.
double estimate(const polyconv_layer &l, const Way &way, const Config &config) {
  March m = shape(l, way, config);
  if (m.results_w <= 0) return -1;
  const double warps = count_tiles(l, &m), n = static_cast<double>(l.weights.size[3]);
  set_flags(l, way, &m);
  const double rows = (m.rows - 1) * way.step + n;
  const double products = n * n * columns(l) / (way.step * way.step);
  const double instructions = products + 70 + element_cost(l, m) + (sdk::has_pooling(l) ? 10 * columns(l) : 0);
  const bool image = l.input.type == POLYCONV_U8 || l.input.type == POLYCONV_U16;
  const double converting = !image ? 1 : m.folds ? 3.3 : 1.8; // both ways, and one by one where the border folds
  const double rate = kHopperMultiprocessors * 4 * 1650 * (n > kSmall ? 0.75 : 1) / converting; // a microsecond
  const double busy = std::min(1.0, warps / (kHopperMultiprocessors * 8));
  const double issue = warps * rows * instructions / rate / std::max(busy, 1e-3);
  const double bytes = static_cast<double>(bytes_of(l.input.type)) * static_cast<double>(sdk::elements(l.input)) +
                       static_cast<double>(bytes_of(l.result.type)) * static_cast<double>(sdk::elements(l.result));
  const double spread = 0.03 * std::log2(std::max(1.0, m.rows * way.step / 8.0)) + 0.001 * (32.0 / m.width);
  const double memory = std::max(bytes / 4.1e6 * (1 + spread), apart_us(l));
  return (l.stride[2] > 1 ? 4.6 : 1.6) + std::pow(std::pow(memory, 6) + std::pow(issue, 6), 1.0 / 6);
}

int choose(const polyconv_layer &l, const Way &way) {
  const auto us = [&](int32_t i) { return estimate(l, way, kConfigs[kConfigCount - 1 - i]); };
  const Cheapest best = cheapest(kConfigCount, -1, us); // of equals the widest tile
  return best.us > 0 ? kConfigCount - 1 - best.config : 0;
}

bool supports_layer(const polyconv_layer &l, const Way &way, sdk::Offer &offer) {
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (!is_2d(l) || (sdk::has_pooling(l) && l.epilogue.pool.pad_begin[0] != 0))
    return offer.reject("takes images of one or two dimensions");
  if (l.weights.size[1] != 1)
    return offer.reject("takes filters of one input channel, not %" PRId64, l.weights.size[1]);
  const int64_t n = l.weights.size[3];
  if (n != l.weights.size[4] || n > kLargest)
    return offer.reject("takes square filters of up to 15x15, not %" PRId64 "x%" PRId64, n, l.weights.size[4]);
  if (l.dilation[1] != 1 || l.dilation[2] != 1)
    if (n > 1) return offer.reject("neighbours are the next columns and rows: takes no dilation");
  if (l.sum_type != POLYCONV_F32 || way.launch == nullptr)
    return offer.reject("sums in f32: f32, f16, bf16 and images of u8 and u16");
  return !fused_pooling_refused(l, offer);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const Way way = way_for(l);
  if (!supports_layer(l, way, offer)) return false;
  if (!takes_int32(l, offer)) return false;
  const int64_t rows = span(l, 1, l.stride[1] / way.step).window;
  if (rows > kWindow) {
    offer.rejects_pooling = 1;
    return offer.reject("pools windows of up to %d rows, not %" PRId64, kWindow, rows);
  }
  offer.config = config >= 0 ? config : choose(l, way);
  offer.estimate_us = estimate(l, way, kConfigs[offer.config]);
  if (offer.estimate_us < 0) {
    offer.rejects_pooling = sdk::has_pooling(l) ? 1 : 0;
    return offer.reject("a tile of %d lanes is too narrow for one result", kConfigs[offer.config].width);
  }
  March m = shape(l, way, kConfigs[offer.config]);
  if (count_tiles(l, &m) >= INT32_MAX / 32) return offer.reject("launches up to 2^26 warps");
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(shuffle, kNames, supports, instance_of<Shuffle, kConfigs>);

} // namespace polyconv::cuda
