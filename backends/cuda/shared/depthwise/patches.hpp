// patches.hpp - how cuda-shared/depthwise_patches shares a layer out among blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/machine.hpp"
#include "common/patches.hpp"
#include "depthwise/filters.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kPatchThreads = 256;
inline constexpr int kThreadPixels = 4; // that a thread sums side by side: a weight is loaded once for all

struct DepthwisePatches {
  Conv<int64_t> conv; // for the epilogue
  Slab x = {};
  const void *weights = nullptr; // raw ones, or f32 by [tap][channel]
  Filters filters = {};
  void *result = nullptr;
  Patches patches = {};
  int64_t result_image = 0; // elements from one image of the result to the next
  int32_t result_stride[3] = {};
  int32_t chunks = 0; // of 16 bytes, of a slice: a power of two
  int32_t vector = 0; // channels of a chunk
  int32_t slices = 0;
  int32_t row_channels = 0; // of a tap's weights
  int32_t shares = 0;       // blocks that share the patches of a slice
  int32_t plain = 0;        // 1: a bias and bounds at most, and chunks of the result can be stored at once
  float low = 0, high = 0;  // those bounds
  int32_t early = 0;        // 1: the device lets a kernel begin while what is ahead of it ends

  __host__ __device__ int32_t pitch() const { return chunks * 16; }
  __host__ __device__ int32_t stage_bytes() const { return patches.positions * pitch(); }
  // Between taps: raw weights come four channels and eight taps at a time, which must not be of the same banks.
  __host__ __device__ int32_t weights_pitch() const { return chunks * vector + (filters.raw != 0 ? 4 : 0); }
  __host__ __device__ int32_t weights_bytes() const { return patches.all_taps() * weights_pitch() * 4; }
  // Two stages, the slice's weights, tables, and a word a tap.
  int32_t shared_bytes() const {
    return 2 * stage_bytes() + weights_bytes() + patches.table_bytes() + patches.all_taps() * 4;
  }
};

struct DepthwiseLauncher {
  void (*pack)(const polyconv_layer &layer, const DepthwisePatches &p, const void *raw, float *packed,
               cudaStream_t stream);
  void (*prepare)();
  void (*launch)(const DepthwisePatches &p, cudaStream_t stream);
};
template <class T>
DepthwiseLauncher depthwise_launcher();

} // namespace polyconv::cuda::shared
