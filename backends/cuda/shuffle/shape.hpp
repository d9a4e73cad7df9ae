// shape.hpp - the geometry of cuda-shuffle: what an instance computes, and how one problem is cut up for it.
//
// A position is where a window can be if the filter moves by the instance's own step S; an output is at every
// stride / S'th position of its axis.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/conv.cuh"

namespace polyconv::cuda::shuffle {

inline constexpr int kThreads = 128;
inline constexpr int kLargest = 15; // filter
inline constexpr int kSmall = 7; // filters up to here have their weights in registers, and instances for strides of 2

// Input columns of a lane: 16 bytes where the sums of n rows leave room, and never fewer than a window reaches aside.
__host__ __device__ constexpr int columns_of(int n, int bytes) {
  return bytes == 4 && n <= 6 ? 4 : 8;
}
// Rows under way of a lane, and a divisor of those that it sums in one go.
__host__ __device__ constexpr int rows_ahead(int n) {
  return n <= 3 ? 4 : n <= kSmall ? 2 : 1;
}
inline constexpr int kKept = 8;               // finished rows that a lane keeps for pooling
inline constexpr int kWindow = kKept - 4 + 1; // rows of the largest window: results are finished once in up to 4 rows

// What an instance does with finished rows. kRows stores them, with a bias and a relu at most. kAll: with m.direct a
// small filter pools windows of 2 x 2 and a large one stores rows; without, results go through shared memory, for every
// epilogue, every pooling, and strides beyond S.
enum class Results { kRows, kAll };

struct March {
  int32_t width;           // lanes of a tile
  int32_t tiles_w, strips; // of a plane
  int32_t tiles;           // of an output channel: tiles_w * strips * images
  int32_t per_input;       // output channels of an input channel
  int32_t results_w;       // result columns of a tile
  int32_t results_h;       // result rows of a strip
  int32_t rows;            // positions that a strip marches through
  int32_t step_h, step_w;  // positions from one output to the next
  int32_t warps;
  // Flags.
  int32_t vector_loads;  // rows begin, and the image ends, at multiples of a lane's columns
  int32_t vector_stores; // so do the rows of the result
  int32_t direct;        // results leave from registers, with a bias of f32 and a relu at most
  int32_t folds;         // coordinates outside read other elements
  int32_t fills;         // they read a constant that is not zero
};

using LaunchFunction = void (*)(const Conv<int32_t> &p, const March &m, const void *x, const void *weights, void *y,
                                cudaStream_t stream);

// Ways through a layer: from registers into memory, at a step of 1 or 2; through shared memory; filters beyond kSmall.
enum Instances { kDirect, kStrided, kStaged, kLarge };
// The instance for a filter's size and the input's type, NULL where there is none.
template <Instances way>
LaunchFunction find(int64_t n, int32_t type);

} // namespace polyconv::cuda::shuffle
