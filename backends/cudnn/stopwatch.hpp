// stopwatch.hpp - scratch memory and a stream with events, for measuring at plan time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "common/device/check.hpp"

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

  // `runs` calls of body(stream) as a graph, where short ones do not wait for the host to submit them. NULL for a
  // single call, and where something in it cannot be captured.
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  using Recorded = std::unique_ptr<CUgraphExec_st, Destroy>;
  template <class Body>
  Recorded record(int runs, Body &&body) {
    if (runs == 1) return nullptr;
    cuda::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "beginning a graph");
    bool good = true;
    try {
      for (int i = 0; i < runs; ++i) body(stream_);
    } catch (const sdk::Error &) {
      good = false;
    }
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t made = nullptr;
    good = cudaStreamEndCapture(stream_, &graph) == cudaSuccess && good;
    if (good && cudaGraphInstantiate(&made, graph, 0) == cudaSuccess) cudaGraphUpload(made, stream_);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError(); // the next call must not find what could not be captured
    return Recorded(made);
  }
  // Microseconds of one of those calls, from the graph where there is one.
  template <class Body>
  double us(const Recorded &recorded, int runs, Body &&body) {
    if (!recorded) return us(runs, body);
    return us(1,
              [&](cudaStream_t stream) { cuda::check(cudaGraphLaunch(recorded.get(), stream), "launching a graph"); }) /
           runs;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

} // namespace polyconv::cudnn
