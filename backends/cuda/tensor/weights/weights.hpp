// weights.hpp - what the host knows of the Hopper product for the gradient of weights: dw[k][tap][c] = sum over
// pixels of dy[pixel][k] * x[window of pixel, tap][c]. Rows of a tile are output channels; columns are chunks of 64
// input channels of one tap each, so that a tile may hold several taps; depth is pixels, in blocks.
//
// common/pieces.cuh says how the blocks of depth of all tiles are shared out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/machine.hpp"
#include "common/sums/pieces.cuh"
#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

inline constexpr int kWorkers = kHopperMultiprocessors;

inline constexpr int kMostSharing = 8;  // blocks of a cluster
inline constexpr int kWeightsParts = 3; // that factors fall into at most (parts.hpp)
inline constexpr int kMostEach = 4;     // quads of sums that a lane adds at once

struct WeightsProduct {
  CUtensorMap gradients[kWeightsParts], activations[kWeightsParts]; // first: they are aligned to 64 bytes
  View<int64_t> weights;                                            // what is written
  void *result = nullptr;
  int32_t result_type = 0;
  float *pieces = nullptr;      // of the sums, one tile each
  int32_t rows = 0, chunks = 0; // output channels; chunks of all taps
  int32_t tap_chunks = 0;       // chunks of a tap
  int32_t row_tiles = 0;        // of all tiles
  Divider by_row_tiles = {};    // a tile's number: tiles of a column come one after the other
  // Of a group, where there are several: then the columns of a tile are the channels of its rows' groups, of which each
  // row wants its own, the blocks of a diagonal.
  int32_t group_rows = 0, group_channels = 0;
  Divider by_group_rows = {};
  Shares shares = {};
  int32_t sharing = 1; // blocks of a cluster, which share the depth of one tile, the cluster's (shared.cuh)
  int32_t pairs = 0;   // WeightsPairs: a cluster's blocks fetch for each other; `shares` are of pairs of tiles
  int32_t taps[3] = {}, out[3] = {}, stride[3] = {}, dilation[3] = {}, pad[3] = {};
  int32_t flat = 0;         // images have two axes
  int32_t image_blocks = 0; // of depth, of an image; 0: blocks go on across images
  int32_t boxes = 0;        // WeightsBoxes: maps are of pixels in a row, not of windows
  int32_t whole = 0;        // 1: a tile that one worker sums alone leaves at once, not as a piece
  int32_t narrow = 0;       // 1: pieces are whole tiles, rounded to the result's 16 bits, which are then turned
  int32_t vector = 1;       // neighbouring channels of the result that lie in memory as one: 1, 4 or 8
  int32_t together = 0;     // 1: the blocks wait for each other, and add the pieces themselves
  int32_t each = 0;         // quads of a tile that a lane adds at once: 1, 2 or kMostEach; 0: another launch adds them
  int32_t ways = 1;         // lanes that share the pieces of a quad: 1, 2 or 4
  int32_t dense_rows = 0;   // 1: a row's taps and channels lie side by side, in vectors of 16 bytes
};

// Where windows are one pixel, the factors are matrices: one box then holds a chunk of a block's pixels, or all chunks
// of a tile, where there are no others.
enum WeightsBoxes : int32_t { kNoBoxes = 0, kBoxes = 1, kBoxOfGradients = 2, kBoxOfActivations = 4 };

// Two tiles side by side, of the same columns or of the same rows, fetch what both want once: each half of the pixels,
// for both.
enum WeightsPairs : int32_t { kNoPairs = 0, kPairsOfRows = 1, kPairsOfColumns = 2 };

// How blocks may work together at a tile: in pairs (WeightsPairs), in clusters (shared.cuh). A shape is compiled for
// those in which it is the fastest for some layer.
enum WeightsWays : int32_t { kAlone = 0, kInPairs = 1, kInClusters = 2, kInBoth = 3 };

