// exact.cuh - one output of a layer from its definition: what kernels whose weights have zeros beside them fall
// back on where an infinity met such a zero.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/values.cuh"
#include "few/few.hpp"

namespace polyconv::cuda::few {

// Of layers without dilation.
template <class T>
__device__ inline float exact_result(const Shape &s, const Pointers &p, int32_t image, int32_t k, int32_t row,
                                     int32_t column) {
  const T *const x = static_cast<const T *>(p.x) + image * s.x_image;
  const T *w = static_cast<const T *>(p.exact) + int64_t{k} * s.channels * s.taps_h * s.taps_w;
  float sum = 0;
  for (int32_t c = 0; c < s.channels; ++c)
    for (int32_t tap_h = 0; tap_h < s.taps_h; ++tap_h)
#pragma unroll 1
      for (int32_t tap_w = 0; tap_w < s.taps_w; ++tap_w, ++w) {
        const int32_t h = row * s.step_h - s.pad_h + tap_h, at = column * s.step_w - s.pad_w + tap_w;
        const bool inside = h >= 0 && h < s.input_h && at >= 0 && at < s.input_w;
        sum = fmaf(inside ? value(x[c * s.x_plane + h * s.x_row + at * s.x_column]) : 0.0f, value(*w), sum);
      }
  if (p.bias != nullptr) sum = add(sum, p.bias[k]);
  return s.relu && sum < 0 ? 0.0f : sum;
}

} // namespace polyconv::cuda::few
