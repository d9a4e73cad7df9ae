// copy_kernels.cpp - see copy_kernels.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/copy_kernels.hpp"

#include "runtime/settings.hpp"
#include "runtime/wall.hpp"

namespace polyconv_ort {
namespace {

constexpr int kElementTypes[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16}; // of a fixed size: float to bfloat16

struct Copy : KernelImpl {
  explicit Copy(Gpu &on) : KernelImpl(), gpu(on) {
    version = kOldestApi;
    Compute = [](KernelImpl *self, OrtKernelContext *context) {
      Gpu &its = static_cast<Copy *>(self)->gpu;
      return guarded(its.api, [&] { copy(its, context); });
    };
    Release = [](KernelImpl *self) { delete static_cast<Copy *>(self); };
  }

  static void copy(Gpu &on, OrtKernelContext *context) {
    const Api &api = on.api;
    const OrtValue *from = nullptr;
    OrtValue *to = nullptr;
    require(api, api.KernelContext_GetInput(context, 0, &from));
    const Shape shape = shape_of(api, from);
    require(api, api.KernelContext_GetOutput(context, 0, shape.sizes.data(), shape.sizes.size(), &to));
    size_t bytes = 0;
    require(api, api.GetTensorSizeInBytes(from, &bytes));
    if (bytes == 0) return;
    void *target = nullptr, *stream = nullptr;
    require(api, api.GetTensorMutableData(to, &target));
    require(api, api.KernelContext_GetGPUComputeStream(context, &stream));
    on.copy(target, data_of(api, from), bytes, stream);
  }

  Gpu &gpu;
};

} // namespace

CopyKernels::CopyKernels(const EpApi &ep_api, Gpu &gpu) : ep_api_(ep_api), gpu_(gpu) {
  require(gpu.api, ep_api.CreateKernelRegistry(&registry_));
  try {
    add("MemcpyFromHost", true);
    add("MemcpyToHost", false);
  } catch (...) {
    ep_api_.ReleaseKernelRegistry(registry_);
    throw;
  }
}

CopyKernels::~CopyKernels() {
  ep_api_.ReleaseKernelRegistry(registry_);
}

void CopyKernels::add(const char *type, bool from_host) {
  const Api &api = gpu_.api;
  std::vector<const OrtDataType *> types;
  for (int element : kElementTypes) {
    const OrtDataType *data_type = nullptr;
    require(api, ep_api_.GetTensorDataType(element, &data_type));
    types.push_back(data_type);
  }
  OrtKernelDefBuilder *made = nullptr;
  require(api, ep_api_.CreateKernelDefBuilder(&made));
  const std::unique_ptr<OrtKernelDefBuilder, decltype(ep_api_.ReleaseKernelDefBuilder)> builder(
      made, ep_api_.ReleaseKernelDefBuilder);
  require(api, ep_api_.KernelDefBuilder_SetOperatorType(made, type));
  require(api, ep_api_.KernelDefBuilder_SetDomain(made, ""));
  require(api, ep_api_.KernelDefBuilder_SetSinceVersion(made, 1, 1));
  require(api, ep_api_.KernelDefBuilder_SetExecutionProvider(made, kProviderName));
  require(api, from_host ? ep_api_.KernelDefBuilder_SetInputMemType(made, 0, kHostInput)
                         : ep_api_.KernelDefBuilder_SetOutputMemType(made, 0, kHostOutput));
  require(api, ep_api_.KernelDefBuilder_AddTypeConstraint(made, "T", types.data(), types.size()));
  OrtKernelDef *defined = nullptr;
  require(api, ep_api_.KernelDefBuilder_Build(made, &defined));
  const std::unique_ptr<OrtKernelDef, decltype(ep_api_.ReleaseKernelDef)> definition(defined, ep_api_.ReleaseKernelDef);
  const KernelCreate create = [](void *gpu, const OrtKernelInfo *, KernelImpl **kernel) -> OrtStatus * {
    auto &its = *static_cast<Gpu *>(gpu);
    return guarded(its.api, [&] { *kernel = new Copy(its); });
  };
  require(api, ep_api_.KernelRegistry_AddKernel(registry_, defined, create, &gpu_));
}

} // namespace polyconv_ort
