// pairs.hpp - the gradient of weights where channels and filters make enough pairs for a block's threads, as
// the host plans it. A thread has a channel, a few filters and some rows of the window; a team of threads has all of a
// block's, and its lanes read the same few addresses of shared memory at a time. Teams share out the rows of outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weights/weights.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kPairThreads = 192; // of a block at most

struct PairsWeights {
  int32_t channels, filters, filter_lanes; // of a block; threads side by side have neighbouring filters
  int32_t images, rows;                    // of a chunk: rows of outputs
  int32_t input_rows, input_pitch, input_plane;
  int32_t output_pitch, output_plane;
  int32_t buffer;                          // floats of a chunk
  int32_t channel_sets, filter_sets, sets; // of a group, and all of them
  int32_t row_chunks, chunks;              // along the rows of an image, and all of them
  int32_t parts;                           // blocks that share the chunks of a set
  int32_t team, teams;                     // threads of a team
  float *partials;                         // [set][part][team][warp][sum][lane]

  __host__ __device__ int32_t output_begin() const { return channels * input_plane; }
  int32_t shared_bytes() const { return 2 * 4 * buffer; }
};

// The kernels of a filter's size, stride, and filters a thread.
struct PairsInstance {
  void (*prepare)(int32_t bytes); // lets it use so much shared memory
  void (*launch)(const Conv<int32_t> &p, const PairsWeights &r, const float *x, const float *dy, void *w,
                 cudaStream_t stream);
};
template <int taps>
PairsInstance find_pairs(int64_t step, int filters);

} // namespace polyconv::cuda::shared
