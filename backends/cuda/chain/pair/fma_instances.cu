// fma_instances.cu - the kernels of fma.cuh, their shared memory, and their weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/instance.hpp"
#include "pair/fma.cuh"

namespace polyconv::cuda::single {
namespace {

constexpr int kThreads = 256;

int64_t row_of(int64_t elements) {
  return ceil_div(elements, 4) * 4;
}

__global__ void __launch_bounds__(kThreads)
    pack_nine(const View<int64_t> weights, const float *raw, float *packed, int64_t row) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < 9 * row; i += step) {
    const int64_t tap = i / row, channel = i - tap * row;
    packed[i] = channel < weights.size[0] ? raw[weights.at(channel, 0, 0, tap / 3, tap % 3)] : 0.0f;
  }
}

__global__ void __launch_bounds__(kThreads)
    pack_turned(const View<int64_t> weights, const float *raw, float *packed, int64_t row) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < weights.size[1] * row; i += step) {
    const int64_t channel = i / row, result = i - channel * row;
    packed[i] = result < weights.size[0] ? raw[weights.at(result, channel, 0, 0, 0)] : 0.0f;
  }
}

template <int... kShape>
Kernel kernel_at(int shape, std::integer_sequence<int, kShape...>) {
  constexpr Kernel kernels[] = {filter_and_multiply<kShape>...};
  return kernels[shape];
}

} // namespace

Kernel find_kernel(int shape) {
  return kernel_at(shape, std::make_integer_sequence<int, kShapeCount>());
}

int64_t shared_bytes(const Shape &s, const Mobile &m) {
  const int64_t positions = int64_t{m.images} * m.patch[0] * m.patch[1];
  return 4 * (kChunk * int64_t{s.tile()} + 2 * s.weights() + positions * (2 * kPitch + 1));
}

int64_t taps_bytes(int64_t channels) {
  return 9 * row_of(channels) * 4;
}
int64_t rows_bytes(int64_t channels, int64_t results) {
  return channels * row_of(results) * 4;
}

void pack_taps(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t row = row_of(l.weights.size[0]);
  pack_nine<<<blocks_for(9 * row, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const float *>(raw), static_cast<float *>(packed), row);
  check_launch("cuda-chain/fma_pair's packing of taps");
}

void pack_rows(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t row = row_of(l.weights.size[0]);
  pack_turned<<<blocks_for(l.weights.size[1] * row, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const float *>(raw), static_cast<float *>(packed), row);
  check_launch("cuda-chain/fma_pair's packing of rows");
}

} // namespace polyconv::cuda::single
