// fma.hpp - what the host knows of fma.cuh: tiles, their places in shared memory, and the launch.
//
// A tile is rows x columns of the result, of one image or of several small ones. Its channels go in chunks of 64 bytes:
// while one is filtered and multiplied, the next is on its way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divider.cuh"
#include "common/numbers.hpp"
#include "mobile/mobile.hpp"

namespace polyconv::cuda::single {

using mobile::Mobile;

inline constexpr int kChunk = 16, kQuads = kChunk / 4; // channels, and groups of four of them
inline constexpr int kPitch = kChunk + 4;              // floats of a position: strips begin in different banks
inline constexpr int kStripRows = 2;

// A tile, and how threads share its sums: a warp is 8 threads of pixels by 4 of result channels.
struct Shape {
  int step, along, across; // the depthwise stride; warps
  int pixels, channels;    // of a thread
  int together;            // blocks that share a multiprocessor, at least
  // Microseconds of a chunk, of a block that has a multiprocessor of an H200 for itself and of one beside others.
  double alone, beside;

  __host__ __device__ constexpr int threads() const { return 32 * along * across; }
  __host__ __device__ constexpr int tile() const { return along * 8 * pixels; }
  __host__ __device__ constexpr int results() const { return across * 4 * channels; }
  __host__ __device__ constexpr int strip() const { return step == 1 ? 4 : 2; } // columns that a thread filters
  __host__ __device__ constexpr int vector() const { return channels % 4 == 0 ? 4 : 2; }
  __host__ __device__ constexpr int weights() const { return kChunk * (results() + 9); } // floats of a chunk
};

inline constexpr Shape kShapes[] = {
    {1, 4, 1, 8, 4, 3, 1.55, 1.20}, {1, 4, 1, 8, 6, 3, 1.75, 1.40}, {1, 4, 1, 8, 8, 3, 2.00, 1.60},
    {1, 2, 2, 8, 8, 3, 1.90, 1.45}, {1, 2, 3, 8, 8, 2, 2.40, 1.65}, {1, 1, 2, 8, 8, 4, 2.15, 0.95},
    {1, 1, 5, 8, 8, 2, 2.50, 1.70}, {2, 4, 1, 4, 6, 2, 1.50, 1.25}, {2, 4, 1, 4, 8, 2, 1.75, 1.75},
    {2, 2, 2, 4, 8, 3, 1.50, 1.00}, {2, 1, 5, 8, 8, 2, 2.50, 1.90}};
inline constexpr int kShapeCount = sizeof kShapes / sizeof *kShapes;

// Mobile's `units` are the rows and columns of a tile, `vectors_in` whether 16 bytes of inputs and of weights can be
// moved at once, `vectors_out` the same of results and residuals.
struct Pair {
  Mobile m;
  Divider strips, bands, columns, rows;  // strips of a row, pairs of rows of an image; a tile's columns and rows
  int32_t tasks = 0;                     // strips x pairs of rows x images x quads
  int32_t taps_row = 0, weights_row = 0; // floats of a row of packed weights
};

// Bytes of shared memory of a block.
int64_t shared_bytes(const Shape &s, const Mobile &m);

using Kernel = void (*)(Pair);
Kernel find_kernel(int shape);

// Packed weights: nine rows of channels; a row of results for each channel. Rows are whole 16 bytes.
int64_t taps_bytes(int64_t channels);
int64_t rows_bytes(int64_t channels, int64_t results);
void pack_taps(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream);
void pack_rows(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream);

} // namespace polyconv::cuda::single
