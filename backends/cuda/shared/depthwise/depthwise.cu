// depthwise.cu - depthwise layers, channels first: whole rows of a plane staged in shared memory by asynchronous
// copies, an image ahead of the one that is being summed, and a rectangle of outputs a thread.
//
// Floor: max(2 N K P Q n^2 / FMA rate, one read and one write of every element / copy rate). Small filters wait for
// memory; from 5x5 on the products count, and every product's operands must come from registers.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "depthwise/depthwise.hpp"

#include <cinttypes>

namespace polyconv::cuda {
namespace {

using namespace shared;

// Outputs of a thread, across and below each other, and threads of a block at most.
struct Config {
  int columns, rows, threads;
};
constexpr Config kConfigs[] = {{2, 7, 64}, {2, 7, 128}, {2, 4, 256}, {4, 4, 128}, {4, 4, 256}, {4, 7, 128}};
constexpr const char *kNames[] = {"2x7_t64", "2x7_t128", "2x4_t256", "4x4_t128", "4x4_t256", "4x7_t128"};
constexpr int kConfigCount = 6;

int item_of(const polyconv_layer &l) {
  return l.input.type == POLYCONV_F32 ? 4 : 2;
}

DepthwiseInstance instance_for(const polyconv_layer &l, const Config &config) {
  const auto find = of_type(l.input.type, [](auto t) { return by_filter<decltype(t)>; });
  return find(static_cast<int>(l.weights.size[3]), static_cast<int>(l.stride[1]), config.columns, config.rows);
}

// Whether rows of a tensor begin at multiples of `elements`, and run without a gap.
bool in_steps_of(const polyconv_tensor &t, int64_t elements) {
  return t.stride[4] == 1 && t.offset % elements == 0 && (t.size[3] == 1 || t.stride[3] % elements == 0) &&
         (t.size[1] == 1 || t.stride[1] % elements == 0) && (t.size[0] == 1 || t.stride[0] % elements == 0);
}

// The most elements of up to 16 bytes that rows of the input can be copied in; 0 where they are not whole words.
int64_t chunk_of(const polyconv_layer &l, int64_t left) {
  const int item = item_of(l);
  int64_t chunk = 16 / item;
  while (chunk * item >= 4 && (left % chunk != 0 || l.input.size[4] % chunk != 0 || !in_steps_of(l.input, chunk)))
    chunk /= 2;
  return chunk * item >= 4 ? chunk : 0;
}

// Raises `distance` in steps of `align`, by a quarter at most, until `lanes` elements further on is where a lane at
// that distance meets the next banks.
int64_t without_conflicts(int64_t distance, int64_t times, int64_t lanes, int64_t align, int item) {
  for (int64_t d = distance; d <= distance + distance / 4; d += align)
    if ((d * times - lanes) * item % 128 == 0) return d;
  return distance;
}

// The tiles of a block, and its shared memory. The columns beyond a row are those before the next: padding, both.
int64_t make_tile(const polyconv_layer &l, const Config &config, Depthwise &d) {
  const int item = item_of(l), step = static_cast<int>(l.stride[1]);
  const Reading read = reading(item, static_cast<int>(l.weights.size[3]), step, config.columns);
  const int64_t left = l.pad_begin[2] + read.lead, chunk = chunk_of(l, left);
  const int64_t align = std::max<int64_t>(read.vector, chunk), across = int64_t{d.columns} * config.columns * step;
  const int64_t reach = across - int64_t{config.columns} * step + int64_t{read.vectors} * read.vector; // in a row
  const int64_t tile_rows = int64_t{d.groups * config.rows - 1} * step + l.weights.size[3];
  int64_t pitch = ceil_div(std::max(left + l.input.size[4], reach - left), align) * align;
  if (d.groups > 1) pitch = without_conflicts(pitch, int64_t{config.rows} * step, across, align, item);
  int64_t plane = ceil_div((tile_rows - 1) * pitch + std::max(reach, pitch), align) * align;
  if (d.planes > 1) plane = without_conflicts(plane, 1, across * d.groups, align, item);
  const int64_t tile = ceil_div(d.planes * plane * item, 16) * 16;
  const int64_t sums = d.plain ? 0 : ceil_div(int64_t{d.planes} * d.width * d.height * 4, 16) * 16;
  d.buffers = l.output.size[0] > 1 ? 2 : 1;
  if (sums + d.buffers * tile > kSharedBytes) return sums + d.buffers * tile;
  d.left = static_cast<int32_t>(left), d.chunk = static_cast<int32_t>(chunk);
  d.pitch = static_cast<int32_t>(pitch), d.plane = static_cast<int32_t>(plane);
  d.tile_rows = static_cast<int32_t>(tile_rows);
  d.tile_bytes = static_cast<int32_t>(tile), d.sums_bytes = static_cast<int32_t>(sums);
  return sums + d.buffers * tile;
}

// A bias and a relu at most, nothing saved, and the result as the input.
bool plain(const polyconv_layer &l) {
  return !sdk::has_pooling(l) && bias_and_relu_at_most(l) && l.result.type == l.input.type && l.result.stride[4] == 1;
}

// Fills what follows from columns, groups and planes; false where such a block does not fit.
bool complete(const polyconv_layer &l, const Config &config, Depthwise &d) {
  const polyconv_pool &pool = l.epilogue.pool;
  const bool pooled = sdk::has_pooling(l);
  const int64_t window = pooled ? pool.window[1] : 1, stride = pooled ? pool.stride[1] : 1;
  d.pool_pad = pooled ? static_cast<int32_t>(pool.pad_begin[1]) : 0;
  d.width = d.columns * config.columns, d.height = d.groups * config.rows;
  if (d.height < window) return false;
  d.result_rows =
      static_cast<int32_t>(std::min((d.height - window) / stride + 1, std::max<int64_t>(l.result.size[3], 1)));
  d.row_step = static_cast<int32_t>(d.result_rows * stride);
  d.strips = static_cast<int32_t>(ceil_div(l.result.size[3], d.result_rows));
  d.channel_blocks = static_cast<int32_t>(ceil_div(l.output.size[1], d.planes));
  d.threads = (d.columns * d.groups * d.planes + 31) / 32 * 32;
  return make_tile(l, config, d) <= kSharedBytes;
}

// The largest block of a config: whole planes, as many as fit, or else as many rows of one.
bool make_depthwise(const polyconv_layer &l, const Config &config, Depthwise &d) {
  d = {};
  d.multiplier = static_cast<int32_t>(l.output.size[1] / l.groups);
  d.plain = plain(l) ? 1 : 0;
  const int64_t columns = std::max<int64_t>(ceil_div(l.output.size[4], config.columns), 1);
  if (columns > config.threads) return false;
  d.columns = static_cast<int32_t>(columns);
  const int64_t pool_pad = sdk::has_pooling(l) ? l.epilogue.pool.pad_begin[1] : 0;
  const int64_t whole = std::max<int64_t>(ceil_div(l.output.size[3] + pool_pad, config.rows), 1);
  if (columns * whole <= config.threads) {
    d.groups = static_cast<int32_t>(whole);
    // Only where every output channel has an input channel of its own do planes lie at one distance.
    const int64_t most = d.multiplier == 1 ? config.threads / (columns * whole) : 1;
    for (int64_t planes = std::min(most, l.output.size[1]); planes > 0; --planes) {
      d.planes = static_cast<int32_t>(planes);
      if (complete(l, config, d)) return true;
    }
  }
  d.planes = 1;
  for (int64_t strips = 1, last = 0; strips <= whole; ++strips) {
    const int64_t groups = ceil_div(whole, strips);
    if (groups == last || groups * columns > config.threads) continue;
    last = groups, d.groups = static_cast<int32_t>(groups);
    if (complete(l, config, d)) return true;
  }
  return false;
}

// ---------------------------------------------------------------- plan and run

// Into how many blocks images are shared out: where `slots` blocks run at a time, and setting one up takes about as
// long as an image, the fewest images one after the other.
int64_t parts_of(int64_t pairs, int64_t images, int64_t slots) {
  int64_t best = 1;
  double best_cost = 0;
  for (int64_t parts = 1; parts <= std::min<int64_t>(images, 1024) && parts * pairs <= INT32_MAX; ++parts) {
    const auto cost = static_cast<double>(ceil_div(pairs * parts, slots) * (ceil_div(images, parts) + 1));
    if (best_cost == 0 || cost < best_cost) best = parts, best_cost = cost;
  }
  return best;
}

class Planes final : public CudaInstance {
 public:
  Planes(const polyconv_request &request, const Config &config)
      : CudaInstance(request),
        instance_(instance_for(layer_, config)),
        vector_(std::min(config.columns, 16 / item_of(layer_))) {
    if (instance_.launch == nullptr || !make_depthwise(layer_, config, shape_))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-shared/depthwise: no block for a problem that was accepted");
    const DeviceScope scope(device_);
    const int processors = multiprocessors_of(device_);
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, instance_.kernel, shape_.threads,
                                                        static_cast<size_t>(shape_.shared_bytes())),
          "asking how many blocks a multiprocessor takes");
    shape_.parts = static_cast<int32_t>(
        parts_of(shape_.pairs(), layer_.output.size[0], int64_t{std::max(blocks, 1)} * processors));
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    const int item = item_of(layer_);
    Depthwise d = shape_;
    while (d.chunk > 0 && !aligned(a.input, int64_t{d.chunk} * item)) d.chunk = d.chunk * item > 4 ? d.chunk / 2 : 0;
    d.chunks = static_cast<int32_t>(layer_.input.size[4] / std::max(d.chunk, 1));
    d.vector_stores = in_steps_of(layer_.result, vector_) && aligned(a.output, int64_t{vector_} * item);
    instance_.launch(Conv<int32_t>(layer_, a), d, a.input, a.weights[0], a.output, stream);
  }

