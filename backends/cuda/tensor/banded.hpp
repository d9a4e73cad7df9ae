// banded.hpp - the geometry of cuda-tensor/banded: what its instances are compiled for, and how one problem is cut up.
//
// A window is 8 * words neighbouring elements of an input row, in which `columns` neighbouring outputs find all their
// taps. A position is where a window stands. Eight positions are the columns of a matrix instruction; its 16 rows are
// (filter, output row, output column), and each holds the taps of that output, shifted to where they stand in the
// window, with zeros beside them: the weights are banded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::cuda::banded {

inline constexpr int kPositions = 8;          // of a matrix instruction
inline constexpr int kMostShared = 96 * 1024; // bytes of a sheet: every chip from 80 on has so much

// How an instance goes about a layer.
enum class Way {
  kSheet,       // a block takes a band of rows of one image into shared memory, and its results leave from there
  kSheetSingly, // likewise, with results of every type and number
  kMarch,       // a warp marches down the rows of eight positions, copying them in pieces of 16 bytes
  kMarchSingly  // likewise, in elements: rows and pointers of every alignment, results of every type
};

// What an instance is compiled for.
struct Form {
  int taps;    // rows of taps, at most
  int step;    // input rows from one output row to the next
  int rows;    // output rows of a position
  int planes;  // input channels at most, each in a plane of its own
  int words;   // pairs of elements that a lane holds of a window
  int tiles;   // of 16 rows of weights
  bool pixels; // channels last: a row holds all channels of its pixels, and results of a pixel are neighbours

  __host__ __device__ constexpr int input_rows() const { return (rows - 1) * step + taps; }
  // A product takes two halves of 8 elements: windows of one word have their next row or channel beside them.
  __host__ __device__ constexpr int halves() const { return input_rows() * planes * words; }
  __host__ __device__ constexpr int products() const { return (halves() + 1) / 2; }
};

// One problem on one instance.
struct Geometry {
  int32_t columns;   // outputs of a position, neighbours along a row
  int32_t filters;   // of a tile
  int32_t shift;     // elements of a window before the first tap of its first output
  int32_t move;      // elements from one position's window to the next
  int32_t first;     // the first element of a row's first window; before the row where there is padding
  int32_t positions; // of a row
  int32_t groups;    // of filters: what one warp or block computes
  int32_t strip;     // output rows of a warp or block
  int32_t strips;
  int32_t tiles;   // marches: of 8 positions, in a row
  int32_t warps;   // marches
  int32_t spread;  // 1: positions stand in the order 0 2 4 6 1 3 5 7, so that neighbouring lanes store neighbours
  int32_t pitch;   // sheets: elements of a row in shared memory
  int32_t plane;   // sheets: elements of a channel there
  int32_t steps;   // sheets: positions of a column
  int32_t in_one;  // sheets: elements that are copied at once into shared memory; 0 where rows are padded
  int32_t out_one; // sheets: elements that are stored at once
  int32_t waiting; // sheets: elements of a filter's results in shared memory
  int32_t whole;   // sheets: 1 where results of all filters leave as one run
  uint32_t magic;  // sheets: 2^32 / positions, rounded up; 0 for 1
  // The problem.
  int32_t relu, result_type, inner; // inner: channels that are neighbours in memory
  int32_t input_h, input_row;       // rows; elements of a row
  int32_t output_h, output_w;
  int32_t all_filters, channels, taps_h, taps_w, pad_h, pad_w, step_h, step_w;
  int64_t x_image, x_plane, x_row, x_column, y_image, y_filter, y_row, y_column; // strides in elements
};

// Pointers of one run. `exact` are the weights unpacked, dense as [filter][channel][row][column].
struct Pointers {
  const void *x;
  const uint4 *weights;
  const void *exact;
  const float *bias; // NULL where there is none
  void *y;
};

struct Variant {
  Form form;
  Way way;
  bool bf16; // or f16
  void (*kernel)(Geometry g, Pointers p);
  int threads, resident; // of a block; blocks on a multiprocessor
};
struct Variants {
  const Variant *begin;
  int count;
};
Variants sheet_variants();
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

// The cheapest for a layer, in bands or strips of up to `rows` output rows.
Choice choose(const polyconv_layer &layer, int rows);

} // namespace polyconv::cuda::banded
