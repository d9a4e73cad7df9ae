// march.cuh - the sums of a thread: down the rows of the input for the usual filters, tap by tap for any other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch.hpp"

namespace polyconv::cuda::texture {

// The filter's weights as [channel][r][s].
__device__ inline void fill_weights(const Conv<int32_t> &p, const void *w, int32_t type, float *to, int32_t filter) {
  const int32_t rows = p.weights.size[3], cols = p.weights.size[4], count = p.weights.size[1] * rows * cols;
  for (int32_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int32_t s = i % cols, rest = i / cols, r = rest % rows, c = rest / rows;
    to[i] = load<float>(w, type, p.weights.at(filter, c, 0, r, s));
  }
}

// The outputs of a thread: `rows` rows of Q columns from (y, x) of the block's tile on. emit(row, sums) takes each row.
struct Job {
  int32_t y, x, rows, first_channel, channels;
};

// Down the rows of the input. Each is fetched once and adds to the n rows of outputs that it is under: sum[r] is the
// output row to which the current row gives tap row r. It is sum[r + 1] in the next step; the first product of a step
// moves it there for nothing.
template <int n, int Q, bool one_channel, class Reader, class Emit>
__device__ inline void march(const Job &job, Reader &read, const float *w, const Emit &emit) {
  constexpr int width = Q + n - 1;
  constexpr bool keep = one_channel && n == 3;
  const int32_t channels = one_channel ? 1 : job.channels, last = job.rows + n - 2;
  decltype(read.column(0)) column[width];
#pragma unroll
  for (int j = 0; j < width; ++j) column[j] = read.column(job.x + j);
  float kept[keep ? n * n : 1];
  if constexpr (keep) {
#pragma unroll
    for (int i = 0; i < n * n; ++i) kept[i] = w[i];
  }
  float sum[n][Q] = {}, row[width], next[width];
  const auto fetch = [&](int32_t t, int32_t c) {
    read.select(job.first_channel + c);
    const auto at = read.row(job.y + min(t, last));
#pragma unroll
    for (int j = 0; j < width; ++j) next[j] = read(at, column[j]);
  };
  fetch(0, 0);
#pragma unroll 1
  for (int32_t t = 0; t <= last; ++t) {
    // Weights are read again for every row: in registers they would leave room for fewer warps. Behind this the
    // compiler does not know that they are the same.
    int32_t again = 0;
    asm volatile("" : "+r"(again));
    const float *tap = w + again;
    if constexpr (!one_channel) { // nothing moves for nothing where several channels follow
#pragma unroll
      for (int r = n - 1; r >= 0; --r)
#pragma unroll
        for (int q = 0; q < Q; ++q) sum[r][q] = r > 0 ? sum[r > 0 ? r - 1 : 0][q] : 0.0f;
    }
#pragma unroll 1
    for (int32_t c = 0; c < channels; ++c, tap += n * n) {
#pragma unroll
      for (int j = 0; j < width; ++j) row[j] = next[j];
      if (c + 1 < channels)
        fetch(t, c + 1);
      else
        fetch(t + 1, 0);
#pragma unroll
      for (int r = n - 1; r >= 0; --r)
#pragma unroll
        for (int s = 0; s < n; ++s) {
          const float weight = keep ? kept[keep ? r * n + s : 0] : tap[r * n + s];
#pragma unroll
          for (int q = 0; q < Q; ++q) {
            const float before = s > 0 || !one_channel ? sum[r][q] : r > 0 ? sum[r > 0 ? r - 1 : 0][q] : 0.0f;
            sum[r][q] = fmaf(row[q + s], weight, before);
          }
        }
    }
    if (t >= n - 1) emit(t - (n - 1), sum[n - 1]);
  }
}

// Any filter, stride and dilation: a fetch for every tap and output.
template <int Q, class Reader, class Emit>
__device__ inline void visit(const Conv<int32_t> &p, const Job &job, Reader &read, const float *w, const Emit &emit) {
  const int32_t rows = p.weights.size[3], cols = p.weights.size[4];
#pragma unroll 1
  for (int32_t t = 0; t < job.rows; ++t) {
    float sum[Q] = {};
    const float *tap = w;
#pragma unroll 1
    for (int32_t c = 0; c < job.channels; ++c) {
      read.select(job.first_channel + c);
#pragma unroll 1
      for (int32_t r = 0; r < rows; ++r) {
        const auto at = read.row(job.y + t * p.stride[1] + r * p.dilation[1]);
#pragma unroll 2
        for (int32_t s = 0; s < cols; ++s) {
          const float weight = *tap++;
#pragma unroll
          for (int q = 0; q < Q; ++q)
            sum[q] = fmaf(read(at, read.column(job.x + q * p.stride[2] + s * p.dilation[2])), weight, sum[q]);
        }
      }
    }
    emit(t, sum);
  }
}

} // namespace polyconv::cuda::texture
