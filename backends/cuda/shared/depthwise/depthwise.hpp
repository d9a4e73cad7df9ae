// depthwise.hpp - how cuda-shared/depthwise cuts a layer into blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tiles/patch.hpp"

namespace polyconv::cuda::shared {

// How a thread reads a row of its window: as vectors of whole words, the first of which begins `lead` elements early.
struct Reading {
  int words, vector, lead, vectors; // words and elements of a vector; vectors of a row
};
__host__ __device__ constexpr Reading reading(int item, int n, int step, int columns) {
  const int words = columns * step * item / 4 < 4 ? columns * step * item / 4 : 4;
  const int vector = words * 4 / item;
  // Such that "same" padding has the first input column, and with it the copies, at a multiple of a vector.
  const int lead = (vector - n / 2 % vector) % vector;
  return {words, vector, lead, (lead + (columns - 1) * step + n + vector - 1) / vector};
}

struct Depthwise {
  int32_t columns, groups, planes; // threads: across a plane, below each other, planes of a block
  int32_t strips, channel_blocks;  // of an image
  int32_t parts, buffers;          // blocks that share out the images; tiles of a block
  int32_t width, height;           // outputs of a plane that the block's threads compute
  int32_t result_rows;             // of a strip, after pooling
  int32_t row_step, pool_pad;      // outputs from strip to strip, and those above the first
  int32_t left;                    // column of the tile with the first of the input
  int32_t pitch, plane, tile_rows; // elements from row to row and from plane to plane; rows
  int32_t chunk, chunks;           // elements copied at once; so many make up a row of the input
  int32_t multiplier;              // output channels of an input channel
  int32_t plain, vector_stores;    // a bias and a relu at most; rows of outputs at once
  int32_t threads, tile_bytes, sums_bytes;

  int64_t pairs() const { return int64_t{strips} * channel_blocks; } // blocks of an image
  int32_t shared_bytes() const { return sums_bytes + buffers * tile_bytes; }
};

using DepthwiseLaunch = void (*)(const Conv<int32_t> &p, const Depthwise &d, const void *x, const void *weights,
                                 void *y, cudaStream_t stream);

// A compiled kernel, to launch and to ask about; empty where there is none.
struct DepthwiseInstance {
  DepthwiseLaunch launch;
  const void *kernel;
};

// The instance for a filter's size, its stride, and a thread's outputs.
template <class T>
DepthwiseInstance by_filter(int n, int step, int columns, int rows);

} // namespace polyconv::cuda::shared
