// wgmma.hpp - what the host knows of wgmma.cuh: tiles, their places in shared memory, and the launch.
//
// A tile is 7 x 7 results, or 14 x 14: one or two strips of 7 columns side by side. Its channels go in chunks of 128
// bytes, or of 64 where there are two strips, so that a warp's lanes are a pair of channels each of all strips.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h> // CUtensorMap

#include "common/numbers.hpp"
#include "mobile/mobile.hpp"

namespace polyconv::cuda::piped {

using mobile::Mobile;

inline constexpr int kStrip = 7; // columns
inline constexpr int kBands = 4; // of a tile's rows: a warp filters one of them, of a chunk
inline constexpr int kFetchRegisters = 24;
inline constexpr int kMostStages = 8; // of a ring
inline constexpr int kBarrierBytes = 5 * 8 * kMostStages;
inline constexpr int kResidualBytes = 64; // of a pixel's channels that lie together in shared memory

// A tile, and who works on it.
struct Shape {
  int step, strips;
  int columns; // result channels of a product, which has 64 rows
  int parts;   // products side by side that a warpgroup sums: of rows where there are two strips, else of columns
  int groups;  // warpgroups that multiply
  int teams;   // of kBands warps that filter

  __host__ __device__ constexpr int tile() const { return kStrip * strips; }
  __host__ __device__ constexpr int patch() const { return (tile() - 1) * step + 3; }
  __host__ __device__ constexpr int chunk() const { return 64 / strips; }
  __host__ __device__ constexpr int row_bytes() const { return chunk() * 2; }
  __host__ __device__ constexpr int patch_bytes() const { return patch() * patch() * row_bytes(); }
  __host__ __device__ constexpr int taps_at() const { return (patch_bytes() + 127) / 128 * 128; } // in a stage
  __host__ __device__ constexpr int taps_bytes() const { return 9 * row_bytes(); }
  __host__ __device__ constexpr int input_bytes() const {
    return (taps_at() + taps_bytes() + 127) / 128 * 128;
  }                                                                                                 // of a stage
  __host__ __device__ constexpr int rows() const { return strips == 2 ? 64 * parts * groups : 64; } // of all products
  __host__ __device__ constexpr int slices() const { return strips == 2 ? 1 : parts * groups; }     // of the results
  __host__ __device__ constexpr int results() const { return columns * slices(); }
  __host__ __device__ constexpr int box_rows() const { return results() > 256 ? results() / 2 : results(); }
  __host__ __device__ constexpr int filtered_bytes() const { return rows() * row_bytes(); }
  __host__ __device__ constexpr int weights_bytes() const { return results() * row_bytes(); }
  __host__ __device__ constexpr int product_bytes() const { return filtered_bytes() + weights_bytes(); } // of a stage
  // A tile of the residual: boxes of 32 channels, with rows for all that products have.
  __host__ __device__ constexpr int residual_boxes() const { return (results() + 31) / 32; }
  __host__ __device__ constexpr int residual_box_bytes() const { return rows() / 8 * kStrip * kResidualBytes; }
  __host__ __device__ constexpr int residual_bytes() const { return residual_boxes() * residual_box_bytes(); }
  __host__ __device__ constexpr int workers() const { return 4 * groups + kBands * teams; } // warps
  __host__ __device__ constexpr int threads() const { return 32 * (workers() + 4); }        // a last warpgroup fetches
  // Registers of a thread, of the 65536: whole eights of each warpgroup's equal share are dealt out again.
  __host__ __device__ constexpr int dealt() const { return 65536 / threads() / 8 * 8 * (threads() / 128); }
  __host__ __device__ constexpr int filter_registers() const { return threads() == 512 ? 120 : groups == 1 ? 104 : 88; }
  __host__ __device__ constexpr int multiply_registers() const {
    return (dealt() - kFetchRegisters - teams * filter_registers()) / groups / 8 * 8;
  }
};

// step, strips, columns, parts, groups, teams; results ascend.
#define POLYCONV_PAIR_SHAPES(shape)                                                                       \
  shape(1, 2, 16, 4, 1, 3) shape(1, 2, 32, 4, 1, 3) shape(1, 2, 64, 4, 1, 2) shape(1, 2, 96, 4, 1, 2)     \
      shape(1, 1, 64, 1, 1, 3) shape(1, 1, 80, 2, 1, 3) shape(1, 1, 80, 2, 2, 2) shape(2, 1, 32, 1, 1, 3) \
          shape(2, 1, 64, 1, 1, 3) shape(2, 1, 80, 2, 1, 3) shape(2, 2, 32, 4, 1, 3)

inline constexpr Shape kShapes[] = {
#define POLYCONV_PAIR_SHAPE(...) {__VA_ARGS__},
    POLYCONV_PAIR_SHAPES(POLYCONV_PAIR_SHAPE)
#undef POLYCONV_PAIR_SHAPE
};
inline constexpr int kShapeCount = sizeof kShapes / sizeof *kShapes;

struct Pair {
  CUtensorMap input, taps, weights, residual; // first: they are aligned to 64 bytes
  Mobile m;                                   // layers and tensors; its tiles are of Shape, `chunks` of its channels
  int32_t chunks = 0, tiles = 0;              // of all images
  // Stages of both rings, multiples of teams(): of a stage, a team then sees every phase, which parity alone tells.
  int32_t inputs = 0, products = 0;
  int32_t cluster = 1; // blocks that share what they fetch of the last weights
};

using Kernel = void (*)(Pair);
template <class T>
Kernel kernel_of(int shape);

// Packed weights: nine rows of channels; a row of channels for each result.
int64_t taps_bytes(int64_t channels);
int64_t rows_bytes(int64_t channels, int64_t results);
void pack_taps(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream);
void pack_rows(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream);

// The whole run where a pointer is not aligned as tensor maps or vectors need it.
void run_unaligned(const Mobile &m, int32_t type, cudaStream_t stream);

} // namespace polyconv::cuda::piped
