// cells.hpp - the gradient of the input of depthwise layers at stride 2, channels last, as the host sees it. A cell is
// what one step of the stride makes of the input, 2 x 2 pixels: those that taps of even and odd rows and columns reach.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/divider.cuh"
#include "depthwise/filters.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kCellThreads = 128;
inline constexpr int kCellColumns = 2; // cells side by side of a thread

// A thread has some channels of a strip of cells and goes down a stretch of rows of them; its neighbours have the next
// channels of a set, then strips, stretches, sets of channels, images. One set has all channels, unless blocks stage
// raw filters: of few channels.
struct Cells {
  Divider lanes, strips, stretches, sets; // `lanes`: chunks of channels of a set
  int32_t rows;                           // of a stretch
  int32_t first[2];                       // row and column of the first cell
  int32_t end;                            // behind the last row
  int32_t threads;
  Filters filters;
};

using CellsLaunch = void (*)(const Conv<int32_t> &p, const Cells &cells, const void *y, const void *weights, void *x,
                             cudaStream_t stream);
// For windows of n x n and so many channels of a thread, which store the sums as they are where these are several; NULL
// where there is none.
template <class T>
CellsLaunch find_cells(int n, int channels);

} // namespace polyconv::cuda::shared
