// taps.hpp - how cuda-shared/depthwise_taps and its gradient of data share a layer out among threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divider.cuh"
#include "depthwise/filters.hpp"
#include "taps/axes.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kTapThreads = 128;
inline constexpr int kTapColumns =
    4; // results of a thread: those of a row that meet the same taps, one after the other

// A thread has some channels of a strip of columns; its neighbours have the next channels of a set, then strips, rows,
// sets of channels, planes, images. One set has all channels, unless blocks stage raw filters: of few channels. Columns
// of a strip are `phases` apart; strips of the other residues come between.
struct DepthwiseTaps {
  TapAxis axis[3];
  int32_t offset, image; // of what is read
  int32_t pitch;         // elements from a tap's weights to the next one's
  int32_t phases;        // of columns
  bool close;            // what a tap of a row reads, its neighbour reads for the next result
  Divider lanes, strips, rows, sets, planes, residues; // `lanes`: chunks of channels of a set
  Filters filters;
  int32_t threads;
  Bounds bounds; // of results that are stored as vectors
};

using TapsLaunch = void (*)(const Conv<int32_t> &p, const DepthwiseTaps &s, const void *x, const void *weights, void *y,
                            cudaStream_t stream);
// How sums end: with a bias and bounds at most between sum and result, which is stored as vectors of the type that is
// read; likewise, of raw filters; or in any other way.
enum class TapsEnd { kPlain, kPlainOfRaw, kAny };
// For so many channels of a thread.
template <class T>
TapsLaunch find_taps(int channels, TapsEnd end);

inline constexpr const char *kTapNames[] = {"8", "4", "2", "1"}; // channels of a thread
// Forward or the gradient of data: what the two kernels are made of.
bool supports_taps(int32_t direction, const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create_taps(const polyconv_request &request, int32_t config);

} // namespace polyconv::cuda::shared
