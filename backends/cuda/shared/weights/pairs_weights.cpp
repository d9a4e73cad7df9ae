// pairs_weights.cpp - the gradient of weights of layers of some channels and some filters, f32, channels first: a block
// keeps all their pairs in its threads' registers, and reads each pixel once (pairs.hpp). Chunks of rows go
// through two buffers of shared memory. The config is the filters of a thread.
//
// Floor: max(2 N K P Q n^2 C / FMA rate, one read of every element / copy rate). For a strip of 4 outputs a thread of 3
// filters and 4 rows of 7 taps takes 15 loads of 16 bytes, of few addresses a warp, for 336 products.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "weights/pairs.hpp"

#include <cinttypes>

#include "common/sums/bias_gradient.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr int kFiltersOf[] = {3, 4};
constexpr const char *kNames[] = {"f3", "f4"};
constexpr int kConfigCount = 2;
constexpr int64_t kBlocks = kHopperMultiprocessors * 2; // to aim for
constexpr int64_t kChunkBytes = 99 * 512; // half of what every chip from 8.0 on lends a block; 9.0 holds two blocks
constexpr int64_t kMostImages = 8;        // of a chunk
constexpr int64_t kMostSets = 8;          // along filters, and along channels

PairsInstance instance_for(const polyconv_layer &l, int filters) {
  switch (l.weights.size[3]) {
    case 3: return find_pairs<3>(l.stride[1], filters);
    case 4: return find_pairs<4>(l.stride[1], filters);
    case 5: return find_pairs<5>(l.stride[1], filters);
    default: return find_pairs<7>(l.stride[1], filters);
  }
}

// ---------------------------------------------------------------- a block

// Whole vectors, an odd number of them: neighbouring planes begin in other banks.
int64_t apart(int64_t floats) {
  return ceil_div(floats, 4) % 2 != 0 ? ceil_div(floats, 4) * 4 : ceil_div(floats, 4) * 4 + 4;
}

// Sets what a chunk of so many rows of so many images takes; false where that is too much.
bool set_chunk(const polyconv_layer &l, int64_t budget, int64_t images, int64_t rows, PairsWeights &r) {
  const int64_t taps = l.weights.size[3], step = l.stride[1];
  const int64_t output_pitch = ceil_div(l.output.size[4], kStrip) * kStrip, input_rows = (rows - 1) * step + taps;
  const int64_t input_pitch = (output_pitch - kStrip) * step + ceil_div((kStrip - 1) * step + taps, 4) * 4;
  const int64_t input_plane = apart(images * input_rows * input_pitch),
                output_plane = apart(images * rows * output_pitch);
  const int64_t buffer = r.channels * input_plane + r.filters * output_plane;
  if (buffer > budget / 4) return false;
  r.images = small(images), r.rows = small(rows), r.input_rows = small(input_rows);
  r.input_pitch = small(input_pitch), r.output_pitch = small(output_pitch);
  r.input_plane = small(input_plane), r.output_plane = small(output_plane), r.buffer = small(buffer);
  r.row_chunks = small(ceil_div(l.output.size[3], rows));
  r.chunks = small(r.row_chunks * ceil_div(l.output.size[0], images));
  return true;
}

// As many rows as fit, or several images; false where not one row does.
bool choose_chunk(const polyconv_layer &l, int64_t budget, PairsWeights &r) {
  const int64_t height = l.output.size[3], row_floats = 4 * l.output.size[4];
  if (row_floats * (r.channels + r.filters) / 4 > budget) return false; // and so numbers stay small
  int64_t chunks = 1;
  while (!set_chunk(l, budget, 1, ceil_div(height, chunks), r))
    if (++chunks > height) return false;
  for (int64_t images = 2; chunks == 1 && images <= std::min(kMostImages, l.output.size[0]); ++images)
    if (!set_chunk(l, budget, images, height, r)) break;
  return true;
}

// Microseconds of the products, fitted to an H200: a warp's issue slots for products and loads, and for each chunk, of
// which teams wait for the longest. Within 11 % of 19 layers.
double summing_us(const polyconv_layer &l, int filters, const PairsWeights &r) {
  const int64_t taps = l.weights.size[3], step = l.stride[1], most = rows_of_thread(small(taps));
  const double rows = real(taps) / real(ceil_div(taps, most)), strips = real(ceil_div(l.output.size[4], kStrip));
  const double loads = real(filters + most * ceil_div((kStrip - 1) * step + taps, 4));
  const double products = real(l.output.size[4]) * filters * rows * real(taps);
  const int64_t lines = ceil_div(std::min<int64_t>(r.rows, l.output.size[3]) * r.images, r.teams);
  const double warps = r.team * r.teams / 32.0,
               slots = warps * (real(lines) * (1.1 * products + 7.8 * strips * loads) + 390);
  const double chunks = real(ceil_div(r.chunks, r.parts)), blocks = real(r.sets) * r.parts;
  return chunks * slots * blocks / (kHopperMultiprocessors * 4 * kHopperFmaClocks) /
         std::min(1.0, blocks * warps / (kHopperMultiprocessors * 11.3));
}

