// rows.hpp - the gradient of weights of few channels, as the host plans it. A block
// holds some rows of some images in shared memory: planes of the input and of the output's gradient. A thread walks
// over strips of four outputs, and sums the products of a few filters with all taps of some rows of the window.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weights/weights.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kRowsThreads = 128, kRowsWarps = kRowsThreads / 32;
inline constexpr int kFilters = 4; // of a thread

struct RowsWeights {
  int32_t channels, filters; // of a block: planes of the input, planes of the gradient
  int32_t images, rows;      // of a chunk: rows of outputs
  int32_t input_rows, input_pitch, output_pitch;
  int32_t channel_sets, filter_sets, sets; // of a group, and all of them
  int32_t row_chunks, chunks;              // along the rows of an image, and all of them
  int32_t parts;                           // blocks that share the chunks of a set
  int32_t vectors;                         // 16 bytes of a row of the gradient are read at once
  float *partials;                         // [weight][part]

  __host__ __device__ int32_t input_plane() const { return images * input_rows * input_pitch; }
  __host__ __device__ int32_t output_plane() const { return images * rows * output_pitch; }
  int32_t shared_bytes() const { return 4 * (channels * input_plane() + filters * output_plane()); }
};

// The kernels of a type; NULL where there is none.
struct RowsInstance {
  void (*prepare)(); // lets it use its shared memory
  void (*launch)(const Conv<int32_t> &p, const RowsWeights &r, const void *x, const void *dy, cudaStream_t stream);
};
template <class T>
RowsInstance find_rows(int taps, int stride);

} // namespace polyconv::cuda::shared
