// check_abi.cpp - holds ort_abi.hpp against a release's own headers, when the library is compiled: nothing of this
// runs. Built where POLYCONV_ORT_HEADERS names the folder of onnxruntime_c_api.h.
//
// SPDX-License-Identifier: Apache-2.0
#include <onnxruntime_c_api.h>

#include "runtime/ort_abi.hpp"

namespace polyconv_ort {

#define POLYCONV_ORT_CHECK(name, slot, result, parameters) \
  static_assert(offsetof(OrtApi, name) == (slot) * sizeof(void *), "OrtApi: " #name " lies in another slot");
POLYCONV_ORT_API(POLYCONV_ORT_CHECK)
#undef POLYCONV_ORT_CHECK
#define POLYCONV_ORT_CHECK(name, slot, result, parameters) \
  static_assert(offsetof(OrtEpApi, name) == (slot) * sizeof(void *), "OrtEpApi: " #name " lies in another slot");
POLYCONV_ORT_EP_API(POLYCONV_ORT_CHECK)
#undef POLYCONV_ORT_CHECK

#define SAME(ours, theirs, field) \
  static_assert(offsetof(ours, field) == offsetof(theirs, field), #theirs ": " #field " lies elsewhere")
SAME(Ep, OrtEp, GetName);
SAME(Ep, OrtEp, GetCapability);
SAME(Ep, OrtEp, Compile);
SAME(Ep, OrtEp, ReleaseNodeComputeInfos);
static_assert(sizeof(Ep) == offsetof(OrtEp, IsConcurrentRunSupported) + sizeof(void *), "OrtEp of 1.24 ends elsewhere");
SAME(EpFactory, OrtEpFactory, GetSupportedDevices);
SAME(EpFactory, OrtEpFactory, CreateEp);
SAME(EpFactory, OrtEpFactory, ReleaseEp);
SAME(EpFactory, OrtEpFactory, GetVendorId);
SAME(EpFactory, OrtEpFactory, GetVersion);
SAME(EpFactory, OrtEpFactory, ReleaseAllocator);
SAME(EpFactory, OrtEpFactory, IsStreamAware);
SAME(EpFactory, OrtEpFactory, CreateSyncStreamForDevice);
static_assert(sizeof(EpFactory) == offsetof(OrtEpFactory, GetCustomOpDomains) + sizeof(void *),
              "OrtEpFactory of 1.24 ends elsewhere");
SAME(Ep, OrtEp, GetKernelRegistry);
SAME(KernelImpl, OrtKernelImpl, flags);
SAME(KernelImpl, OrtKernelImpl, Compute);
SAME(KernelImpl, OrtKernelImpl, Release);
static_assert(sizeof(KernelImpl) == offsetof(OrtKernelImpl, SetSharedPrePackedWeight) + sizeof(void *),
              "OrtKernelImpl of 1.24 ends elsewhere");
SAME(Allocator, OrtAllocator, Alloc);
SAME(Allocator, OrtAllocator, Free);
SAME(Allocator, OrtAllocator, Info);
SAME(Allocator, OrtAllocator, Reserve);
SAME(Allocator, OrtAllocator, AllocOnStream);
SAME(DataTransfer, OrtDataTransferImpl, Release);
SAME(DataTransfer, OrtDataTransferImpl, CanCopy);
SAME(DataTransfer, OrtDataTransferImpl, CopyTensors);
SAME(SyncNotification, OrtSyncNotificationImpl, Activate);
SAME(SyncNotification, OrtSyncNotificationImpl, WaitOnDevice);
SAME(SyncNotification, OrtSyncNotificationImpl, WaitOnHost);
SAME(SyncStream, OrtSyncStreamImpl, GetHandle);
SAME(SyncStream, OrtSyncStreamImpl, CreateNotification);
SAME(SyncStream, OrtSyncStreamImpl, Flush);
SAME(SyncStream, OrtSyncStreamImpl, OnSessionRunEnd);
SAME(NodeComputeInfo, OrtNodeComputeInfo, Compute);
SAME(NodeComputeInfo, OrtNodeComputeInfo, ReleaseState);
SAME(NodeFusionOptions, OrtNodeFusionOptions, drop_constant_initializers);
static_assert(kFloat == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT && kUint8 == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 &&
                  kInt8 == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 && kInt32 == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 &&
                  kInt64 == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 && kHalf == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
              "element types");
static_assert(kAttributeInt == ORT_OP_ATTR_INT && kAttributeInts == ORT_OP_ATTR_INTS &&
                  kAttributeFloat == ORT_OP_ATTR_FLOAT && kAttributeString == ORT_OP_ATTR_STRING,
              "attribute types");
static_assert(kFail == ORT_FAIL && kInvalidArgument == ORT_INVALID_ARGUMENT, "error codes");
static_assert(kHardwareCpu == OrtHardwareDeviceType_CPU && kHardwareGpu == OrtHardwareDeviceType_GPU,
              "kinds of hardware");
static_assert(kMemoryOfCpu == OrtMemoryInfoDeviceType_CPU && kMemoryOfGpu == OrtMemoryInfoDeviceType_GPU &&
                  kDeviceMemory == OrtDeviceMemoryType_DEFAULT && kDeviceAllocator == OrtDeviceAllocator &&
                  kHostInput == OrtMemTypeCPUInput && kHostOutput == OrtMemTypeCPUOutput,
              "kinds of memory");

} // namespace polyconv_ort
