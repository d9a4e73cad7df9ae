// gpu.cpp - the runtime's allocators, streams and copies, on polyconv's devices.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/gpu.hpp"

#include <dlfcn.h>

#include <utility>

#include "runtime/wall.hpp"

namespace polyconv_ort {
namespace {

std::string folder_of(const std::string &path) {
  return path.substr(0, path.rfind('/') + 1);
}

const DevicePasses *load_passes(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return nullptr;
  auto query = reinterpret_cast<DevicePassesQuery>(dlsym(library, kDevicePassesEntry));
  const DevicePasses *passes = query ? query() : nullptr;
  return passes && passes->version == kDevicePasses ? passes : nullptr;
}

// The library of operators in the folder of this one, or in onnxruntime/ beside a plug-in of CUDA, as the package
// polyconv-cuda13 has it; NULL where there is none that fits.
const DevicePasses *find_passes() {
  const std::string name = "libpolyconv_onnxruntime_cuda.so";
  Dl_info self = {};
  if (dladdr(reinterpret_cast<const void *>(&find_passes), &self) && self.dli_fname)
    if (const DevicePasses *found = load_passes(folder_of(self.dli_fname) + name)) return found;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info = {};
    info.struct_size = sizeof info;
    if (polyconv_backend_get(i, &info) != POLYCONV_SUCCESS || !info.available ||
        std::string(info.device_kind) != "cuda")
      continue;
    if (const DevicePasses *found = load_passes(folder_of(info.path) + "onnxruntime/" + name)) return found;
  }
  return nullptr;
}

struct GpuAllocator : Allocator {
  explicit GpuAllocator(Gpu &on) : Allocator(), gpu(on) {
    version = kOldestApi;
    Alloc = [](Allocator *self, size_t bytes) { return take(self, bytes, nullptr, true); };
    Reserve = Alloc;
    AllocOnStream = [](Allocator *self, size_t bytes, OrtSyncStream *stream) {
      const Api &api = static_cast<GpuAllocator *>(self)->gpu.api;
      return take(self, bytes, stream ? api.SyncStream_GetHandle(stream) : nullptr, stream == nullptr);
    };
    Free = [](Allocator *self, void *block) { static_cast<GpuAllocator *>(self)->gpu.pool.give(block); };
    Info = [](const Allocator *self) -> const OrtMemoryInfo * {
      return static_cast<const GpuAllocator *>(self)->gpu.info;
    };
  }
  // NULL where there is no memory left, which the runtime tells.
  static void *take(Allocator *self, size_t bytes, void *stream, bool any) {
    try {
      return bytes == 0 ? nullptr : static_cast<GpuAllocator *>(self)->gpu.pool.take(bytes, stream, any);
    } catch (const std::exception &) {
      return nullptr;
    }
  }
  Gpu &gpu;
};

struct Notification : SyncNotification {
  Notification(Gpu &on, void *of) : SyncNotification(), gpu(on), stream(of), event(on.device) {
    version = kOldestApi;
    Release = [](SyncNotification *self) { delete static_cast<Notification *>(self); };
    Activate = [](SyncNotification *self) {
      auto *here = static_cast<Notification *>(self);
      return guarded(here->gpu.api, [&] { here->event.record(here->stream); });
    };
    WaitOnDevice = [](SyncNotification *self, OrtSyncStream *waiting) -> OrtStatus * {
      auto *here = static_cast<Notification *>(self);
      if (!waiting) return nullptr;
      return guarded(here->gpu.api, [&] {
        polyconv::require(polyconv_stream_wait(here->gpu.device.get(), here->gpu.api.SyncStream_GetHandle(waiting),
                                               here->event.get()));
      });
    };
    WaitOnHost = [](SyncNotification *self) {
      auto *here = static_cast<Notification *>(self);
      return guarded(here->gpu.api, [&] { here->event.synchronize(); });
    };
  }
  Gpu &gpu;
  void *stream;
  polyconv::Event event;
};

struct GpuStream : SyncStream {
  explicit GpuStream(Gpu &on) : SyncStream(), gpu(on), stream(on.device) {
    version = kOldestApi;
    gpu.pool.opened(stream.get());
    Release = [](SyncStream *self) { delete static_cast<GpuStream *>(self); };
    GetHandle = [](SyncStream *self) { return static_cast<GpuStream *>(self)->stream.get(); };
    CreateNotification = [](SyncStream *self, SyncNotification **made) {
      auto *here = static_cast<GpuStream *>(self);
      return guarded(here->gpu.api, [&] { *made = new Notification(here->gpu, here->stream.get()); });
    };
    Flush = [](SyncStream *self) {
      auto *here = static_cast<GpuStream *>(self);
      return guarded(here->gpu.api, [&] { here->gpu.pool.synchronize(here->stream.get()); });
    };
    OnSessionRunEnd = [](SyncStream *) -> OrtStatus * { return nullptr; };
  }
  ~GpuStream() {
    polyconv_stream_synchronize(gpu.device.get(), stream.get());
    gpu.pool.closed(stream.get());
  }
  Gpu &gpu;
  polyconv::Stream stream;
};

struct Transfer : DataTransfer {
  using Gpus = std::vector<std::unique_ptr<Gpu>>;
  Transfer(const Api &its_api, const EpApi &its_ep_api, const Gpus &of)
      : DataTransfer(), api(its_api), ep_api(its_ep_api), gpus(of) {
    version = kOldestApi;
    Release = [](DataTransfer *self) { delete static_cast<Transfer *>(self); };
    CanCopy = [](const DataTransfer *self, const OrtMemoryDevice *from, const OrtMemoryDevice *to) {
      const auto *here = static_cast<const Transfer *>(self);
      const Gpu *source = gpu_of(here->ep_api, here->gpus, from), *target = gpu_of(here->ep_api, here->gpus, to);
      auto is_host = [&](const OrtMemoryDevice *memory) {
        return here->ep_api.MemoryDevice_GetDeviceType(memory) == kMemoryOfCpu;
      };
      return source && target ? source == target : (source && is_host(to)) || (target && is_host(from));
    };
    CopyTensors = [](DataTransfer *self, const OrtValue **from, OrtValue **to, OrtSyncStream **streams, size_t count) {
      auto *here = static_cast<Transfer *>(self);
      return guarded(here->api, [&] {
        for (size_t i = 0; i < count; ++i) here->copy(from[i], to[i], streams ? streams[i] : nullptr);
      });
    };
  }

