// taps.hpp - how cuda-shared/depthwise_taps shares a layer out among threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/divider.cuh"

namespace polyconv::cuda::shared {

inline constexpr int kTapThreads = 128;
inline constexpr int kTapColumns = 4; // outputs side by side of a thread

// A thread has some channels of a strip of columns; its neighbours have the next channels, then strips, rows, planes,
// images.
struct DepthwiseTaps {
  Divider chunks, strips, rows, planes;
  int32_t threads = 0;
  float low = 0, high = 0; // bounds of results that are stored as vectors
};

using TapsLaunch = void (*)(const Conv<int32_t> &p, const DepthwiseTaps &s, const void *x, const void *weights, void *y,
                            cudaStream_t stream);
// For so many channels of a thread: `plain`, a bias and bounds at most are between sum and result, which is stored as
// vectors of the input's type.
TapsLaunch find_taps_f32(int channels, bool plain);
TapsLaunch find_taps_f16(int channels, bool plain);
TapsLaunch find_taps_bf16(int channels, bool plain);

} // namespace polyconv::cuda::shared
