// wgmma_pack.cu - the weights of wgmma.cuh as its tensor maps read them, and runs that no map can serve.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/instance.hpp"
#include "mobile/exact.cuh"
#include "pair/wgmma.hpp"

namespace polyconv::cuda::piped {
namespace {

constexpr int kThreads = 256, kMostChannels = 4096;

// Nine rows of channels. Elements are copied as they are: any type of 16 bits.
__global__ void __launch_bounds__(kThreads)
    pack_depthwise(const View<int64_t> weights, const uint16_t *raw, uint16_t *packed, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads, channels = weights.size[0];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t tap = i / channels;
    packed[i] = raw[weights.at(i - tap * channels, 0, 0, tap / 3, tap % 3)];
  }
}

// A row of channels for each result.
__global__ void __launch_bounds__(kThreads)
    pack_pointwise(const View<int64_t> weights, const uint16_t *raw, uint16_t *packed, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads, channels = weights.size[1];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t result = i / channels;
    packed[i] = raw[weights.at(result, i - result * channels, 0, 0, 0)];
  }
}

// A pixel a block: its channels in shared memory, then a result a thread. Right, and far slower; programs whose
// pointers come from polyconv_device_alloc or cudaMalloc never get here.
template <class T>
__global__ void __launch_bounds__(kThreads) pair_by_pixels(const __grid_constant__ Mobile m) {
  __shared__ float filtered[kMostChannels];
  const int64_t pixels = int64_t{m.batch} * m.out[0] * m.out[1];
  for (int64_t pixel = blockIdx.x; pixel < pixels; pixel += gridDim.x) {
    const int64_t row = pixel / m.out[1];
    const auto x = static_cast<int>(pixel - row * m.out[1]), image = static_cast<int>(row / m.out[0]);
    const auto y = static_cast<int>(row - int64_t{image} * m.out[0]);
    for (auto c = static_cast<int>(threadIdx.x); c < m.hidden; c += kThreads) {
      float sum = m.filtered.bias != nullptr ? m.filtered.bias[c] : 0.0f;
      for (int tap = 0; tap < 9; ++tap) {
        const int h = y * m.step - m.pad[0] + tap / 3, w = x * m.step - m.pad[1] + tap % 3;
        const bool inside = h >= 0 && h < m.in[0] && w >= 0 && w < m.in[1];
        const T weight = static_cast<const T *>(m.filters)[int64_t{tap} * m.hidden + c];
        sum += (inside ? mobile::hidden_at<T>(m, image, h, w, c) : 0.0f) * static_cast<float>(weight);
      }
      filtered[c] = mobile::bounded<T>(sum, m.filtered);
    }
    __syncthreads();
    for (auto k = static_cast<int>(threadIdx.x); k < m.results; k += kThreads) {
      float sum = m.projected.bias != nullptr ? m.projected.bias[k] : 0.0f;
      for (int c = 0; c < m.hidden; ++c)
        sum += filtered[c] * static_cast<float>(static_cast<const T *>(m.project)[int64_t{k} * m.hidden + c]);
      const T *const residual = static_cast<const T *>(m.residual);
      if (residual != nullptr)
        sum += m.residual_scale * static_cast<float>(mobile::pixel_at(residual, m.residual_at, image, y, x)[k]);
      mobile::pixel_at(static_cast<T *>(m.result), m.out_at, image, y, x)[k] =
          static_cast<T>(mobile::bounded<T>(sum, m.projected));
    }
    __syncthreads();
  }
}

} // namespace

int64_t taps_bytes(int64_t channels) {
  return 9 * channels * 2;
}
int64_t rows_bytes(int64_t channels, int64_t results) {
  return channels * results * 2;
}

void pack_taps(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = 9 * l.weights.size[0];
  pack_depthwise<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const uint16_t *>(raw), static_cast<uint16_t *>(packed), count);
  check_launch("cuda-chain's packing of taps");
}

void pack_rows(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = l.weights.size[0] * l.weights.size[1];
  pack_pointwise<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const uint16_t *>(raw), static_cast<uint16_t *>(packed), count);
  check_launch("cuda-chain's packing of rows");
}

void run_unaligned(const Mobile &m, int32_t type, cudaStream_t stream) {
  const unsigned blocks = blocks_for(int64_t{m.batch} * m.out[0] * m.out[1], 1);
  if (type == POLYCONV_F16)
    pair_by_pixels<__half><<<blocks, kThreads, 0, stream>>>(m);
  else
    pair_by_pixels<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(m);
  check_launch("cuda-chain/wgmma_pair, with pointers that are not aligned");
}

} // namespace polyconv::cuda::piped