  void copy(const OrtValue *from, OrtValue *to, OrtSyncStream *stream) const {
    size_t bytes = 0;
    require(api, api.GetTensorSizeInBytes(from, &bytes));
    if (bytes == 0) return;
    Gpu *gpu = gpu_of(ep_api, gpus, ep_api.Value_GetMemoryDevice(from));
    if (!gpu) gpu = gpu_of(ep_api, gpus, ep_api.Value_GetMemoryDevice(to));
    if (!gpu) throw Error(kFail, "polyconv: a copy between tensors of which none is on its GPU");
    void *target = nullptr;
    require(api, api.GetTensorMutableData(to, &target));
    gpu->copy(target, data_of(api, from), bytes, stream ? api.SyncStream_GetHandle(stream) : nullptr);
  }

  const Api &api;
  const EpApi &ep_api;
  const Gpus &gpus;
};

} // namespace

Gpu::Gpu(const Api &its_api, std::string its_name, int32_t its_index, const DevicePasses &its_passes)
    : api(its_api), name(std::move(its_name)), index(its_index), device(name), pool(device), passes(its_passes) {
  require(api, api.CreateMemoryInfo_V2("PolyconvCuda", kMemoryOfGpu, kNvidia, index, kDeviceMemory, 0, kDeviceAllocator,
                                       &info));
}

void Gpu::copy(void *to, const void *from, size_t bytes, void *stream) {
  if (!stream) pool.drain();
  device.copy(to, from, bytes, stream);
  pool.synchronize(stream);
}

Gpu::~Gpu() {
  api.ReleaseMemoryInfo(info);
}

std::vector<std::unique_ptr<Gpu>> find_gpus(const Api &api) {
  std::vector<std::unique_ptr<Gpu>> gpus;
  const DevicePasses *passes = find_passes();
  if (!passes) return gpus;
  const std::string kind = "cuda:";
  for (int32_t i = 0; i < polyconv_device_count(); ++i) {
    const std::string name = polyconv_device_name(i);
    if (name.compare(0, kind.size(), kind) == 0)
      gpus.push_back(std::make_unique<Gpu>(api, name, std::stoi(name.substr(kind.size())), *passes));
  }
  return gpus;
}

Gpu *gpu_of(const EpApi &ep_api, const std::vector<std::unique_ptr<Gpu>> &gpus, const OrtMemoryDevice *memory) {
  if (!memory || ep_api.MemoryDevice_GetDeviceType(memory) != kMemoryOfGpu ||
      ep_api.MemoryDevice_GetVendorId(memory) != kNvidia)
    return nullptr;
  for (const auto &gpu : gpus)
    if (static_cast<uint32_t>(gpu->index) == ep_api.MemoryDevice_GetDeviceId(memory)) return gpu.get();
  return nullptr;
}

Allocator *make_allocator(Gpu &gpu) {
  return new GpuAllocator(gpu);
}

void release_allocator(Allocator *allocator) {
  delete static_cast<GpuAllocator *>(allocator);
}

SyncStream *make_stream(Gpu &gpu) {
  return new GpuStream(gpu);
}

DataTransfer *make_transfer(const Api &api, const EpApi &ep_api, const std::vector<std::unique_ptr<Gpu>> &gpus) {
  return new Transfer(api, ep_api, gpus);
}

} // namespace polyconv_ort
