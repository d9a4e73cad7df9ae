// patch.hpp - the gradient of weights of depthwise layers by patches: what the host knows of it. A block has a slice of
// channels and goes from patch to patch, the next on its way into shared memory while one is summed. A warp has a strip
// of columns of the patch, and a turn: some taps of the window, held in registers. Splits share the patches; a second
// kernel adds what they have summed, in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weights/last.hpp"

namespace polyconv::cuda::shared {

// Windows that are compiled for: `taps` neighbouring columns and `lines` of them a turn, at `stride` both ways.
inline constexpr LastColumns kPatchColumns[] = {{3, 1, 3}, {3, 2, 3}, {5, 1, 5}, {5, 2, 5}, {7, 1, 4}, {7, 2, 4}};
inline constexpr int kPatchColumnsCount = sizeof kPatchColumns / sizeof *kPatchColumns;

// Warps that a multiprocessor has at once, of one block or of several: as many as have the registers for it.
constexpr int patch_warps(int taps) {
  return taps == 3 ? 20 : 16;
}

// How elements come into shared memory: 16 bytes at once, the two channels of a lane, or each by itself.
enum class PatchLoads : int32_t { kChunks, kPairs, kElements };

struct PatchSums {
  LastSums sums; // of which `lanes`: a warp's 32 are so many channels of 32 / lanes images side by side
  int64_t x_channel = 0, dy_channel = 0; // elements from one channel to the next
  PatchLoads loads = PatchLoads::kElements;
  int32_t images = 0, across = 0;    // across: turns for the columns of a line
  int32_t strips = 0, sets = 0;      // of a patch: strips side by side; sets of 32 / lanes images
  int32_t first_line = 0, steps = 0; // of x, of an image: `stride` lines a step
  int32_t halo = 0;                  // rows of dy before the one that the first line of taps meets first
  int32_t x_rows = 0, x_columns = 0, y_rows = 0;
  int32_t tiles = 0;             // patches side by side in an image
  int32_t patches = 0, each = 0; // of all images; of a split

  __host__ __device__ int32_t warps() const { return sums.turns * strips * sets; }
  __host__ __device__ int32_t y_columns() const { return strips * kStrip; }
  // Pixels of 32 lanes: of x, and of both.
  __host__ __device__ int32_t x_pixels() const { return sets * x_rows * x_columns; }
  __host__ __device__ int32_t pixels() const { return x_pixels() + sets * y_rows * y_columns(); }
};

// By its place in kPatchColumns.
struct PatchLauncher {
  void (*prepare)();
  void (*launch)(const PatchSums &p, int shared_bytes, cudaStream_t stream);
};
template <class T>
PatchLauncher patch_launcher(int columns);

} // namespace polyconv::cuda::shared
