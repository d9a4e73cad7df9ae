// weights.hpp - what the gradients of weights in cuda-shared have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kStrip = 4; // outputs side by side that a thread takes at once

// Rows of a window that a thread sums: as many as registers hold.
__host__ __device__ constexpr int rows_of_thread(int taps) {
  return taps == 7 ? 4 : taps;
}

// Whether a layer is the gradient of weights of square windows whose rows lie in memory as rows; else rejects in words.
// `even`: windows of 4x4 too; `least`: of one element, and of 2x2.
bool takes_windows(const polyconv_request &request, sdk::Offer &offer, bool even = false, bool least = false);

// Whether strips of the output's gradient can be read 16 bytes at once.
bool has_vectors(const polyconv_tensor &gradient, const void *pointer);

// Adds the partial sums, [weight][part], of `count` weights and stores the gradient.
void add_parts(const Conv<int32_t> &p, const float *partials, int32_t parts, int32_t count, void *w,
               cudaStream_t stream);

} // namespace polyconv::cuda::shared
