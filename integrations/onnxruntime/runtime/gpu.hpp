// gpu.hpp - GPUs as ONNX Runtime sees them: memory, copies and streams of those that polyconv has. Nothing of CUDA is
// linked: polyconv's own library reaches the GPU, through plug-ins that are not there or do not load where no GPU is.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_GPU_HPP
#define POLYCONV_ORT_GPU_HPP

#include <memory>
#include <string>
#include <vector>

#include "run/device_loop.hpp"
#include "runtime/graph.hpp"
#include "runtime/pool.hpp"

namespace polyconv_ort {

struct Gpu {
  Gpu(const Api &, std::string name, int32_t index, const DevicePasses &);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  // Between the host's memory and the GPU's, behind what the stream has been told to do before; done when it returns,
  // since the runtime reuses the host's side as soon as it pleases. NULL for the stream: behind everything.
  void copy(void *to, const void *from, size_t bytes, void *stream);

  const Api &api;
  std::string name; // "cuda:0"
  int32_t index;
  polyconv::Device device;
  Pool pool;
  const DevicePasses &passes;
  OrtMemoryInfo *info = nullptr; // what the runtime calls its memory
};

// All that polyconv has; none where there is no libpolyconv_onnxruntime_cuda.so beside the provider or its plug-ins.
std::vector<std::unique_ptr<Gpu>> find_gpus(const Api &);

// What a factory makes for a GPU, and throws as it does.
Allocator *make_allocator(Gpu &);
void release_allocator(Allocator *);
SyncStream *make_stream(Gpu &);
DataTransfer *make_transfer(const Api &, const EpApi &,
                            const std::vector<std::unique_ptr<Gpu>> &); // released by itself

// The GPU that a memory is of; NULL where it is none of them.
Gpu *gpu_of(const EpApi &, const std::vector<std::unique_ptr<Gpu>> &, const OrtMemoryDevice *);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_GPU_HPP
