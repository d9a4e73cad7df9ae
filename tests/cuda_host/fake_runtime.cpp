// fake_runtime.cpp - see fake_runtime.hpp. Only what the plug-ins call is here: the linker says what is missing. Memory
// comes from mmap, so that what kernels would have written costs nothing.
// SPDX-License-Identifier: Apache-2.0
#include "fake_runtime.hpp"

#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

namespace {

constexpr int kMultiprocessors = 132, kSharedOptin = 227 << 10, kSharedAlways = 48 << 10;

std::atomic<int64_t> asked{0};
std::atomic<int> lent_multiprocessors{kMultiprocessors};
std::mutex lock;
std::map<const void *, std::string> kernels;
std::map<std::string, size_t> lent; // shared memory that cudaFuncSetAttribute allowed a kernel
std::vector<fake_cuda::Launch> launches;
std::map<void *, size_t> allocated;

// The configuration of a <<<launch>>>, between the two calls that the compiler makes of it.
struct Configuration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

cudaError_t good() {
  ++asked;
  return cudaSuccess;
}

cudaError_t launch(const void *function, dim3 grid, dim3 block, size_t shared_bytes, uint32_t cluster,
                   bool together = false) {
  const std::lock_guard<std::mutex> guard(lock);
  const auto found = kernels.find(function);
  if (found == kernels.end()) return cudaErrorInvalidDeviceFunction;
  // A block a multiprocessor: so many have that much shared memory.
  if (together && grid.x > static_cast<unsigned>(lent_multiprocessors.load()))
    return cudaErrorCooperativeLaunchTooLarge;
  launches.push_back(
      {found->second, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, cluster, shared_bytes, together});
  return fake_cuda::refusal(launches.back()).empty() &&
                 shared_bytes <= std::max<size_t>(lent[found->second], kSharedAlways)
             ? cudaSuccess
             : cudaErrorInvalidConfiguration;
}

cudaError_t allocate(void **pointer, size_t bytes) {
  ++asked;
  void *const made =
      mmap(nullptr, bytes == 0 ? 1 : bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return cudaErrorMemoryAllocation;
  const std::lock_guard<std::mutex> guard(lock);
  allocated[ *pointer = made] = bytes;
  return cudaSuccess;
}

cudaError_t release(void *pointer) {
  ++asked;
  const std::lock_guard<std::mutex> guard(lock);
  const auto found = allocated.find(pointer);
  if (found == allocated.end()) return pointer == nullptr ? cudaSuccess : cudaErrorInvalidValue;
  munmap(pointer, found->second == 0 ? 1 : found->second);
  allocated.erase(found);
  return cudaSuccess;
}

template <class Handle>
cudaError_t make(Handle *handle) {
  static std::atomic<uintptr_t> next{1};
  *handle = reinterpret_cast<Handle>(next++ << 4);
  return good();
}

// The driver's rules for a tensor map that concern every one: the address, strides, and the box.
CUresult map_ok(const void *address, cuuint32_t rank, const cuuint64_t *sizes, const cuuint64_t *strides) {
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0 || rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i < rank; ++i)
    if (sizes[i] == 0 || sizes[i] > uint64_t{1} << 32) return CUDA_ERROR_INVALID_VALUE;
  for (cuuint32_t i = 0; i + 1 < rank; ++i)
    if (strides[i] % 16 != 0 || strides[i] >= uint64_t{1} << 40) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult encode_tiled(CUtensorMap *map, CUtensorMapDataType, cuuint32_t rank, void *address, const cuuint64_t *sizes,
                      const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *, CUtensorMapInterleave,
                      CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  std::memset(map, 0, sizeof *map);
  for (cuuint32_t i = 0; i < rank; ++i)
    if (box[i] == 0 || box[i] > 256) return CUDA_ERROR_INVALID_VALUE;
  return map_ok(address, rank, sizes, strides);
}

CUresult encode_im2col(CUtensorMap *map, CUtensorMapDataType, cuuint32_t rank, void *address, const cuuint64_t *sizes,
                       const cuuint64_t *strides, const int *, const int *, cuuint32_t channels, cuuint32_t pixels,
                       const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                       CUtensorMapFloatOOBfill) {
  std::memset(map, 0, sizeof *map);
  if (rank < 3 || channels == 0 || channels > 256 || pixels == 0 || pixels > 1024) return CUDA_ERROR_INVALID_VALUE;
  return map_ok(address, rank, sizes, strides);
}

} // namespace

namespace fake_cuda {

int64_t calls() {
  return asked;
}

void lend(int multiprocessors) {
  lent_multiprocessors = multiprocessors;
}

std::vector<Launch> take_launches() {
  const std::lock_guard<std::mutex> guard(lock);
  return std::move(launches);
}

std::string refusal(const Launch &l) {
  const auto outside = [](const std::array<uint32_t, 3> &size, uint32_t x, uint32_t y, uint32_t z) {
    return size[0] < 1 || size[0] > x || size[1] < 1 || size[1] > y || size[2] < 1 || size[2] > z;
  };
  if (outside(l.grid, INT32_MAX, UINT16_MAX, UINT16_MAX)) return "a grid that no launch may have";
  if (outside(l.block, 1024, 1024, 64) || l.block[0] * l.block[1] * l.block[2] > 1024)
    return "blocks over 1024 threads";
  if (l.cluster > 8 || l.grid[0] % l.cluster != 0) return "clusters that the grid is no multiple of, or over 8";
  return l.shared_bytes > kSharedOptin ? "more shared memory than a block has" : "";
}

std::string text_of(const Launch &l) {
  const auto size = [](const std::array<uint32_t, 3> &of) {
    return std::to_string(of[0]) + "x" + std::to_string(of[1]) + "x" + std::to_string(of[2]);
  };
  return "  " + l.kernel + ": grid " + size(l.grid) + ", block " + size(l.block) + ", cluster " +
         std::to_string(l.cluster) + ", " + std::to_string(l.shared_bytes) + " bytes shared" +
         (l.together ? ", together" : "");
}

} // namespace fake_cuda

extern "C" {

// ---------------------------------------------------------------- what nvcc's host code calls

void **__cudaRegisterFatBinary(void *) {
  static void *handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterFunction(void **, const char *host, char *, const char *name, int, uint3 *, uint3 *, dim3 *, dim3 *,
                            int *) {
  const std::lock_guard<std::mutex> guard(lock);
  kernels[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, CUstream_st *stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream) {
  const Configuration &last = configurations.back();
  *grid = last.grid, *block = last.block, *shared_bytes = last.shared_bytes;
  *static_cast<cudaStream_t *>(stream) = last.stream;
  configurations.pop_back();
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void *>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **, size_t shared_bytes, cudaStream_t) {
  return launch(kernel, grid, block, shared_bytes, 1);
}

// ---------------------------------------------------------------- launches

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **, size_t shared_bytes, cudaStream_t) {
  return launch(kernel, grid, block, shared_bytes, 1);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel, void **) {
  uint32_t cluster = 1;
  bool together = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute &attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) cluster = attribute.val.clusterDim.x;
    if (attribute.id == cudaLaunchAttributeCooperative) together = attribute.val.cooperative != 0;
  }
  return launch(kernel, config->gridDim, config->blockDim, config->dynamicSmemBytes, cluster, together);
}
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value) {
  ++asked;
  const std::lock_guard<std::mutex> guard(lock);
  const auto found = kernels.find(kernel);
  if (found == kernels.end()) return cudaErrorInvalidDeviceFunction;
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > kSharedOptin) return cudaErrorInvalidValue;
    lent[found->second] = static_cast<size_t>(value);
  }
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *, int threads,
                                                                   size_t shared_bytes, unsigned) {
  *blocks = std::min(2048 / threads, shared_bytes == 0 ? 32 : static_cast<int>(kSharedOptin / shared_bytes));
  return good();
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
                                                          size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared_bytes, 0);
}

