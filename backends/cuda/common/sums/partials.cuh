// partials.cuh - the end of a product whose k is split over blocks: adds the partial sums of every output in the order
// of k, and is its epilogue. For problems of few tiles, which would leave most of the device without work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/grid.cuh"
#include "common/sums/partials.hpp"

namespace polyconv::cuda {

template <class T, class Activations>
__global__ void __launch_bounds__(128, 1)
    add_planes(const __grid_constant__ ImplicitGemm p, const Activations activations, int64_t count) {
  ptx::await_previous();
  const int64_t step = static_cast<int64_t>(gridDim.x) * 128;
  const int64_t plane = p.partials_row * p.conv.output.size[1];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x; i < count; i += step) {
    const int64_t channel = i / p.pixels, pixel = i - channel * p.pixels;
    const T *from = static_cast<const T *>(p.partials) + channel * p.partials_row + pixel;
    T sum = *from;
#pragma unroll 4
    for (int split = 1; split < p.splits; ++split) sum += from[split * plane];
    Place<int64_t> at = p.conv.output.pixel_of(pixel);
    at.c = channel;
    finish_and_store(p.conv, p.result, sum, at, activations);
  }
}

template <class T, class Activations = UsualActivations>
void add_partials(const polyconv_layer &l, const ImplicitGemm &product, cudaStream_t stream,
                  const Activations &activations = {}) {
  const int64_t count = sdk::elements(l.output);
  launch_waiting(add_planes<T, Activations>, blocks_for(count, 128), 128, 0, stream, product, activations, count);
}

} // namespace polyconv::cuda
