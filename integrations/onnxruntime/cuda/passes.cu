// passes.cu - libpolyconv_onnxruntime_cuda.so: operators between layers on a GPU. One thread an element of a loop, one
// warp a mean.
//
// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "cuda/element.hpp"

namespace polyconv_ort {
namespace {

struct Half {
  __device__ static float load(const void *data, int64_t i) {
    return __half2float(static_cast<const __half *>(data)[i]);
  }
  __device__ static void store(void *data, int64_t i, float value) {
    static_cast<__half *>(data)[i] = __float2half_rn(value);
  }
};

constexpr int kThreads = 256, kWarp = 32;

template <class Index>
__global__ void __launch_bounds__(kThreads) run_loop(const __grid_constant__ DeviceLoop loop, Index count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    run_element<Half, Index>(loop, static_cast<Index>(i));
}

// Channels that lie last: neighbouring warps read neighbouring channels, so that what one fetches serves the others.
__global__ void __launch_bounds__(kThreads) run_average(const __grid_constant__ DeviceAverage mean) {
  const int64_t result = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (result >= mean.images * mean.channels) return;
  const int64_t first = result / mean.channels * mean.image_stride + result % mean.channels * mean.channel_stride;
  double sum = 0;
  for (int64_t i = threadIdx.x % kWarp; i < mean.pixels; i += kWarp)
    sum += Elements<Half>::load(mean.element, mean.from, first + i * mean.pixel_stride);
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % kWarp == 0)
    Elements<Half>::store(mean.element, mean.to, result, static_cast<float>(sum / static_cast<double>(mean.pixels)));
}

// The caller's current device is as before when this goes.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    error_ = cudaGetDevice(&before_);
    if (error_ == cudaSuccess && before_ != device) error_ = cudaSetDevice(device), changed_ = error_ == cudaSuccess;
  }
  ~OnDevice() {
    if (changed_) cudaSetDevice(before_);
  }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  bool changed_ = false;
  cudaError_t error_;
};

unsigned blocks_of(int64_t all, int64_t each) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t blocks = (all + each - 1) / each;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

int loop(int device, const DeviceLoop *loop, void *stream) {
  const OnDevice here(device);
  if (here.error() != cudaSuccess) return here.error();
  const int64_t count = elements_of(*loop);
  const unsigned blocks = blocks_of(count, kThreads);
  if (is_small(*loop))
    run_loop<int32_t><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(*loop, static_cast<int32_t>(count));
  else
    run_loop<int64_t><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(*loop, count);
  return cudaGetLastError();
}

int average(int device, const DeviceAverage *mean, void *stream) {
  const OnDevice here(device);
  if (here.error() != cudaSuccess) return here.error();
  const int64_t results = mean->images * mean->channels, each = kThreads / kWarp;
  if (results > each * INT32_MAX) return cudaErrorInvalidValue;
  run_average<<<static_cast<unsigned>((results + each - 1) / each), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      *mean);
  return cudaGetLastError();
}

const char *text(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

} // namespace
} // namespace polyconv_ort

extern "C" __attribute__((visibility("default"))) const polyconv_ort::DevicePasses *polyconv_onnxruntime_passes() {
  using namespace polyconv_ort;
  static const DevicePasses passes = {kDevicePasses, loop, average, text};
  return &passes;
}
