// split.cu - the end of a product whose k is split over blocks: adds the partial sums of every output in the order of
// k, and is its epilogue. For problems of few tiles, which would leave most of the device without work.
// SPDX-License-Identifier: Apache-2.0
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "product.hpp"

namespace polyconv::cuda::gemm {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void __launch_bounds__(kThreads, 1) add(const __grid_constant__ Product p, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t plane = p.partials_row * p.conv.output.size[1];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t channel = i / p.pixels, pixel = i - channel * p.pixels;
    const T *from = static_cast<const T *>(p.partials) + channel * p.partials_row + pixel;
    T sum = *from;
#pragma unroll 4
    for (int split = 1; split < p.splits; ++split) sum += from[split * plane];
    Place<int64_t> at = p.conv.output.pixel_of(pixel);
    at.c = channel;
    finish_and_store(p.conv, p.result, sum, at);
  }
}

int64_t row_of(const polyconv_layer &l) {
  return (l.output.size[0] * sdk::spatial(l.output) + 31) / 32 * 32; // rows begin at whole lines
}

} // namespace

int64_t partials_bytes(const polyconv_layer &l, int splits) {
  return splits == 1 ? 0 : splits * row_of(l) * l.output.size[1] * sum_bytes(l.sum_type);
}

double partials_us(const polyconv_layer &l, int splits) {
  return splits == 1 ? 0 : 2.8 + static_cast<double>(partials_bytes(l, splits)) / 2.2e6;
}

void set_split(const polyconv_layer &l, int splits, void *workspace, Product *product) {
  product->splits = splits;
  product->partials = workspace;
  product->partials_row = row_of(l);
}

void add_partials(const polyconv_layer &l, const Product &product, cudaStream_t stream) {
  const int64_t count = sdk::elements(l.output);
  const unsigned blocks = blocks_for(count, kThreads);
  if (l.sum_type == POLYCONV_F64)
    add<double><<<blocks, kThreads, 0, stream>>>(product, count);
  else
    add<float><<<blocks, kThreads, 0, stream>>>(product, count);
  check_launch("cuda-gemm's sum over splits");
}

} // namespace polyconv::cuda::gemm
