// entry.cpp - what ONNX Runtime finds in the library: CreateEpFactories and ReleaseEpFactory, and the factory between
// them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "provider.hpp"
#include "runtime/copy_kernels.hpp"
#include "runtime/wall.hpp"

#define POLYCONV_ORT_EXPORT extern "C" __attribute__((visibility("default")))

namespace polyconv_ort {

void release(NodeComputeInfo *); // provider.cpp

namespace {

struct Factory : EpFactory { // the runtime sees the EpFactory alone
  Factory(const void *api_table) : EpFactory(), api(api_table), ep_api(api.GetEpApi()), gpus(find_gpus(api)) {}
  Api api;
  EpApi ep_api;
  std::vector<std::unique_ptr<Gpu>> gpus;
};

constexpr char kDeviceKey[] = "device"; // of what is told of a device: "cpu", "cuda:0"

Factory &self_of(EpFactory *factory) {
  return *static_cast<Factory *>(factory);
}

OrtEpDevice *offer(Factory &self, const OrtHardwareDevice *hardware, const char *name) {
  OrtKeyValuePairs *told = nullptr;
  self.api.CreateKeyValuePairs(&told);
  const std::unique_ptr<OrtKeyValuePairs, decltype(self.api.ReleaseKeyValuePairs)> released(
      told, self.api.ReleaseKeyValuePairs);
  self.api.AddKeyValuePair(told, kDeviceKey, name);
  OrtEpDevice *made = nullptr;
  auto *factory = reinterpret_cast<OrtEpFactory *>(static_cast<EpFactory *>(&self));
  require(self.api, self.ep_api.CreateEpDevice(factory, hardware, told, nullptr, &made));
  return made;
}

// Offers the machine's CPU, then the GPUs that polyconv has. The runtime does not find a GPU everywhere, as in a
// container that hides the system's list of them: it then stands beside the CPU, and what it is called tells it apart.
OrtStatus *supported_devices(EpFactory *factory, const OrtHardwareDevice *const *devices, size_t count,
                             OrtEpDevice **offers, size_t most, size_t *supported) {
  Factory &self = self_of(factory);
  return guarded(self.api, [&] {
    *supported = 0;
    const OrtHardwareDevice *cpu = nullptr;
    std::vector<const OrtHardwareDevice *> nvidia;
    for (size_t i = 0; i < count; ++i) {
      const int type = self.api.HardwareDevice_Type(devices[i]);
      if (type == kHardwareCpu && !cpu) cpu = devices[i];
      if (type == kHardwareGpu && self.api.HardwareDevice_VendorId(devices[i]) == kNvidia) nvidia.push_back(devices[i]);
    }
    if (cpu && *supported < most) offers[(*supported)++] = offer(self, cpu, "cpu");
    for (size_t i = 0; i < self.gpus.size() && *supported < most; ++i) {
      const OrtHardwareDevice *hardware = i < nvidia.size() ? nvidia[i] : cpu;
      if (!hardware) continue;
      OrtEpDevice *made = offer(self, hardware, self.gpus[i]->name.c_str());
      offers[(*supported)++] = made;
      require(self.api, self.ep_api.EpDevice_AddAllocatorInfo(made, self.gpus[i]->info));
    }
  });
}

OrtStatus *get_capability(Ep *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support);
OrtStatus *compile(Ep *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count, NodeComputeInfo **infos,
                   OrtNode **);

struct Session : Provider {
  Session(const Factory &factory, const OrtLogger *logger, Settings settings, Gpu *gpu)
      : Provider(factory.api, factory.ep_api, logger, std::move(settings), gpu), api(factory.api) {
    version = kOldestApi;
    GetName = [](const Ep *) -> const char * { return kProviderName; };
    GetCapability = get_capability;
    Compile = polyconv_ort::compile;
    ReleaseNodeComputeInfos = [](Ep *, NodeComputeInfo **infos, size_t count) {
      for (size_t i = 0; i < count; ++i) release(infos[i]);
    };
    if (!gpu) return;
    copies = std::make_unique<CopyKernels>(factory.ep_api, *gpu);
    GetKernelRegistry = [](Ep *ep, const OrtKernelRegistry **registry) -> OrtStatus * {
      *registry = static_cast<Session *>(ep)->copies->registry();
      return nullptr;
    };
  }
  const Api &api;
  std::unique_ptr<CopyKernels> copies; // where the session is on a GPU
};

OrtStatus *get_capability(Ep *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support) {
  auto *self = static_cast<Session *>(ep);
  return guarded(self->api, [&] { self->claim(graph, support); });
}

OrtStatus *compile(Ep *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count, NodeComputeInfo **infos,
                   OrtNode **) {
  auto *self = static_cast<Session *>(ep);
  return guarded(self->api, [&] {
    std::vector<NodeComputeInfo *> made;
    try {
      for (size_t i = 0; i < count; ++i) made.push_back(self->compile(graphs[i], fused[i]));
    } catch (...) { // the runtime releases nothing of a compilation that failed
      for (NodeComputeInfo *info : made) release(info);
      throw;
    }
    std::copy(made.begin(), made.end(), infos);
  });
}

OrtStatus *create_ep(EpFactory *factory, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *told,
                     size_t count, const OrtSessionOptions *options, const OrtLogger *logger, Ep **ep) {
  Factory &self = self_of(factory);
  *ep = nullptr;
  return guarded(self.api, [&] {
    if (count != 1)
      throw Error(kInvalidArgument,
                  "polyconv: a session names " + std::to_string(count) + " devices for its provider, expected one");
    const char *name = told && told[0] ? self.api.GetKeyValue(told[0], kDeviceKey) : nullptr;
    Gpu *chosen = nullptr;
    for (const auto &gpu : self.gpus)
      if (name && gpu->name == name) chosen = gpu.get();
    *ep = new Session(self, logger, read_settings(self.api, options), chosen);
  });
}

void fill(Factory &factory) {
  factory.version = kOldestApi;
  factory.GetName = [](const EpFactory *) -> const char * { return kProviderName; };
  factory.GetVendor = [](const EpFactory *) -> const char * { return "polyconv"; };
  factory.GetSupportedDevices = supported_devices;
  factory.CreateEp = create_ep;
  factory.ReleaseEp = [](EpFactory *, Ep *ep) { delete static_cast<Session *>(ep); };
  factory.GetVendorId = [](const EpFactory *) -> uint32_t { return 0; }; // of PCI, for those who make devices
  factory.GetVersion = [](const EpFactory *) -> const char * { return polyconv_version(); };
  factory.ValidateCompiledModelCompatibilityInfo = [](EpFactory *, const OrtHardwareDevice *const *, size_t,
                                                      const char *, int *answer) -> OrtStatus * {
    *answer = 0; // EP_NOT_APPLICABLE: there are no compiled models
    return nullptr;
  };
  factory.CreateAllocator = [](EpFactory *it, const OrtMemoryInfo *info, const OrtKeyValuePairs *,
                               Allocator **allocator) {
    Factory &self = self_of(it);
    *allocator = nullptr; // the runtime's own, of host memory
    return guarded(self.api, [&] {
      Gpu *gpu = info ? gpu_of(self.ep_api, self.gpus, self.ep_api.MemoryInfo_GetMemoryDevice(info)) : nullptr;
      if (gpu) *allocator = make_allocator(*gpu);
    });
  };
  factory.ReleaseAllocator = [](EpFactory *, Allocator *allocator) { release_allocator(allocator); };
  factory.CreateDataTransfer = [](EpFactory *it, DataTransfer **transfer) {
    Factory &self = self_of(it);
    *transfer = nullptr;
    return guarded(self.api, [&] {
      if (!self.gpus.empty()) *transfer = make_transfer(self.api, self.ep_api, self.gpus);
    });
  };
  factory.IsStreamAware = [](const EpFactory *it) { return !static_cast<const Factory *>(it)->gpus.empty(); };
  factory.CreateSyncStreamForDevice = [](EpFactory *it, const OrtMemoryDevice *memory, const OrtKeyValuePairs *,
                                         SyncStream **stream) {
    Factory &self = self_of(it);
    *stream = nullptr;
    return guarded(self.api, [&] {
      Gpu *gpu = gpu_of(self.ep_api, self.gpus, memory);
      if (!gpu) throw Error(kInvalidArgument, "polyconv: a stream is asked for on a device that is none of its GPUs");
      *stream = make_stream(*gpu);
    });
  };
}

} // namespace
} // namespace polyconv_ort