// A block's tile: rows x chunks; warpgroups along either; pixels of a block of depth; whether these are part of a row
// of pixels, those of one image (first/).
struct WeightsShape {
  int32_t rows, chunks, row_groups, chunk_groups, depth, ways;
  bool in_rows = false;
};
#define POLYCONV_WGMMA_WEIGHTS_TILES(tile)                                                              \
  tile(128, 4, 2, 1, 64, kInBoth) tile(256, 2, 2, 1, 64, kAlone) tile(128, 2, 2, 1, 64, kInBoth)        \
      tile(64, 4, 1, 2, 64, kInBoth) tile(64, 9, 1, 3, 32, kAlone) tile(64, 2, 1, 1, 64, kInBoth)       \
          tile(64, 1, 1, 1, 64, kInBoth) tile(64, 3, 1, 1, 64, kInBoth) tile(128, 3, 2, 1, 64, kInBoth) \
              tile(128, 1, 2, 1, 64, kInBoth)
#define POLYCONV_WGMMA_WEIGHTS_SHAPE(rows, chunks, row_groups, chunk_groups, depth, ways) \
  {rows, chunks, row_groups, chunk_groups, depth, ways},
inline constexpr WeightsShape kWeightsShapes[] = {POLYCONV_WGMMA_WEIGHTS_TILES(POLYCONV_WGMMA_WEIGHTS_SHAPE)};
inline constexpr int kWeightsShapeCount = sizeof kWeightsShapes / sizeof *kWeightsShapes;

// The geometry of a layer in a shape, without maps and pointers, with clusters of `sharing` blocks as workers, or
// pairs.
WeightsProduct make_weights_product(const polyconv_layer &layer, const WeightsShape &shape, int32_t sharing = 1,
                                    WeightsPairs pairs = kNoPairs);
// Whether a product's tiles come in pairs, and their factors in boxes.
bool suits_pairs(const WeightsProduct &product, const WeightsShape &shape, WeightsPairs pairs);
// Blocks of a cluster.
__host__ __device__ inline int32_t cluster_of(const WeightsProduct &p) {
  return p.pairs != kNoPairs ? 2 : p.sharing;
}
// Whether every tile leaves at once, and there are no pieces.
bool leaves_whole(const WeightsProduct &product);
int64_t pieces_bytes(const WeightsProduct &product, const WeightsShape &shape); // of the workspace
// Whether tiles begin with groups, or lie within one.
bool suits_groups(const polyconv_layer &layer, const WeightsShape &shape);
// Every tile one worker's, which is a cluster of so many blocks.
Shares share_out_whole(const Shares &shares, int32_t cluster);

// Whether maps hold the factors of a layer; else rejects in the words of the forward layer that reads so.
bool maps_hold_weights(const polyconv_request &request, const polyconv_layer &layer, sdk::Offer &offer);

// What estimates are made of: clocks of a block of depth, in `parts` and `products` of them; what one block of threads
// of the longest share multiplies; pieces on their way out and in again.
double block_clocks(const WeightsShape &shape, int parts, int products);
int32_t blocks_of_longest(const WeightsProduct &product);
double pieces_of(const WeightsProduct &product);

// Microseconds of a product; and of all ways to share out a layer's depth the one that takes the least.
double product_us(const polyconv_layer &layer, const WeightsProduct &product, const WeightsShape &shape);
WeightsProduct product_of(const polyconv_layer &layer, const WeightsShape &shape);

// The most taps of a layer whose pieces can be narrow.
inline constexpr int kMostNarrowTaps = 128;

// What is known once there is a result: in which vectors it can be stored.
void set_result(WeightsProduct &product, void *result);

// Whether the blocks of a product may add the pieces themselves, where the device runs all of them at once.
bool adds_together(const WeightsProduct &product);
// Adds the pieces, or turns narrow ones, and stores the gradient.
void add_pieces(const WeightsProduct &product, const WeightsShape &shape, cudaStream_t stream);
void turn_pieces(const WeightsProduct &product, const WeightsShape &shape, cudaStream_t stream);

struct WeightsLauncher {
  void (*prepare)();
  // Whether the gradient is there then, without what add_pieces does.
  bool (*launch)(const WeightsProduct &product, cudaStream_t stream);
};
template <class T>
WeightsLauncher weights_launcher_of(int shape);

} // namespace polyconv::cuda::wgmma
