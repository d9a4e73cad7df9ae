// windows.hpp - how cuda-shared/windows_data cuts the gradient of an input into blocks.
//
// Input row i = Step q + e - pad, residue e of place q, collects from rows q, q - 1, ... of the output's gradient
// through taps e, e + Step, ... So all residues of a place read the same window of the gradient. A thread computes the
// inputs at some places of one channel: kAcross side by side, `down` below each other. A team of threads has places,
// images and channels; the teams of a block share out the filters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/divider.cuh"
#include "common/numbers.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kWindowThreads = 256; // of a block at most

// Of a thread. Both make four inputs side by side.
__host__ __device__ constexpr int places_across(int step) {
  return step == 1 ? 4 : 2;
}
__host__ __device__ constexpr int places_down(int step, bool tall) {
  return step == 1 ? (tall ? 7 : 4) : (tall ? 4 : 3);
}
// Rows of the gradient that reach a place.
__host__ __device__ constexpr int reach_of(int taps, int step) {
  return (taps + step - 1) / step;
}
// What a thread reads of a row of the gradient, in whole vectors of as many elements as it has places.
__host__ __device__ constexpr int window_across(int taps, int step) {
  return (2 * places_across(step) + reach_of(taps, step) - 2) / places_across(step) * places_across(step);
}
// How far the window begins before the first column that reaches a place: what makes the vectors whole, so that rows of
// the gradient begin at a multiple of 4, or 2, elements of what is staged.
__host__ __device__ constexpr int window_shift(int taps, int step) {
  return window_across(taps, step) - places_across(step) - reach_of(taps, step) + 1;
}
// What a filter's channel takes in shared memory: whole vectors.
__host__ __device__ constexpr int padded_taps(int taps) {
  return (taps * taps + 3) / 4 * 4;
}

struct Windows {
  int32_t first_row, first_column; // places of input row 0 and column 0
  int32_t down, across;            // threads of a block along either axis
  int32_t images, channels;        // of a block
  int32_t team, teams;             // threads of a team
  int32_t tiles_h, tiles_w, sets;  // blocks along the axes and the channels of a group
  int32_t rows, pitch, plane;      // what is staged of a plane of the gradient
  int32_t filters;                 // of a group
  int32_t chunk, buffer, buffers;  // filters staged together; floats of a buffer; 1 where one holds all filters
  int32_t copies;                  // elements of the gradient that are copied at once: 4, 2 or 1
  int32_t vectors;                 // inputs that are stored at once: 4, 2 or 1; 0: each has an epilogue
  int32_t shared_bytes;
  int64_t blocks;
  Divider by_channels;

  int32_t threads() const { return team * teams; }
};

// The kernels of a filter's size and stride, where they were compiled.
struct WindowsInstance {
  void (*prepare)(int32_t bytes); // lets it use so much shared memory
  void (*launch)(const Conv<int32_t> &p, const Windows &s, const float *dy, const float *w, void *x,
                 cudaStream_t stream);
};
template <int taps>
WindowsInstance find_windows(int64_t step, bool tall);

} // namespace polyconv::cuda::shared