  const DepthwiseInstance instance_;
  const int vector_; // outputs stored at once
  Depthwise shape_ = {};
};

// Only what the tile can hold as an element.
bool takes_padding(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_ZERO || (l.pad_mode == POLYCONV_PAD_CONSTANT && l.input.type == POLYCONV_F32);
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_floats(l, l.input.type, offer)) return false;
  if (!takes_2d(l, offer)) return false;
  if (l.weights.size[1] != 1)
    return offer.reject("takes filters of one input channel, not %" PRId64, l.weights.size[1]);
  if (!takes_odd_squares(l, false, offer)) return false;
  if (!takes_stride_2(l, offer)) return false;
  if (!takes_padding(l)) return offer.reject("pads with zeros, and with a constant in f32");
  if (l.input.stride[4] != 1 && l.input.size[4] != 1)
    return offer.reject("copies whole rows: wants columns to be neighbours");
  if (!takes_no_empty({&l.input}, offer)) return false;
  if (!takes_int32(l, offer)) return false;
  return !fused_pooling_refused(l, offer);
}

// Cycles that a warp's image takes of a multiprocessor: a quarter of its instructions, or what it asks of shared
// memory.
double warp_cycles(const polyconv_layer &l, const Config &config, const Depthwise &d) {
  const auto n = static_cast<int>(l.weights.size[3]), step = static_cast<int>(l.stride[1]), item = item_of(l);
  const double outputs = config.columns * config.rows, rows = (config.rows - 1) * step + n;
  const double vectors = reading(item, n, step, config.columns).vectors;
  const double conversions = item == 4 ? 0 : (config.columns - 1) * step + n;
  const auto width = static_cast<double>(l.input.size[4]);
  const double chunks = d.chunk > 0 ? width / d.chunk : 26 * width; // element by element, each waited for
  const double copies = 8 * d.planes * std::min<double>(d.tile_rows, static_cast<double>(l.input.size[3])) * chunks;
  // Where a row of outputs ends within a thread's, warps store element by element.
  const double ragged = l.output.size[4] % config.columns != 0 ? 87 * outputs : 0;
  const double issue =
      (static_cast<double>(sdk::taps(l)) * outputs + rows * (vectors + conversions + 1) + copies / d.threads + ragged) /
      4;
  const double shared = 1.22 * rows * vectors * config.columns * step * item / 4;
  return std::max(issue, shared) + 0.44 * std::min(issue, shared);
}

