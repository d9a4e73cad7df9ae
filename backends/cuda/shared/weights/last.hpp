// last.hpp - the gradient of weights of depthwise layers, channels last: what the host knows of it. A lane has two
// neighbouring channels and sums, over the outputs of its units, the products of a turn: some taps of the window, held
// in registers. A unit is a strip of columns over a band of rows. Blocks share channels (slices), taps (turns) and
// units (splits); a second kernel adds what splits have summed, in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "common/conv.cuh"

namespace polyconv::cuda::shared {

inline constexpr int kLastThreads = 128, kLastWarps = kLastThreads / 32;
inline constexpr int kTurnTaps = 8; // of a turn that takes any window
inline constexpr int kStrip = 4;    // columns of a unit

struct LastSums {
  View<int64_t> weights; // what is written
  void *result = nullptr;
  int32_t result_type = 0;
  const void *x = nullptr, *dy = nullptr; // of their first elements
  int64_t x_image = 0, dy_image = 0;      // elements from one image to the next
  int32_t x_stride[3] = {}, dy_stride[3] = {};
  int32_t in[3] = {}, out[3] = {}, taps[3] = {}, stride[3] = {}, dilation[3] = {}, pad[3] = {};
  int32_t channels = 0, lanes = 0;         // lanes: that lie side by side along the channels, of a warp's 32
  int32_t slices = 0;                      // of 2 * lanes channels
  int32_t turns = 0;                       // planes of taps, groups of lines of a plane, groups of columns of a line
  int32_t strips = 0, band = 0, bands = 0; // of a row; rows of a unit; units over the height of an image
  int32_t units = 0, splits = 0;           // of all
  int32_t pairs = 0;                       // two channels are one word in memory
  int32_t early = 0;                       // begins while what is ahead of it in the stream ends
  float *pieces = nullptr;                 // [split][tap][channel of all slices]

  __host__ __device__ int32_t all_taps() const { return taps[0] * taps[1] * taps[2]; }
  __host__ __device__ int32_t row_channels() const { return slices * lanes * 2; }
};

// Windows that are compiled for: `taps` neighbouring columns, `stride` both ways, no dilation; `lines` of taps a turn.
// Wider windows take several turns for their columns, and leave out what is beyond the last. What has none of these
// goes tap by tap.
struct LastColumns {
  int taps, stride, lines;
};
inline constexpr LastColumns kLastColumns[] = {{3, 1, 3}, {3, 2, 3}, {5, 1, 5}, {5, 2, 5}, {7, 1, 4}, {7, 2, 3}};
inline constexpr int kLastColumnsCount = sizeof kLastColumns / sizeof *kLastColumns;

// What such an instance keeps in registers, for elements of `bytes`.
struct LastRegisters {
  LastColumns columns;
  int bytes;

  constexpr int inputs() const { return (kStrip - 1) * columns.stride + columns.taps; } // of a line of x
  // Rows of dy that a line of x meets; lines of x that a row of dy is the first to meet.
  constexpr int rows() const { return (columns.lines + columns.stride - 1) / columns.stride; }
  constexpr int phases() const { return columns.stride < columns.lines ? columns.stride : columns.lines; }
  constexpr int all() const {
    const int values = columns.lines * columns.taps + rows() * kStrip + phases() * inputs();
    return 2 * values + (phases() * inputs() + kStrip) * bytes / 2 + (bytes == 4 ? 48 : 34);
  }
  // Blocks that a multiprocessor runs at once.
  constexpr int blocks() const {
    const int fit = 65536 / kLastThreads / ((all() + 7) / 8 * 8);
    return fit < 5 ? fit : 5;
  }
};
inline constexpr int kTapBlocks = 4; // likewise, of what goes tap by tap

// By its place in kLastColumns, or -1: tap by tap.
using LastLauncher = void (*)(const LastSums &sums, cudaStream_t stream);
template <class T>
LastLauncher last_launcher(int columns);

} // namespace polyconv::cuda::shared
