// entry.cpp - what ONNX Runtime finds in the library: CreateEpFactories and ReleaseEpFactory, and the factory between
// them.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "provider.hpp"
#include "runtime/wall.hpp"

#define POLYCONV_ORT_EXPORT extern "C" __attribute__((visibility("default")))

namespace polyconv_ort {

void release(NodeComputeInfo *); // provider.cpp

namespace {

struct Factory : EpFactory { // the runtime sees the EpFactory alone
  Factory(const void *api_table) : EpFactory(), api(api_table), ep_api(api.GetEpApi()) {}
  Api api;
  EpApi ep_api;
};

Factory &self_of(EpFactory *factory) {
  return *static_cast<Factory *>(factory);
}

// Offers the machine's CPU. A GPU is not offered yet: the layers run where their tensors are, in host memory.
OrtStatus *supported_devices(EpFactory *factory, const OrtHardwareDevice *const *devices, size_t count,
                             OrtEpDevice **offers, size_t most, size_t *supported) {
  Factory &self = self_of(factory);
  return guarded(self.api, [&] {
    *supported = 0;
    for (size_t i = 0; i < count && *supported < most; ++i) {
      if (self.api.HardwareDevice_Type(devices[i]) != kHardwareCpu) continue;
      require(self.api, self.ep_api.CreateEpDevice(reinterpret_cast<OrtEpFactory *>(factory), devices[i], nullptr,
                                                   nullptr, &offers[*supported]));
      ++*supported;
    }
  });
}

OrtStatus *get_capability(Ep *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *support);
OrtStatus *compile(Ep *ep, const OrtGraph **graphs, const OrtNode **fused, size_t count, NodeComputeInfo **infos,
                   OrtNode **);

struct Session : Provider {
  Session(const Factory &factory, const OrtLogger *logger, Settings settings)
      : Provider(factory.api, factory.ep_api, logger, std::move(settings)), api(factory.api) {
    version = kOldestApi;
    GetName = [](const Ep *) -> const char * { return kProviderName; };
    GetCapability = get_capability;
    Compile = polyconv_ort::compile;
    ReleaseNodeComputeInfos = [](Ep *, NodeComputeInfo **infos, size_t count) {
      for (size_t i = 0; i < count; ++i) release(infos[i]);
    };
  }
  const Api &api;
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

OrtStatus *create_ep(EpFactory *factory, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *,
                     size_t count, const OrtSessionOptions *options, const OrtLogger *logger, Ep **ep) {
  Factory &self = self_of(factory);
  *ep = nullptr;
  return guarded(self.api, [&] {
    if (count != 1)
      throw Error(kInvalidArgument,
                  "polyconv: a session names " + std::to_string(count) + " devices for its provider, expected one");
    *ep = new Session(self, logger, read_settings(self.api, options));
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
  factory.CreateAllocator = [](EpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *,
                               OrtAllocator **allocator) -> OrtStatus * {
    *allocator = nullptr; // the runtime's own: tensors are in host memory
    return nullptr;
  };
  factory.ReleaseAllocator = [](EpFactory *, OrtAllocator *) {};
  factory.CreateDataTransfer = [](EpFactory *, OrtDataTransferImpl **transfer) -> OrtStatus * {
    *transfer = nullptr;
    return nullptr;
  };
  factory.IsStreamAware = [](const EpFactory *) { return false; };
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
