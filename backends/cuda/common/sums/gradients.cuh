// gradients.cuh - the gradients of weights and of a bias from the definition: one block an element, its threads sharing
// the pixels of the batch, their partial sums added in a fixed tree. No atomics: a run repeated gives the same bits.
// The whole of cuda-direct's kernel, and what others fall back on for pointers that they cannot read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/rows.hpp"

namespace polyconv::cuda {

inline constexpr int kMostGradientThreads = 256; // with __launch_bounds__(.., 1): all registers, no spills

// Adds the threads' partial sums; blockDim.x is a power of two. The total is thread 0's alone.
template <class Sum>
__device__ inline Sum block_sum(Sum sum) {
  __shared__ Sum partial[kMostGradientThreads];
  __syncthreads(); // the sums before have been read
  partial[threadIdx.x] = sum;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  return threadIdx.x == 0 ? partial[0] : Sum(0);
}

template <class Index>
__device__ inline int64_t pixels_of(const View<Index> &t) {
  return static_cast<int64_t>(t.size[0]) * t.size[2] * t.size[3] * t.size[4];
}

template <class Row, class Index>
__global__ void __launch_bounds__(kMostGradientThreads, 1)
    weights_gradient(const Conv<Index> p, const typename Row::A *x, const typename Row::B *y, void *w, int64_t count) {
  using Sum = typename Row::Sum;
  const int64_t pixels = pixels_of(p.output);
  const Sum padding = p.template padding<Sum>();
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const Place<Index> tap = p.weights.along_w(i);
    const Index channel = tap.n / (p.output.size[1] / p.groups) * p.weights.size[1] + tap.c;
    Sum sum = 0;
    for (int64_t pixel = threadIdx.x; pixel < pixels; pixel += blockDim.x) {
      const Place<Index> o = p.output.pixel_of(pixel);
      const Index d = p.source(0, o.d, tap.d), h = p.source(1, o.h, tap.h), s = p.source(2, o.w, tap.w);
      const bool inside = d >= 0 && h >= 0 && s >= 0;
      const Sum v = inside ? static_cast<Sum>(value(x[p.input.at(o.n, channel, d, h, s)])) : padding;
      sum += v * static_cast<Sum>(value(y[p.output.at(o.n, tap.n, o.d, o.h, o.w)]));
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) store(w, p.epilogue.result_type, p.result.at(tap), sum);
  }
}

template <class Row, class Index>
void launch_weights_gradient(const polyconv_layer &l, const polyconv_arguments &a, int threads, cudaStream_t stream) {
  const int64_t count = sdk::elements(l.weights);
  weights_gradient<Row, Index><<<blocks_for(count, 1), threads, 0, stream>>>(
      Conv<Index>(l, a), static_cast<const typename Row::A *>(a.input), static_cast<const typename Row::B *>(a.output),
      a.weights[0], count);
  check_launch("the gradient of weights");
}

} // namespace polyconv::cuda
