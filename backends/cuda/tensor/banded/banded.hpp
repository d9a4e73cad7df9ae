// banded.hpp - the geometry of cuda-tensor/banded: what its instances are compiled for, and how one problem is cut up.
//
// A window is 8 * words neighbouring elements of an input row, in which `columns` neighbouring outputs find all their
// taps. A position is where a window stands. Eight positions are the columns of a matrix instruction; its 16 rows are
// (filter, output row, output column), and each holds the taps of that output, shifted to where they stand in the
// window, with zeros beside them: the weights are banded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "common/machine.hpp"
#include "few/few.hpp"

namespace polyconv::cuda::banded {

inline constexpr int kPositions = 8;      // of a matrix instruction
inline constexpr int kBarrierBytes = 256; // of these, at most
inline constexpr int kLeastStages = 2, kMostStages = 4;

// How an instance goes about a layer.
enum class Way {
  kSheet,         // a block takes bands of rows of images into shared memory in turn, and results leave from there
  kSheetSingly,   // likewise, with results of every type and number
  kTracks,        // bands likewise, channels last in shared memory, on warpgroup products: more channels
  kTracksInParts, // likewise, with rows of taps in two parts
  kMarch,         // a warp marches down the rows of eight positions, copying them in pieces of 16 bytes
  kMarchSingly    // likewise, in elements: rows and pointers of every alignment, results of every type
};

inline bool is_sheet(Way way) {
  return way == Way::kSheet || way == Way::kSheetSingly;
}
inline bool is_tracks(Way way) {
  return way == Way::kTracks || way == Way::kTracksInParts;
}

// What an instance is compiled for.
struct Form {
  int taps;    // rows of taps, at most
  int step;    // input rows from one output row to the next
  int rows;    // output rows of a position; of a track
  int planes;  // input channels at most, each in a plane of its own
  int words;   // pairs of elements that a lane holds of a window; tracks: products of a row of taps
  int tiles;   // of 16 rows of weights; tracks: of 8 filters
  bool pixels; // channels last: a row holds all channels of its pixels, and results of a pixel are neighbours

  __host__ __device__ constexpr int input_rows() const { return (rows - 1) * step + taps; }
  // A product takes two halves of 8 elements: windows of one word have their next row or channel beside them.
  __host__ __device__ constexpr int halves() const { return input_rows() * planes * words; }
  __host__ __device__ constexpr int products() const { return (halves() + 1) / 2; }

  // Sheets. Tiles of eight positions that a warp marches down beside each other, and sums of a tile that are added at
  // the end: products do not wait for each other then.
  __host__ __device__ constexpr int abreast() const { return planes == 1 && tiles * products() <= 6 ? 2 : 1; }
  __host__ __device__ constexpr int sheet_chains() const {
    return products() > 6 ? 3 : products() > 3 && tiles == 1 ? 2 : 1;
  }
  // Input rows that a warp has read before the step that takes them: where a step's products are few, marches are too
  // short for it.
  __host__ __device__ constexpr int rows_ahead() const { return products() > 3 ? rows : 0; }
  // Warps that multiply: as many as registers leave room for.
  __host__ __device__ constexpr int sheet_warps() const {
    return abreast() == 1 && (4 * products() + 4 * sheet_chains()) * tiles + input_rows() * planes <= 44 ? 16 : 12;
  }
};

// One problem on one instance.
struct Geometry : few::Shape {
  int32_t columns; // outputs of a position, neighbours along a row
  int32_t tile_filters;
  int32_t shift;     // elements of a window before the first tap of its first output
  int32_t move;      // elements from one position's window to the next
  int32_t first;     // the first element of a row's first window; before the row where there is padding
  int32_t positions; // of a row
  int32_t group;     // filters that a warp or block computes together
  int32_t groups;    // of filters
  int32_t strip;     // output rows of a warp or block
  int32_t strips;
  int32_t tiles;  // of 8 positions: marches: in a row; sheets: in a band, or in a half of it where there are two beside
  int32_t warps;  // marches
  int32_t spread; // 1: positions stand in the order 0 2 4 6 1 3 5 7, so that neighbouring lanes store neighbours; 0:
                  // in their own, and sheets store the results of two at once
  // Sheets. A band's rows are cut into stretches, whose positions march down side by side.
  int32_t bands;         // of all images
  int32_t stretches;     // of a band, or of the part of it where one of several tiles beside each other is
  int32_t input_beside;  // elements from one of these parts to the next
  int32_t output_beside; // likewise of one filter's results
  int32_t steps;         // of a stretch
  uint32_t magic;        // 2^32 / positions, rounded up; 0 for 1
  int32_t pitch;         // elements of a row in shared memory
  uint32_t pitch_magic;  // sheets: 2^32 / pitch, likewise
  int32_t plane;         // elements of a channel there; tracks: channels of a pixel
  int32_t runs;          // of a band's input that are copied as they lie; 0: in elements
  int32_t input_stage;   // elements; a place for one band's input
  int32_t share_tiles;   // that a warp takes at once
  int32_t shares;        // of a chunk
  int32_t chunk, chunks; // groups whose results leave together; how often that is
  int32_t waiting;       // elements from one filter's results to the next's in shared memory
  int32_t whole;         // 1: as in memory, so that all of a chunk leave as one run
  int32_t output_stage;  // bytes; a place for one chunk's results
  int32_t input_stages, output_stages;
  int32_t output_first; // sheets: bytes from the first place for input to the first for results
  int32_t runs_leave;   // 1: results leave in runs; 0: in elements
  int32_t result_type;
  int32_t inner;     // channels that are neighbours in memory
  int32_t input_row; // elements
};
using few::Pointers;

struct Variant {
  Form form;
  Way way;
  int32_t type; // of elements
  void (*kernel)(Geometry g, Pointers p);
  int threads, resident; // of a block; blocks on a multiprocessor
};
using Variants = few::List<Variant>;
Variants sheet_variants();
Variants track_variants();
Variants march_variants();

// An instance with the geometry that it gives a layer, and what that costs.
struct Choice {
  const Variant *variant = nullptr; // NULL: none serves
  const Variant *singly = nullptr;  // of a march: the same form for pointers that are not aligned
  Geometry geometry = {};
  int64_t blocks = 0;
  int shared = 0; // bytes
  double us = 0;
};

// The cheapest for a layer, in bands or strips of up to `rows` output rows. Sheets and tracks are code of 9.0.
Choice choose(const polyconv_layer &layer, int rows, bool hopper);

// Configs: the output rows of a band or strip, at most.
inline constexpr int kConfigCount = 6;
inline constexpr int kRows[kConfigCount] = {8, 16, 32, 64, 128, 256};
inline constexpr const char *kConfigNames[kConfigCount] = {"rows8", "rows16", "rows32", "rows64", "rows128", "rows256"};

// Of one layer whose type the kernel takes.
bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config);

} // namespace polyconv::cuda::banded
