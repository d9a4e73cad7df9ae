// pointwise.hpp - the geometry of cuda-tensor/pointwise: a small matrix of weights times a stream of pixels.
//
// A warp takes 32 pixels at a time, a strip: their channels are copied into stages of its own, so that strips are under
// way while one is multiplied, 32 output channels after the other. Warps share nothing but the weights, which stay in
// shared memory in blocks of k as mma packs them, and never wait for one another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv::cuda::tensor {

struct Pointwise {
  const void *input, *weights, *bias, *residual; // bias, residual: NULL where there is none
  void *result;
  int64_t pixels;
  int64_t input_row, result_row, residual_row; // elements from one pixel to the next
  int32_t channels, results;
  int32_t aligned; // pointers, to 16 bytes
  float low, high, residual_scale;

  static constexpr int kStrip = 32;          // pixels
  static constexpr int kChunk = 32;          // output channels
  static constexpr int kStagedRow = 64 + 16; // bytes of a pixel on its way out: eight rows lie in all banks
  static constexpr int kMostWarps = 16;      // of a block, which has a multiprocessor for itself

  __host__ __device__ int32_t blocks() const { return (channels + 31) / 32; } // of k, 64 bytes each
  __host__ __device__ int32_t rows() const { return (results + kChunk - 1) / kChunk * kChunk; }
  __host__ __device__ int32_t packed_rows() const { return (results + 7) / 8 * 8; } // of weights, as mma packs them
  // So few that the pixels of a result are no whole vectors, and a lane stores one.
  __host__ __device__ bool few() const { return results < 8; }
  __host__ __device__ int64_t strips() const { return (pixels + kStrip - 1) / kStrip; }
  __host__ __device__ int32_t weights_bytes() const { return blocks() * rows() * 64; }
  __host__ __device__ int32_t stage_bytes() const { return blocks() * kStrip * 64; }
  __host__ __device__ int32_t warp_bytes(int stages) const { return stages * stage_bytes() + kStrip * kStagedRow; }
  __host__ __device__ int32_t shared_bytes(int warps, int stages) const {
    return weights_bytes() + rows() * 4 + warps * warp_bytes(stages);
  }
};

} // namespace polyconv::cuda::tensor