// ---------------------------------------------------------------- the device

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidConfiguration ? "a launch that an H100 refuses" : "an error of the fake runtime";
}
cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return good();
}
cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return good();
}
cudaError_t cudaSetDevice(int device) {
  ++asked;
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device) {
  ++asked;
  if (device != 0) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMultiProcessorCount: *value = kMultiprocessors; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = kSharedOptin; break;
    case cudaDevAttrClockRate: *value = 1980000; break;
    default: return cudaErrorNotSupported;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device) {
  ++asked;
  std::memset(p, 0, sizeof *p);
  std::strcpy(p->name, "fake H100");
  p->major = 9, p->multiProcessorCount = kMultiprocessors, p->totalGlobalMem = size_t{80} << 30;
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return good();
}
cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return good();
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult *how) {
  ++asked;
  *how = cudaDriverEntryPointSuccess;
  if (std::strcmp(name, "cuTensorMapEncodeTiled") == 0)
    *found = reinterpret_cast<void *>(encode_tiled);
  else if (std::strcmp(name, "cuTensorMapEncodeIm2col") == 0)
    *found = reinterpret_cast<void *>(encode_im2col);
  else
    *how = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

// ---------------------------------------------------------------- memory, streams, events, graphs, textures

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  return allocate(pointer, bytes);
}
cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned) {
  return allocate(pointer, bytes);
}
cudaError_t cudaFree(void *pointer) {
  return release(pointer);
}
cudaError_t cudaFreeHost(void *pointer) {
  return release(pointer);
}
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t) {
  return good();
}
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t) {
  return good();
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeDevice;
  return good();
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned) {
  return make(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
  return good();
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return good();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return good();
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return good();
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *graph) {
  return make(graph);
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
  return make(event);
}
cudaError_t cudaEventDestroy(cudaEvent_t) {
  return good();
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return good();
}
cudaError_t cudaEventSynchronize(cudaEvent_t) {
  return good();
}
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return good();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t, unsigned long long) {
  return make(made);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) {
  return good();
}
cudaError_t cudaGraphDestroy(cudaGraph_t) {
  return good();
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) {
  return good();
}
cudaError_t cudaCreateTextureObject(cudaTextureObject_t *made, const cudaResourceDesc *, const cudaTextureDesc *,
                                    const cudaResourceViewDesc *) {
  *made = 1;
  return good();
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t) {
  return good();
}
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

} // extern "C"
