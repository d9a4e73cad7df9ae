// few.hpp - what the host knows of cuda-shared/few. A warp has tiles of some times 32 pixels, one after the
// other, and some filters; a lane has pixels that are 32 apart, and all of these filters in registers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/divider.cuh"
#include "common/numbers.hpp"
#include "common/places.cuh"

namespace polyconv::cuda::shared {

// Sums of a thread.
struct FewShape {
  int32_t pixels, filters;
};
inline constexpr FewShape kFewShapes[] = {{4, 16}, {8, 2}};

inline constexpr int kFewWarps = 4;            // of a block, at most
inline constexpr int kFewAhead = 1;            // taps whose inputs are under way while one is multiplied
inline constexpr int kFewTurn = kFewAhead + 1; // taps of a turn of the loop
inline constexpr int64_t kFewSharedBytes = 48 << 10;

// A tap of a channel: how far its input lies from the window's begin, its bits (common/places.cuh), and how far its
// weights lie from those of the first.
struct alignas(16) FewTap {
  int32_t distance;
  uint32_t places;
  int32_t weights;
};

struct Few {
  PlaceAxes axes;
  FewShape shape = {};
  int32_t depth = 0, taps = 0;     // channels x taps, and rounded up to whole turns
  int32_t ways = 1, spots = 1;     // warps of a block: along the filters, along the pixels
  int32_t pixels = 0, tiles = 0;   // of the batch; of a block's warps together
  int32_t blocks = 0, turns_k = 0; // along the tiles, and along the filters
  int32_t plain = 0;               // a bias and a relu at most
  Divider by_image, by_plane, by_line;

  __host__ __device__ int32_t filters() const { return ways * shape.filters; } // of a block
  int32_t threads() const { return 32 * ways * spots; }
  int64_t shared_bytes() const {
    return int64_t{taps + kFewAhead} * static_cast<int64_t>(sizeof(FewTap)) +
           int64_t{taps + 1} * filters() * 4; // and biases
  }
};

void launch_few(const Conv<int32_t> &p, const Few &s, const float *x, const float *weights, float *y,
                cudaStream_t stream);

} // namespace polyconv::cuda::shared
