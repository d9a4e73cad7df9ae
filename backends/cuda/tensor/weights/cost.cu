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
  return 0.82 + 0.18 / tiles;
}

// From 0, where all that a run touches stays in the second cache, to 1, where nothing does.
double overflow(double bytes) {
  return std::clamp((bytes - 27.3e6) / 6.2e6, 0.0, 1.0);
}

} // namespace

// Microseconds of a product: the longest share's products or their fetches, or the bytes; pieces and what becomes of
// them, or whole tiles on their way out; what the blocks of a cluster tell each other. Fitted to 620 times of 64 layers
// in graphs, and to 1,500 of 140 census layers run one by one, on an H200: 13 % rms; of the 64 the choice takes 2 %
// longer than the fastest that was measured.
double product_us(const polyconv_layer &l, const WeightsProduct &p, const WeightsShape &shape) {
  constexpr double kClocks = kHopperClocks;
  const double columns = shape.chunks * 64.0, tile_bytes = shape.rows * columns * 4;
  const double blocks = real(p.shares.workers) * p.sharing;
  const double factors = 2 * (real(sdk::elements(l.input)) + real(sdk::elements(l.output)));
  const bool all_whole = p.whole && p.shares.all_whole();
  const double over = overflow(factors + (all_whole ? 0 : pieces_of(p) * tile_bytes));
  // Clocks of a block of depth: its products', its fetches' by one block of threads, or what the second cache takes to
  // send the fetches of all.
  const double column_tiles = std::ceil(real(p.chunks) / shape.chunks);
  const double asked = shape.rows * sent(column_tiles) + columns * sent(p.row_tiles);
  const double clocks = std::max({shape.rows * columns * shape.depth / 2048,
                                  (shape.rows + columns) * shape.depth * 2 / (p.boxes ? 70.0 : 42.4),
                                  asked * shape.depth * 2 * blocks / (6790 - 1920 * over)});
  // Windows whose pixels begin within a sector of 32 bytes take longer.
  const double misaligned = sdk::taps(l) > 1 && row_of(l.input) % 16 != 0 ? 1.9 : 1;
  // Pixels of fewer than 64 bytes are asked for one by one.
  const double narrow = sdk::taps(l) > 1 && l.input.size[1] < 16 ? 1.5 : 1;
  const double multiplying = misaligned * narrow * blocks_of_longest(p) * (clocks + 59) / kClocks;
  const double moving = factors / (45.6e6 - 31.6e6 * over);
  const double weights = real(sdk::elements(l.weights));
  const double leaving = all_whole
                             ? weights / 0.69e6 + (p.sharing > 1 ? 0 : p.shares.group * tile_bytes / 148 / kClocks)
                             : 2.3 + pieces_of(p) * tile_bytes / 1.7e6 + weights / 1.37e6;
  const double telling = p.sharing == 1 ? 0 : 0.85 + tile_bytes * (1 - 1.0 / p.sharing) / 13.5 / kClocks;
  return 3.26 + std::max(multiplying, moving) + 0.603 * std::min(multiplying, moving) + leaving + telling;
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
