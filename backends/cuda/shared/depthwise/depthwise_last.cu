// depthwise_last.cu - depthwise layers, channels last: a thread has some channels of a strip of columns and marches
// down a band of rows; sums and weights are in registers, the rows to come on their way into shared memory.
//
// Floor: max(2 N K P Q n^2 / FMA rate, one read and one write of every element / copy rate). Small filters wait for
// memory: what counts is how much is on its way at a time. From 7x7 on the products count.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "depthwise/filters.cuh"
#include "depthwise/last.hpp"

#include <cinttypes>
#include <cmath>
#include <limits>

namespace polyconv::cuda {
namespace {

using namespace shared;

// Channels and columns of a thread.
struct Config {
  int channels, columns;
};
constexpr Config kConfigs[] = {{2, 4}, {2, 7}, {4, 2}, {4, 4}, {4, 7}, {8, 2}, {1, 7}, {1, 4}};
constexpr const char *kNames[] = {"2x4", "2x7", "4x2", "4x4", "4x7", "8x2", "1x7", "1x4"};
constexpr int kConfigCount = sizeof kNames / sizeof *kNames;
constexpr Config kElements = {1, 4}; // takes every layer

MarchInstance instance_for(const polyconv_layer &l, const MarchShape &shape) {
  const auto find = of_type(l.input.type, [](auto t) { return march_by_filter<decltype(t)>; });
  return find(shape);
}

int item_of(const polyconv_layer &l) {
  return l.input.type == POLYCONV_F32 ? 4 : 2;
}

// ---------------------------------------------------------------- plan and run

// Whether results are vectors of the input's type.
bool vectors_of_result(const polyconv_layer &l, int64_t channels) {
  return l.result.type == l.input.type && in_vectors(l.result, channels);
}

// A bias and an activation at most between sum and result.
bool only_activates(const polyconv_layer &l) {
  polyconv_layer without = l;
  without.epilogue.activation = POLYCONV_ACT_NONE;
  return bias_and_relu_at_most(without);
}

// And that activation only bounds, and the result has the input's type.
bool plain(const polyconv_layer &l) {
  const int32_t a = l.epilogue.activation;
  const bool bounds = a == POLYCONV_ACT_NONE || a == POLYCONV_ACT_RELU || a == POLYCONV_ACT_CLIPPED_RELU;
  return bounds && only_activates(l) && vectors_of_result(l, 1);
}

MarchShape shape_of(const polyconv_layer &l, const Config &config) {
  return {static_cast<int>(l.weights.size[3]), static_cast<int>(l.stride[1]), config.channels, config.columns,
          plain(l)};
}

// Channels that strips share before the next ones begin: a block should have many strips, for they overlap; but pieces
// of memory that others go on with in the middle of a line are read twice.
int64_t lanes_of(int64_t chunks, int64_t chunk_bytes) {
  constexpr int64_t kLine = 128;
  for (int64_t lanes = kLine / chunk_bytes; lanes <= 32 && lanes < chunks; lanes *= 2)
    if (chunks % lanes == 0) return lanes;
  return chunks;
}

// A march as far as channels and columns go, whose filters are raw where the request's may be.
March begin_march(const polyconv_layer &l, const MarchShape &shape, const Filters &filters) {
  const int64_t chunks = l.output.size[1] / shape.channels, strips = ceil_div(l.output.size[4], shape.columns);
  const int64_t lanes = lanes_of(chunks, int64_t{shape.channels} * item_of(l));
  March m = {};
  m.lanes = Divider::make(static_cast<int32_t>(lanes)), m.sets = Divider::make(static_cast<int32_t>(chunks / lanes));
  m.strips = Divider::make(static_cast<int32_t>(strips));
  m.filters.in_place = filters.in_place;
  if (shape.plain)
    m.filters = share_filters(filters, {chunks, lanes, strips, kMarchThreads, shape.channels}, item_of(l));
  return m;
}

// Where `slots` blocks run at a time: bands of so many rows that the fewest rows are read one after the other. A
// thread takes as long as a few rows to begin.
March make_march(const polyconv_layer &l, const MarchShape &shape, int64_t slots, March m) {
  constexpr double kBegin = 6;
  const int64_t chunks = int64_t{m.lanes.by} * m.sets.by, strips = m.strips.by, height = l.output.size[3];
  double best = 0;
  const auto consider = [&](int64_t wanted) {
    const int64_t rows = ceil_div(height, wanted), bands = ceil_div(height, rows),
                  threads = chunks * strips * bands * l.output.size[0];
    const double waves = real(ceil_div(threads, kMarchThreads)) / real(slots);
    const double cost = (waves > 4 ? waves + 0.5 : std::ceil(waves)) * (real(rows - 1) * shape.step + shape.n + kBegin);
    if (threads > INT32_MAX - kMarchThreads || (best > 0 && cost >= best)) return;
    best = cost;
    m.bands = Divider::make(static_cast<int32_t>(bands));
    m.rows = static_cast<int32_t>(rows), m.threads = static_cast<int32_t>(threads);
  };
  for (int64_t few = 1; few <= std::min<int64_t>(height, 16); ++few) {
    consider(few);                   // bands
    consider(ceil_div(height, few)); // of few rows
  }
  const polyconv_epilogue &e = l.epilogue;
  m.low = e.activation == POLYCONV_ACT_NONE ? -std::numeric_limits<float>::infinity() : 0.0f;
  m.high = e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.activation_alpha : std::numeric_limits<float>::infinity();
  m.bounded = e.has_bias || e.activation != POLYCONV_ACT_NONE;
  m.activates = only_activates(l);
  m.vectors = vectors_of_result(l, shape.channels);
  return m;
}

// The filters of a request in a config, and in the one that takes what lies anyhow: raw for both or for none.
Filters filters_for(const polyconv_request &request, const Config &config) {
  const polyconv_layer &l = *request.layers[0];
  const Filters filters = filters_of(request);
  for (const Config &each : {config, kElements})
    if (!filters.in_place && begin_march(l, shape_of(l, each), filters).filters.raw == 0) return {};
  return filters;
}

class Marches final : public CudaInstance {
 public:
  Marches(const polyconv_request &request, const Config &config)
      : CudaInstance(request), vector_(config.channels * item_of(layer_)) {
    const DeviceScope scope(device_);
    const int processors = multiprocessors_of(device_);
    const Filters filters = filters_for(request, config);
    ways_[0] = way_of(shape_of(layer_, config), filters, processors);
    ways_[1] = way_of(shape_of(layer_, kElements), filters, processors);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override { pack_taps(layer_, raw, packed, stream); }

  struct Way {
    MarchInstance instance;
    March march;
  };

  Way way_of(const MarchShape &shape, const Filters &filters, int processors) const {
    const MarchInstance instance = instance_for(layer_, shape);
    if (instance.launch == nullptr)
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-shared/depthwise_last: no code for a problem that was accepted");
    const March begun = begin_march(layer_, shape, filters);
    if (begun.filters.raw != 0) allow_shared(instance.kernel, kFilterRoom);
    const auto room = static_cast<size_t>(begun.filters.room);
    int blocks = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, instance.kernel, kMarchThreads, room),
          "asking how many blocks a multiprocessor takes");
    return {instance, make_march(layer_, shape, int64_t{std::max(blocks, 1)} * processors, begun)};
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const Filters &filters = ways_[0].march.filters;
    const void *const weights = weights_of(layer_, filters, a.weights[0]);
    const bool results = ways_[0].march.vectors == 0 || aligned(a.output, vector_);
    const bool vectors = aligned(a.input, vector_) && (!filters.in_place || aligned(weights, vector_));
    const Way &way = ways_[vectors && results ? 0 : 1];
    way.instance.launch(Conv<int32_t>(layer_, a), way.march, a.input, weights, a.output, stream);
  }

