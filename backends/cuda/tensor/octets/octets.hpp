// octets.hpp - the geometry of cuda-tensor/octets: what its instances are compiled for, and how one problem is cut up.
//
// Eight images are an octet: one pixel of all eight is a unit of 16 bytes in shared memory. Units in a row of pixels
// are what a warpgroup product takes as its second operand, from any pixel on: eight of them are half of a step of its
// depth, eight images its columns, and the next eight columns are two pixels further. So nothing is laid out twice, and
// no position of a row is computed in vain. The first operand is the weights, as bands: (filter, output row, output
// column) x (input row, channel, eight pixels).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "common/machine.hpp"
#include "few/few.hpp"

namespace polyconv::cuda::octets {

inline constexpr int kImages = 8; // of an octet
inline constexpr int kWindow = 8; // pixels: two neighbouring outputs of up to 7 taps
inline constexpr int kUnit = 16;  // bytes
inline constexpr int kRows = 64;  // of the first operand
inline constexpr int kBarrierBytes = 512;
inline constexpr int kMostSlots = 16;
inline constexpr int kStages = 2; // of results

// What an instance is compiled for: output rows and pairs of output columns of a product.
struct Form {
  int rows, positions;
  __host__ __device__ constexpr int filters() const { return kRows / 2 / rows; }
};

struct Geometry : few::Shape {
  int32_t images, image_shift; // those of an octet are 1 << image_shift apart: all begin equally far beyond 16 bytes
  int32_t steps;               // of an octet: as many output rows as a product has, each
  int64_t all_steps;
  int32_t share;         // steps of a block
  int32_t group, groups; // filters of a block; of the layer
  int32_t across;        // products along a row
  int32_t pairs;         // of channels
  int32_t pitch;         // units of a row of a channel
  int32_t depth_rows;    // input rows of a product
  int32_t span;          // slots that a product sees: a slot is as many input rows as a product has output rows
  int32_t slots;         // of the ring that the input comes through
  int32_t slot_units;
  int32_t pieces;                      // of 16 bytes that a row of one channel is in
  int32_t turns;                       // of four pieces of eight images that a loading warp turns, of a slot
  int32_t raw_stage;                   // bytes of what a loading warp copies of a slot
  int32_t blocks;                      // of 8 rows of weights that are stored
  int32_t chunk;                       // steps whose results wait for each other
  int32_t y_wait_filter, y_wait_image; // bytes between results that wait; images stand as Stage has them
  uint32_t group_magic, last_magic;    // 2^32 / filters of a group, rounded up; of the last one
  int32_t stage;                       // bytes of a chunk's results
  int32_t y_words;                     // 1: every row of results is whole words
};
using few::Pointers;

struct Variant {
  Form form;
  int32_t type;
  void (*kernel)(Geometry g, Pointers p);
};
using Variants = few::List<Variant>;
Variants variants();
inline constexpr int kTeams = 2, kLoaders = 8, kStorers = 4; // warpgroups; warps
inline constexpr int kMostTurns = 3;
inline constexpr int kMostPairs = 8; // of channels
inline constexpr int kRawStages = 2; // of what a loading warp copies
inline constexpr int kThreads = kTeams * 128 + (kLoaders + kStorers) * 32;

} // namespace polyconv::cuda::octets
