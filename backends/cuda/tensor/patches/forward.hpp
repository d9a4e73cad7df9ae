// forward.hpp - what the host knows of the forward product by patches: y[pixel][k] = sum over taps and channels of
// x[window of pixel, tap][c] * w[k][tap][c], with mma.sync. A block holds a patch's windows in shared memory, a slice
// of channels at a time, so that x is read once whatever the number of taps: what layers of few filters wait for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "common/conv.cuh"
#include "common/machine.hpp"
#include "common/patches.hpp"

namespace polyconv::cuda::tensor {

inline constexpr int kForwardWarps = 8, kForwardThreads = 32 * kForwardWarps;
inline constexpr int kWarpSteps = 2; // of 16 pixels, whose sums a warp holds
inline constexpr int kForwardPixels = 16 * kForwardWarps * kWarpSteps;

// A slice: eights of filters, and channels that are in shared memory at a time.
struct ForwardShape {
  int32_t eights, channels;
};
inline constexpr ForwardShape kForwardShapes[] = {{1, 64}, {1, 32}, {1, 16}, {2, 64}, {2, 32}, {2, 16}};
inline constexpr int kMostFilters = 16; // of a group: with more, others read x less often than they multiply
inline constexpr int kForwardShapeCount = sizeof kForwardShapes / sizeof *kForwardShapes;

struct ForwardProduct {
  Conv<int64_t> conv; // for the epilogue
  Slab x = {};
  const void *weights = nullptr; // [group][slice of filters][slice of channels][tap][filter][channel], filled up
  void *result = nullptr;
  Patches patches = {};
  int32_t filters = 0, channels = 0; // of a slice
  int32_t group_filters = 0, group_channels = 0, groups = 0;
  int32_t filter_slices = 0, channel_slices = 0; // of a group
  int32_t shares = 0;                            // blocks that share the patches of a slice of filters
  int32_t early = 0;                             // 1: the device lets a kernel begin while what is ahead of it ends

  __host__ __device__ int32_t pitch() const {
    return channels * 2 + 16;
  } // an odd number of 16 bytes: rows of
    // neighbours lie in other banks
  __host__ __device__ int32_t rows() const { return patches.all_taps() * filters; } // of a slice's weights
  __host__ __device__ int32_t x_bytes() const { return patches.positions * pitch(); }
  __host__ __device__ int32_t stage_bytes() const { return x_bytes() + rows() * pitch(); }
  // Two stages, tables, and a word a tap.
  int32_t shared_bytes() const { return 2 * stage_bytes() + patches.table_bytes() + patches.all_taps() * 4; }
  int64_t slice_weights() const { return int64_t{rows()} * channels; } // elements
  int64_t packed_bytes() const { return slice_weights() * filter_slices * channel_slices * groups * 2; }
};

// The geometry of a layer in a shape, with the patches that take the least time; no pixels where none fits.
ForwardProduct make_forward(const polyconv_layer &layer, const ForwardShape &shape);
double forward_us(const polyconv_layer &layer, const ForwardProduct &product);
void pack_forward(const polyconv_layer &layer, const ForwardProduct &product, const void *raw, void *packed,
                  cudaStream_t stream);

struct ForwardLauncher {
  void (*prepare)();
  void (*launch)(const ForwardProduct &product, cudaStream_t stream);
};
ForwardLauncher forward_f16(int eights);
ForwardLauncher forward_bf16(int eights);

} // namespace polyconv::cuda::tensor
