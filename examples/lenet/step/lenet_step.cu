// lenet_step.cu - the steps beside the convolutions on a GPU, as lenet_step.cpp has them: f32 arithmetic in the same
// order, so that a loss curve is the CPU's within rounding, and no atomics, so that it is the same in every run.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <polyconv/polyconv.h>

#include "lenet_step.hpp"

namespace lenet {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

const char *launched() {
  const cudaError_t error = cudaPeekAtLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

__device__ float load(const void *from, int32_t type, int64_t i) {
  if (type == POLYCONV_F32) return static_cast<const float *>(from)[i];
  if (type == POLYCONV_F16) return __half2float(static_cast<const __half *>(from)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16 *>(from)[i]);
}
__device__ void store(void *to, int32_t type, int64_t i, float v) {
  if (type == POLYCONV_F32)
    static_cast<float *>(to)[i] = v;
  else if (type == POLYCONV_F16)
    static_cast<__half *>(to)[i] = __float2half_rn(v);
  else
    static_cast<__nv_bfloat16 *>(to)[i] = __float2bfloat16_rn(v);
}

__device__ int64_t batch_of(const Progress *progress) {
  return progress ? progress->batch : 0;
}

// One thread a pixel of the input.
__global__ void draw_pixels(const Draw d) {
  const int64_t height = d.rows * d.repeat + 2 * d.border, width = d.columns * d.repeat + 2 * d.border;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= d.count * height * width) return;
  const int64_t i = at / (height * width), x = at % width, y = at / width % height;
  const int64_t image = d.order[batch_of(d.progress) * d.count + i];
  if (x == 0 && y == 0) d.chosen[i] = d.labels[image];
  const int64_t row = y - d.border, column = x - d.border;
  const bool inside = row >= 0 && row < d.rows * d.repeat && column >= 0 && column < d.columns * d.repeat;
  float v = 0;
  if (inside) {
    const uint8_t *pixels = d.pixels + image * d.rows * d.columns;
    v = __fdiv_rn(static_cast<float>(pixels[row / d.repeat * d.columns + column / d.repeat]), 255.0f);
  }
  store(d.input, d.type, at, v);
}

const char *draw(const Draw &d, void *stream) {
  const int64_t height = d.rows * d.repeat + 2 * d.border, width = d.columns * d.repeat + 2 * d.border;
  draw_pixels<<<blocks_for(d.count * height * width), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(d);
  return launched();
}

// One block; a thread an image at a time. The threads' sums are added in a fixed tree.
__global__ void __launch_bounds__(kThreads) softmax_loss(const Loss l) {
  __shared__ double totals[kThreads];
  __shared__ int32_t counts[kThreads];
  const int64_t batch = batch_of(l.progress);
  double total = 0;
  int32_t hits = 0;
  for (int64_t i = threadIdx.x; i < l.count; i += blockDim.x) {
    const float *scores = l.scores + i * l.classes;
    const int32_t label = l.labels[i];
    int64_t best = 0;
    for (int64_t k = 1; k < l.classes; ++k)
      if (scores[k] > scores[best]) best = k;
    float sum = 0;
    for (int64_t k = 0; k < l.classes; ++k) sum += expf(scores[k] - scores[best]);
    total += static_cast<double>(logf(sum) + scores[best] - scores[label]);
    hits += best == label;
    if (l.guesses) l.guesses[batch * l.count + i] = static_cast<uint8_t>(best);
    for (int64_t k = 0; l.gradient && k < l.classes; ++k)
      l.gradient[i * l.classes + k] = (expf(scores[k] - scores[best]) / sum - (k == label ? 1.0f : 0.0f)) *
                                      (l.gradient_scale / static_cast<float>(l.count));
  }
  totals[threadIdx.x] = total;
  counts[threadIdx.x] = hits;
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    totals[threadIdx.x] += totals[threadIdx.x + half];
    counts[threadIdx.x] += counts[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;
  l.losses[batch] = totals[0] / static_cast<double>(l.count);
  l.hits[batch] = counts[0];
}

const char *loss(const Loss &l, void *stream) {
  softmax_loss<<<1, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(l);
  return launched();
}

__global__ void update_values(const Update u) {
  __shared__ float corrections[2];
  if (u.optimiser == kAdam && threadIdx.x < 2) {
    const double beta = static_cast<double>(threadIdx.x == 0 ? kBeta1 : kBeta2);
    corrections[threadIdx.x] = static_cast<float>(1 / (1 - pow(beta, static_cast<double>(u.progress->update))));
  }
  __syncthreads();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= u.count) return;
  const auto rate = static_cast<float>(u.progress->rate);
  const float g = u.gradients[i] / u.gradient_scale;
  if (u.optimiser == kMomentum) {
    u.first[i] = kMomentumDecay * u.first[i] + g;
    u.values[i] -= rate * u.first[i];
    return;
  }
  u.first[i] = kBeta1 * u.first[i] + (1 - kBeta1) * g;
  u.second[i] = kBeta2 * u.second[i] + (1 - kBeta2) * g * g;
  u.values[i] -= rate * (u.first[i] * corrections[0]) / (sqrtf(u.second[i] * corrections[1]) + kEpsilon);
}

const char *update(const Update &u, void *stream) {
  update_values<<<blocks_for(u.count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(u);
  return launched();
}

__global__ void convert_values(const void *from, int32_t from_type, void *to, int32_t to_type, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) store(to, to_type, i, load(from, from_type, i));
}

const char *convert(const void *from, int32_t from_type, void *to, int32_t to_type, int64_t count, void *stream) {
  convert_values<<<blocks_for(count), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(from, from_type, to, to_type,
                                                                                        count);
  return launched();
}

__global__ void count_on(Progress *progress) {
  ++progress->batch;
  ++progress->update;
}

const char *advance(Progress *progress, void *stream) {
  count_on<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(progress);
  return launched();
}

} // namespace

extern "C" __attribute__((visibility("default"))) const Steps *lenet_cuda_steps() {
  static const Steps steps = {draw, loss, update, convert, advance};
  return &steps;
}

} // namespace lenet