  const int vector_; // bytes
  Way ways_[2];      // with vectors, and element by element
};

// ---------------------------------------------------------------- supports

bool takes_layer(const polyconv_layer &l, sdk::Offer &offer) {
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (!takes_floats(l, l.input.type, offer)) return false;
  if (!takes_2d(l, offer)) return false;
  if (!takes_one_filter(l, offer)) return false;
  if (!takes_odd_squares(l, false, offer)) return false;
  if (!takes_stride_2(l, offer)) return false;
  if (l.pad_mode != POLYCONV_PAD_ZERO) return offer.reject("pads with zeros");
  if (!in_vectors(l.input, 1)) return offer.reject("loads neighbouring channels: wants channels last");
  if (!takes_no_empty({&l.input, &l.result}, offer)) return false;
  for (const polyconv_tensor *t : {&l.input, &l.result})
    if (std::max(t->stride[3], t->stride[4]) > INT32_MAX / 4 || std::min(t->stride[3], t->stride[4]) < 0)
      return offer.reject("steps from pixel to pixel by up to %d elements", INT32_MAX / 4);
  if (!takes_int32(l, offer)) return false;
  return true;
}

// Fitted to an H200: instructions of a row of inputs, where too few warps wait for each other; or the compulsory bytes;
// a part of the other on top.
double march_us(const polyconv_layer &l, const MarchShape &shape) {
  const int item = item_of(l), n = shape.n, step = shape.step, outputs = shape.channels * shape.columns;
  const int width = (shape.columns - 1) * step + n, begun = (n - 1) / step + 1;
  const int registers =
      n * n * shape.channels + begun * outputs + 32 + (n > 3 ? width * step * shape.channels * 3 / 4 : 0);
  const int slots = march_ahead(step, shape.channels, shape.columns, item) + 1;
  const int shared = slots * step * width * shape.channels * item * kMarchThreads + 1024;
  const int blocks = std::clamp(std::min(65536 / (registers * kMarchThreads), kHopperShared / shared), 1, 16);
  const March m = make_march(l, shape, int64_t{blocks} * kHopperMultiprocessors, begin_march(l, shape, {}));

  const double warps = real(m.threads) / 32, rows = m.rows, steps = m.rows + begun - 1;
  const double products = n * n * (n > 3 ? rows / steps : 1); // others are left out
  const double instructions = outputs * (products + 1.5) + 6 * width * step + 25;
  const bool elements = shape.channels * item < 4; // which are not copied asynchronously
  const double compute = warps * steps * instructions / (kHopperMultiprocessors * 4 * 1360) * (elements ? 1.5 : 1) *
                         std::max(1.0, 2.5 / blocks);
  const double waves = warps / (4.0 * kHopperMultiprocessors * blocks),
               begin = 1.7 + 0.033 * outputs + 0.27 * (n - 3) + (elements ? 0.5 : 0);
  const double bytes = item * real(sdk::elements(l.input)) + item * real(sdk::elements(l.result));
  const double memory = bytes / (bytes > 50e6 ? 4.06e6 : 6.3e6); // the second cache holds some
  const double whole = compute * std::ceil(waves) / waves;
  const double all = waves > 1 && waves < 4 ? 0.5 * (compute + whole) : compute; // the last blocks run faster
  const double finishing = shape.plain ? 0 : real(sdk::elements(l.output)) / (only_activates(l) ? 320e3 : 125e3);
  return begin + std::max(all, memory) + 0.3 * std::min(all, memory) + finishing;
}

// Whether a config serves, and its time.
struct Ways {
  const polyconv_layer &l;

  bool serves(int i, sdk::Offer *offer) const {
    const Config &config = kConfigs[i];
    if (config.channels > 1 &&
        !(in_vectors(l.input, config.channels) && (!plain(l) || in_vectors(l.result, config.channels))))
      return offer != nullptr && offer->reject("loads %d channels at once, and they do not lie so", config.channels);
    if (instance_for(l, shape_of(l, config)).launch == nullptr)
      return offer != nullptr && offer->reject("has no code for %s with this filter and ending", kNames[i]);
    return true;
  }

  double us(int i) const { return march_us(l, shape_of(l, kConfigs[i])); }
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_no_pooling(l, offer)) return false;
  if (!takes_layer(l, offer) || !offer_config(Ways{l}, kConfigCount, config, offer)) return false;
  offer_filters(request, filters_for(request, kConfigs[offer.config]), staging_us(l), taps_format(l),
                sdk::elements(l.weights) * item_of(l), offer);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise_last, kNames, supports, instance_of<Marches, kConfigs>);

} // namespace polyconv::cuda