bool make_pairs(const polyconv_layer &l, int filters, PairsWeights &best) {
  const int64_t group_filters = l.weights.size[0] / l.groups, channels = l.weights.size[1];
  const int64_t lanes = ceil_div(group_filters, filters), taps = l.weights.size[3];
  const int64_t row_tiles = ceil_div(taps, rows_of_thread(small(taps)));
  double least = 0;
  for (int64_t a = 1; a <= std::min(kMostSets, lanes); ++a)
    for (int64_t b = 1; b <= std::min(kMostSets, channels); ++b) {
      PairsWeights r = {};
      r.filter_lanes = small(ceil_div(lanes, a)), r.channels = small(ceil_div(channels, b));
      const int64_t threads = row_tiles * r.filter_lanes * r.channels, sets = l.groups * a * b;
      if (threads > kPairThreads || sets > kBlocks) continue;
      r.filters = r.filter_lanes * filters;
      r.filter_sets = small(ceil_div(lanes, r.filter_lanes)), r.channel_sets = small(ceil_div(channels, r.channels));
      r.sets = small(l.groups * r.filter_sets * r.channel_sets);
      r.team = small(ceil_div(threads, 32) * 32), r.teams = kPairThreads / r.team;
      if (!choose_chunk(l, kChunkBytes, r)) continue;
      r.parts = small(std::clamp<int64_t>(kBlocks / r.sets, 1, r.chunks));
      const double us = summing_us(l, filters, r);
      if (least == 0 || us < least) least = us, best = r;
    }
  return least > 0;
}

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!takes_windows(request, offer, true)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.input.type != POLYCONV_F32) return offer.reject("takes f32 alone");
  return l.pad_mode <= POLYCONV_PAD_CONSTANT || offer.reject("pads with a constant");
}

int64_t partials_bytes(const polyconv_layer &l, int filters, const PairsWeights &r) {
  const int64_t taps = l.weights.size[3], sums = filters * rows_of_thread(small(taps)) * taps;
  return aligned_bytes(4 * sums * r.sets * r.parts * r.team * r.teams);
}

double estimate(const polyconv_layer &l, int filters, const PairsWeights &r) {
  const double elements = real(sdk::elements(l.input)) + real(sdk::elements(l.output));
  return 12 + std::max(summing_us(l, filters, r), elements * 4 / 3e6) + real(partials_bytes(l, filters, r)) / 4e6 +
         bias_gradient_us(l);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  PairsWeights r;
  const auto us = [&](int32_t c) { return make_pairs(l, kFiltersOf[c], r) ? estimate(l, kFiltersOf[c], r) : 0; };
  if (!offer_cheapest(kConfigCount, config, offer, us))
    return offer.reject("no block holds the pairs of %" PRId64 " filters and %" PRId64 " channels and a row of each",
                        l.weights.size[0] / l.groups, l.weights.size[1]);
  make_pairs(l, kFiltersOf[offer.config], r);
  offer.workspace_bytes = partials_bytes(l, kFiltersOf[offer.config], r) + bias_gradient_bytes(l);
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class Pairs final : public CudaInstance {
 public:
  Pairs(const polyconv_request &request, int filters)
      : CudaInstance(request), filters_(filters), instance_(instance_for(layer_, filters)) {
    if (!make_pairs(layer_, filters, pairs_))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-shared/pairs_weights: no block for a problem that was accepted");
    const int64_t lent = block_shared_bytes(device_);
    if (lent < 2 * kChunkBytes && !choose_chunk(layer_, lent / 2, pairs_))
      throw sdk::Error(POLYCONV_UNSUPPORTED,
                       "cuda-shared/pairs_weights: no row of these planes fits what this device "
                       "lends a block of shared memory");
    const DeviceScope scope(device_);
    instance_.prepare(static_cast<int32_t>(std::min(2 * kChunkBytes, lent)));
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    PairsWeights r = pairs_;
    r.partials = static_cast<float *>(a.workspace);
    instance_.launch(Conv<int32_t>(layer_, a), r, static_cast<const float *>(a.input),
                     static_cast<const float *>(a.output), a.weights[0], stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + partials_bytes(layer_, filters_, r), stream);
  }

  const int filters_;
  const PairsInstance instance_;
  PairsWeights pairs_ = {};
};

} // namespace

POLYCONV_DEFINE_KERNEL(pairs_weights, kNames, supports, instance_of<Pairs, kFiltersOf>);

} // namespace polyconv::cuda
