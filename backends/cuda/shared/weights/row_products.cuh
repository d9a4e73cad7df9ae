// row_products.cuh - what a thread sums of the gradient of weights: some filters, some rows of the window, all its
// columns, over strips of four outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weights/weights.hpp"

namespace polyconv::cuda::shared {

template <int Taps, int Step, int Rows, int Filters>
struct RowProducts {
  static constexpr int kVectors = ((kStrip - 1) * Step + Taps + 3) / 4; // of 4 inputs, under a strip
  static constexpr int kCount = Filters * Rows * Taps;

  float sums[Filters][Rows][Taps] = {};

  // Row s of the window for a strip: its inputs, and the gradients of the outputs, of which `there` are there.
  __device__ void multiply(int s, const float *from, const float4 (&y)[Filters], int32_t there) {
    float v[4 * kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const float4 four = *reinterpret_cast<const float4 *>(from + 4 * i);
      v[4 * i] = four.x, v[4 * i + 1] = four.y, v[4 * i + 2] = four.z, v[4 * i + 3] = four.w;
    }
#pragma unroll
    for (int j = 0; j < kStrip; ++j) {
      if (j >= there) break; // no product with what is not there, which may be NaN
#pragma unroll
      for (int k = 0; k < Filters; ++k) {
        const float g = j == 0 ? y[k].x : j == 1 ? y[k].y : j == 2 ? y[k].z : y[k].w;
#pragma unroll
        for (int c = 0; c < Taps; ++c) sums[k][s][c] = fmaf(g, v[j * Step + c], sums[k][s][c]);
      }
    }
  }
};

} // namespace polyconv::cuda::shared