using namespace polyconv_ort;

// Called once when the library is registered. Asks for the tables of 1.24, which every later runtime still has.
POLYCONV_ORT_EXPORT OrtStatus *CreateEpFactories(const char *, const ApiBase *base, const OrtLogger *,
                                                 EpFactory **factories, size_t most, size_t *count) {
  const void *table = base->GetApi(kOldestApi);
  if (!table) { // older than 1.24: the slots of version 1, which it has, hold all that a status needs
    table = base->GetApi(1);
    if (!table) return nullptr; // with no factory made: no runtime answers so
    const std::string sentence =
        std::string("polyconv: ONNX Runtime ") + base->GetVersionString() + " is older than 1.24, which it needs";
    auto create = reinterpret_cast<OrtStatus *(*)(int, const char *)>(*static_cast<void *const *>(table));
    return create(kFail, sentence.c_str());
  }
  const Api api(table);
  return guarded(api, [&] {
    if (most < 1) throw Error(kInvalidArgument, "polyconv: there is no room for its factory");
    auto factory = std::make_unique<Factory>(table);
    fill(*factory);
    factories[0] = factory.release();
    *count = 1;
  });
}

POLYCONV_ORT_EXPORT OrtStatus *ReleaseEpFactory(EpFactory *factory) {
  delete static_cast<Factory *>(factory);
  return nullptr;
}
