// last.hpp - how cuda-shared/depthwise_last shares a layer out among threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/divider.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "depthwise/filters.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kMarchThreads = 128;

// What is compiled in, beside the type.
struct MarchShape {
  int n, step;           // filter and stride
  int channels, columns; // of a thread
  bool plain;            // bias and bounds at most between sum and result, which has the type of the input
};

// How many times `step` rows of inputs are on their way: what is worth its shared memory.
constexpr int march_ahead(int step, int channels, int columns, int item) {
  return step == 1 || channels * columns * item <= 16 ? 2 : 1;
}

// A thread's neighbours have the next channels of a set, then the next strip of columns, set of channels, band of rows,
// image.
struct March {
  Divider lanes, strips, sets, bands; // of a set, of a row, of a band, of an image
  int32_t rows;                       // of a band
  int32_t threads;
  float low, high;   // bounds of a plain result
  int32_t bounded;   // a bias, or one of the bounds
  int32_t activates; // a bias and an activation at most
  int32_t vectors;   // the result is vectors of the input's type
  Filters filters;   // raw where the result is plain, at most
};

using MarchLaunch = void (*)(const Conv<int32_t> &p, const March &m, const void *x, const void *weights, void *y,
                             cudaStream_t stream);

// A compiled kernel, to launch and to ask about; empty where there is none.
struct MarchInstance {
  MarchLaunch launch;
  const void *kernel;
};

template <class T>
MarchInstance march_by_filter(const MarchShape &shape);

} // namespace polyconv::cuda::shared
