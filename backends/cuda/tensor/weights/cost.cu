// cost.cu - what the gradient of weights on Hopper costs, and how its depth is shared out.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "pixel_matrix.hpp"
#include "weights/weights.hpp"

namespace polyconv::cuda::wgmma {
namespace {

// Of the bytes that tiles fetch of a factor, how many the second cache sends: what several tiles want at the same time
// it sends to some of them at once.
double sent(double tiles) {
  return 0.48 + 0.52 / tiles;
}

// From 0, where all that a run touches stays in the second cache, to 1, where nothing does.
double overflow(double bytes) {
  return std::clamp((bytes - 8e6) / 51.7e6, 0.0, 1.0);
}

// How many times as long boxes of pixels take that begin within a line of 128 bytes, and so lie in two.
double parted(const polyconv_tensor &t) {
  return t.size[1] > 64 && row_of(t) % 64 != 0 ? 1.16 : 1;
}

// Clocks of a block of depth: its products', its fetches' by one block of threads, or what the second cache takes to
// send the fetches of all, where so much of what a run touches lies outside of it.
double depth_clocks(const polyconv_layer &l, const WeightsProduct &p, const WeightsShape &shape, double over) {
  const double columns = shape.chunks * 64.0, blocks = real(p.shares.workers) * p.sharing;
  const double column_tiles = std::ceil(real(p.chunks) / shape.chunks);
  const double asked = shape.rows * sent(column_tiles) + columns * sent(p.row_tiles);
  const double lines = p.boxes && !shape.in_rows ? std::max(parted(l.input), parted(l.output)) : 1;
  return std::max({shape.rows * columns * shape.depth / 2048,
                   lines * (shape.rows + columns) * shape.depth * 2 / (p.boxes ? 83.7 : 47.8),
                   lines * asked * shape.depth * 2 * blocks / (4627 - 222 * over)});
}

} // namespace

// Microseconds of a product: the longest share's products or their fetches, or the bytes; pieces and what becomes of
// them, or whole tiles on their way out; what the blocks of a cluster tell each other. Fitted to 1,700 times of 141
// census layers in graphs on an H200 (29 November 2026): 8 % rms; the choice takes 1.8 % longer than the fastest.
double product_us(const polyconv_layer &l, const WeightsProduct &p, const WeightsShape &shape) {
  constexpr double kClocks = kHopperClocks;
  const double tile_bytes = shape.rows * shape.chunks * 256.0;
  const double of_thread = shape.rows * shape.chunks * 64.0 / (128 * shape.row_groups * shape.chunk_groups); // sums
  const double factors = 2 * (real(sdk::elements(l.input)) + real(sdk::elements(l.output)));
  const bool all_whole = p.whole && p.shares.all_whole();
  const double over = overflow(factors + (all_whole ? 0 : pieces_of(p) * tile_bytes));
  // Windows whose pixels begin within a sector of 32 bytes take longer.
  const double misaligned = sdk::taps(l) > 1 && row_of(l.input) % 16 != 0 ? 1.76 : 1;
  // Pixels of fewer than 64 bytes are asked for one by one.
  const double narrow = sdk::taps(l) > 1 && l.input.size[1] < 16 ? 1.5 : 1;
  const double multiplying =
      misaligned * narrow * blocks_of_longest(p) * (depth_clocks(l, p, shape, over) + 75) / kClocks;
  const double moving = factors / (41.6e6 - 30.6e6 * over);
  const double weights = real(sdk::elements(l.weights));
  const double tile_clocks = 1200 + (p.sharing > 1 ? 0 : 0.52 * of_thread); // of a whole one on its way out
  const double leaving = all_whole
                             ? weights / 1e6 + (p.sharing > 1 ? 1 : p.shares.group) * tile_clocks / kClocks
                             : 2.7 + pieces_of(p) * tile_bytes / 3.52e6 + weights / 0.47e6 + 18.5 * of_thread / kClocks;
  const double telling = p.sharing == 1 ? 0 : 0.52 + 64.3 * of_thread * (1 - 1.0 / p.sharing) / kClocks;
  return 2.63 + std::max(multiplying, moving) + 0.84 * std::min(multiplying, moving) + leaving + telling;
}

// Of all ways to share out a layer's depth, the one that takes the least time: in pieces, in whole tiles where channels
// lie side by side, or in clusters, of which each sums one tile. (Clusters with several pieces took 1.2 to 1.4 times as
// long as they should.)
WeightsProduct product_of(const polyconv_layer &l, const WeightsShape &shape) {
  WeightsProduct best = make_weights_product(l, shape);
  if (l.groups > 1) return best; // what is a row's own is found among pieces
  best.whole = l.weights.stride[1] == 1 ? 1 : 0;
  double least = product_us(l, best, shape);
  const auto consider = [&](const WeightsProduct &p) {
    if (const double us = product_us(l, p, shape); us < least) least = us, best = p;
  };
  if (best.whole) {
    WeightsProduct whole = best;
    whole.shares = share_out_whole(best.shares, 1);
    consider(whole);
  }
  for (const int32_t sharing : {2, 4, kMostSharing}) {
    WeightsProduct p = make_weights_product(l, shape, sharing);
    p.whole = 1;
    p.shares = share_out_whole(p.shares, sharing);
    if (p.shares.workers == p.shares.tiles) consider(p);
  }
  return best;
}

} // namespace polyconv::cuda::wgmma
