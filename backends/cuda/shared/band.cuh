// band.cuh - stretches of rows of several planes, copied into shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/ptx/async.cuh"

namespace polyconv::cuda::shared {

// What of a tensor; columns lie inside, rows need not.
struct Band {
  int32_t image, channel, row, column;     // the first ones
  int32_t images, channels, rows, columns; // how many
};
// Where to: from row to row, from image to image, from channel to channel.
struct BandSteps {
  int32_t row, image, channel;
};

// A thread keeps to a column, and asks once a row, not once a channel, where that lies. Rows outside are `padding`.
// Width: elements copied at once; columns, steps and strides are then multiples of it.
template <int Width>
__device__ inline void copy_band(const View<int32_t> &t, const float *from, const Band &b, float *to,
                                 const BandSteps &step, float padding) {
  const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
  const int32_t side = min(b.columns / Width, threads), stride = t.stride[1], height = t.size[3];
  if (side <= 0 || b.rows <= 0) return;
  const int32_t rows_on = threads / side, begin = thread / side;
  if (begin >= rows_on) return;
  from += t.at(b.image, b.channel, 0, b.row, b.column);
  for (int32_t column = thread % side * Width; column < b.columns; column += side * Width)
    for (int32_t row = begin, image = 0;; row += rows_on) {
      for (; row >= b.rows; row -= b.rows) ++image;
      if (image >= b.images) break;
      const float *source = from + image * t.stride[0] + row * t.stride[3] + column * t.stride[4];
      float *target = to + image * step.image + row * step.row + column;
      if (b.row + row >= 0 && b.row + row < height)
#pragma unroll 2
        for (int32_t c = 0; c < b.channels; ++c, source += stride, target += step.channel)
          copy_async<4 * Width>(target, source, true);
      else
        for (int32_t c = 0; c < b.channels; ++c, target += step.channel)
#pragma unroll
          for (int e = 0; e < Width; ++e) target[e] = padding;
    }
}

} // namespace polyconv::cuda::shared