// Fitted to an H200: the products where enough warps share a multiprocessor, or the compulsory bytes; a little of the
// other on top. Sums that go through shared memory to be pooled or finished one by one are slow, a thread's own most of
// all where nothing else hides them.
double depthwise_us(const polyconv_layer &l, const Config &config, const Depthwise &d) {
  const int registers = l.weights.size[3] == 3 ? 80 : l.weights.size[3] == 5 ? 104 : 128;
  const int blocks = std::min(65536 / (registers * d.threads), kHopperShared / (d.shared_bytes() + 1024));
  const double resident = std::max(std::min(blocks, 32), 1) * d.threads / 32.0;
  const double warps = static_cast<double>(d.pairs()) * static_cast<double>(l.output.size[0]) * d.threads / 32;
  const double tall = config.rows > 7 ? 1.11 : 1;
  const double compute =
      warps * warp_cycles(l, config, d) / (kHopperMultiprocessors * 1425) * tall * std::max(1.0, 9 / resident);
  const double bytes = item_of(l) * static_cast<double>(sdk::elements(l.input) + sdk::elements(l.result));
  const double memory = bytes / 4e6 * (1 + d.shared_bytes() / 6e5);
  const double alone = 4 * 1.3 * warp_cycles(l, config, d) / kHopperClocks; // until the first warp is through
  const double finishing =
      d.plain ? 0 : std::max(static_cast<double>(sdk::elements(l.output)) / 90e3, 0.9 * config.rows * config.columns);
  return 3.5 + alone + std::max(compute, memory) + 0.12 * std::min(compute, memory) + finishing;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  bool many = false;
  const auto us = [&](int32_t i) {
    Depthwise d;
    const bool fits = instance_for(l, kConfigs[i]).launch != nullptr && make_depthwise(l, kConfigs[i], d);
    many = many || (fits && d.pairs() > INT32_MAX);
    return fits && d.pairs() <= INT32_MAX ? depthwise_us(l, kConfigs[i], d) : 0;
  };
  if (offer_cheapest(kConfigCount, config, offer, us)) return true;
  if (many) return offer.reject("launches up to 2^31 blocks");
  offer.rejects_pooling = sdk::has_pooling(l) ? 1 : 0;
  return offer.reject("no block of rows fits %d threads and %d bytes of shared memory", kMostThreads,
                      static_cast<int>(kSharedBytes));
}

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise, kNames, supports, instance_of<Planes, kConfigs>);

} // namespace polyconv::cuda
