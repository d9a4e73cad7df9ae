// planes.hpp - how cuda-shared/depthwise_planes and its gradient of data share a layer out among threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divider.cuh"
#include "taps/axes.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kPlaneThreads = 128;

// A thread has some results of a column that meet the same taps, `phases` apart; its neighbours have the next columns,
// then sets of rows, planes along the third axis, channels, images.
struct DepthwisePlanes {
  TapAxis axis[3];
  int32_t offset, image, channel; // of what is read
  int32_t phases;                 // of rows
  int32_t whole; // 1: warps keep to a set of rows, and leave questions out where all of these are there
  Divider columns, sets, planes, channels, residues, multiplier;
  int32_t threads;
  Bounds bounds; // of results that are stored at once
};

using PlanesLaunch = void (*)(const Conv<int32_t> &p, const DepthwisePlanes &s, const void *x, const void *weights,
                              void *y, cudaStream_t stream);
// For so many rows of a thread: `plain`, a bias and bounds at most are between sum and result, of the type that is
// read.
template <class T>
PlanesLaunch find_planes(int rows, bool plain);

inline constexpr const char *kPlaneNames[] = {"4", "2", "1"}; // rows of a thread
// Forward or the gradient of data: what the two kernels are made of.
bool supports_planes(int32_t direction, const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create_planes(const polyconv_request &request, int32_t config);

} // namespace polyconv::cuda::shared
