// cost.cpp - what the gradient of weights on Hopper costs, and how its depth is shared out.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/layer.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "pixel_matrix.hpp"
#include "weights/weights.hpp"

namespace polyconv::cuda::wgmma {
namespace {

// Of the bytes that tiles fetch of a factor, how many the second cache sends: what several tiles want at the same time
// it sends to some of them at once; what a pair of tiles shares, to both.
double sent(double tiles, bool shared) {
  return (0.36 + 0.64 / tiles) * (shared ? 0.64 : 1);
}

// From 0, where all that a run touches stays in the second cache, to 1, where nothing does.
double overflow(double bytes) {
  return std::clamp((bytes - 23.2e6) / 45.6e6, 0.0, 1.0);
}

// How many times as long boxes of pixels take that begin within a line of 128 bytes, and so lie in two.
double parted(const polyconv_tensor &t) {
  return t.size[1] > 64 && row_of(t) % 64 != 0 ? 1.09 : 1;
}
// And what the second cache asks of itself then, where they even begin within a sector of 32, and lie in five of these.
double split(const polyconv_tensor &t) {
  return t.size[1] > 64 && row_of(t) % 16 != 0 ? 2 : parted(t);
}

// Clocks of a block of depth: its products', its fetches' by one block of threads, or what the second cache takes to
// send the fetches of all.
double depth_clocks(const polyconv_layer &l, const WeightsProduct &p, const WeightsShape &shape) {
  const double columns = shape.chunks * 64.0, blocks = real(p.shares.workers) * cluster_of(p);
  const double column_tiles = std::ceil(real(p.chunks) / shape.chunks);
  const double asked = shape.rows * sent(column_tiles, p.pairs == kPairsOfColumns) +
                       columns * sent(p.row_tiles, p.pairs == kPairsOfRows);
  const bool boxes = p.boxes && !shape.in_rows;
  const double lines = boxes ? std::max(parted(l.input), parted(l.output)) : 1;
  const double sectors = boxes ? std::max(split(l.input), split(l.output)) : 1;
  // Warpgroups that share 64 columns.
  const double narrow = shape.row_groups > 1 && shape.chunks == shape.chunk_groups ? 1.1 : 1;
  return std::max({shape.rows * columns * shape.depth / 2048,
                   narrow * lines * (shape.rows + columns) * shape.depth * 2 / (p.boxes ? 72 : 47),
                   sectors * asked * shape.depth * 2 * blocks / 3960});
}

double bytes_of_pieces(const WeightsProduct &p, const WeightsShape &shape) {
  return pieces_of(p) * shape.rows * shape.chunks * 64 * (p.narrow ? 2 : 4);
}

// Of four sums that a thread of a cluster stores: to find whose they are, where there are groups, and where they
// belong; of which tap they are, where there are several.
constexpr double kFoundUs = 0.35, kTapUs = 0.15;

// Of a cluster, which stores its sums channel by channel where these do not lie side by side: parts of sectors, of
// which as many leave in a microsecond. (512 x 256 weights of 16 taps, channels first: 20 to 25 us in four shapes.)
double scattered_us(const WeightsProduct &p, double weights) {
  if (p.weights.stride[1] == 1) return 0;
  const double bytes = real(p.weights.stride[1]) * real(sdk::type_bytes(p.result_type));
  return weights * std::min(1.0, bytes / 32) / 90e3;
}

// Microseconds until what the blocks have summed is in the result.
double leaving_us(const WeightsProduct &p, const WeightsShape &shape, double weights) {
  const double sums = shape.rows * shape.chunks * 64.0; // of a tile
  const double of_thread = sums / (128 * shape.row_groups * shape.chunk_groups);
  const double tiles = std::ceil(real(p.shares.group) / p.shares.workers_of_group); // of a block
  const double whole = tiles * (128 + sums / 72) / kHopperClocks, pieces = bytes_of_pieces(p, shape);
  // Of a group's rows, those of a tile's columns are read that are its own.
  const double own = p.group_rows == 0 ? 1 : std::min(1.0, real(p.group_channels) / (p.tap_chunks * 64));
  if (p.sharing > 1) { // the blocks of a cluster tell each other
    const double found = p.group_rows != 0 ? kFoundUs * own : p.chunks > p.tap_chunks ? kTapUs : 0;
    return weights / 2.25e6 + scattered_us(p, weights) + whole + 1.1 + found * of_thread / 4 / p.sharing +
           (8.5 * of_thread + sums / 3.9) * (1 - 1.0 / p.sharing) / kHopperClocks;
  }
  if (leaves_whole(p)) return weights / 2.25e6 + whole + (p.pairs == kNoPairs ? 0 : 0.2);
  if (p.narrow) return 3.4 + (pieces + weights * 4) / 3e6 + whole; // stored, read, stored turned
  if (adds_together(p)) return 2.5 + pieces / 3e6;
  const double adding = 1.7 * of_thread / kHopperClocks;
  if (p.group_rows != 0) return 3.4 + pieces * (0.5 + 0.5 * own) / 3.07e6 + weights / 1.35e6 + adding;
  return 2.7 + pieces / 3.2e6 + weights / 0.85e6 + adding;
}

} // namespace

// Microseconds of a product: the longest share's products or their fetches, and the bytes; pieces and what becomes of
// them, or whole tiles on their way out. Fitted to 5,600 times of 142 census layers in graphs on an H200; what tiles,
// clusters and pieces take to leave, and what 32 bytes' alignment costs, anew to 450 times of 69 layers (30 November
// 2026): 12 % rms; the choice takes 1.9 % longer than the fastest.
double product_us(const polyconv_layer &l, const WeightsProduct &p, const WeightsShape &shape) {
  const double factors = 2 * (real(sdk::elements(l.input)) + real(sdk::elements(l.output)));
  // Windows whose pixels begin within a sector of 32 bytes take longer.
  const double misaligned = sdk::taps(l) > 1 && row_of(l.input) % 16 != 0 ? 1.71 : 1;
  // Pixels of fewer than 64 bytes are asked for one by one.
  const double narrow = sdk::taps(l) > 1 && l.input.size[1] < 16 ? 1.5 : 1;
  const double multiplying =
      misaligned * narrow * blocks_of_longest(p) * (depth_clocks(l, p, shape) + 64) / kHopperClocks;
  const double moving = factors / (42.3e6 - 30.1e6 * overflow(factors + bytes_of_pieces(p, shape)));
  // Of groups, whose columns no tile of other groups wants too. 11 layers.
  const double grouped = l.groups > 1 ? 1.1 : 1;
  return grouped * (1.47 + multiplying + moving + leaving_us(p, shape, real(sdk::elements(l.weights))));
}

// Of all ways to share out a layer's depth, the one that takes the least time: in pieces; in whole tiles, which are
// turned where channels do not lie side by side; either in pairs of tiles; or in clusters, of which each sums one tile.
// (Clusters with several pieces took 1.2 to 1.4 times as long as they should.)
WeightsProduct product_of(const polyconv_layer &l, const WeightsShape &shape) {
  WeightsProduct pieces = make_weights_product(l, shape);
  if (l.groups > 1 && l.weights.size[1] % 8 != 0) return pieces; // the others store eights of one group
  pieces.whole = l.weights.stride[1] == 1 ? 1 : 0;
  WeightsProduct best = pieces;
  double least = product_us(l, best, shape);
  const auto consider = [&](const WeightsProduct &p) {
    if (const double us = product_us(l, p, shape); us < least) least = us, best = p;
  };
  if (pieces.whole || (l.groups == 1 && is_half(pieces.result_type) && sdk::taps(l) <= kMostNarrowTaps)) {
    WeightsProduct whole = pieces;
    whole.shares = share_out_whole(pieces.shares, 1);
    whole.narrow = 1 - pieces.whole;
    consider(whole);
  }
  for (const WeightsPairs pairs : {kPairsOfRows, kPairsOfColumns}) {
    if (!suits_pairs(pieces, shape, pairs)) continue;
    WeightsProduct p = make_weights_product(l, shape, 1, pairs);
    p.whole = pieces.whole;
    consider(p);
    p.shares = share_out_whole(p.shares, 2);
    if (p.whole) consider(p);
  }
  if ((shape.ways & kInClusters) == 0) return best;
  for (const int32_t sharing : {2, 4, kMostSharing}) {
    WeightsProduct p = make_weights_product(l, shape, sharing);
    p.whole = 1;
    p.shares = share_out_whole(p.shares, sharing);
    if (p.shares.workers == p.shares.tiles) consider(p);
  }
  return best;
}

} // namespace polyconv::cuda::wgmma
