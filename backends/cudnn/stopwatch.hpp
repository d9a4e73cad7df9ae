// stopwatch.hpp - scratch memory and a stream with events, for measuring at plan time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/check.hpp"

namespace polyconv::cudnn {

// Device memory of at least the bytes last asked for. What it holds are small positive normal numbers of every float
// type: zeros multiply faster on some hardware, denormals slower.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { cudaFree(pointer_); }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  void *get(int64_t bytes) {
    if (bytes <= bytes_) return pointer_;
    cuda::check(cudaFree(pointer_), "freeing scratch memory");
    pointer_ = nullptr;
    bytes_ = 0;
    cuda::check(cudaMalloc(&pointer_, static_cast<size_t>(bytes)), "allocating scratch memory to measure on");
    bytes_ = bytes;
    cuda::check(cudaMemset(pointer_, 0x3a, static_cast<size_t>(bytes)), "filling scratch memory");
    cuda::check(cudaDeviceSynchronize(),
                "filling scratch memory"); // the stream below does not wait for the default one
    return pointer_;
  }

 private:
  void *pointer_ = nullptr;
  int64_t bytes_ = 0;
};

class Stopwatch {
 public:
  Stopwatch() {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    cuda::check(cudaEventCreate(&start_), "creating an event");
    cuda::check(cudaEventCreate(&stop_), "creating an event");
  }
  ~Stopwatch() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    cudaStreamDestroy(stream_);
  }
  Stopwatch(const Stopwatch &) = delete;
  Stopwatch &operator=(const Stopwatch &) = delete;

  // Microseconds of one of `runs` calls of body(stream), as the device counts them.
  template <class Body>
  double us(int runs, Body &&body) {
    cuda::check(cudaEventRecord(start_, stream_), "recording an event");
    for (int i = 0; i < runs; ++i) body(stream_);
    cuda::check(cudaEventRecord(stop_, stream_), "recording an event");
    cuda::check(cudaEventSynchronize(stop_), "measuring an engine");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, start_, stop_), "reading elapsed time");
    return static_cast<double>(milliseconds) * 1e3 / runs;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

} // namespace polyconv::cudnn
