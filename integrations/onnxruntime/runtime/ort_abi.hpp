// ort_abi.hpp - the part of ONNX Runtime's C ABI that the execution provider uses, as facts: for each table the number
// of the slot in which a function lies and its signature. Tables only grow at the end, so a slot keeps its number in
// every later release.
//
// Source: onnxruntime_c_api.h and onnxruntime_ep_c_api.h of ONNX Runtime. Every slot of OrtApi and OrtEpApi below
// exists since version 1.24 or earlier; the tables that a provider fills are those of 1.24, the oldest version that it
// serves. The numbers are checked twice: by check_abi.cpp against a release's headers where POLYCONV_ORT_HEADERS names
// their folder, and by check.sh against the runtimes of PyPI.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_ABI_HPP
#define POLYCONV_ORT_ABI_HPP

#include <cstddef>
#include <cstdint>

// Objects that only the runtime looks into.
struct OrtStatus;
struct OrtValue;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtKernelContext;
struct OrtLogger;
struct OrtOpAttr;
struct OrtValueInfo;
struct OrtGraph;
struct OrtNode;
struct OrtKeyValuePairs;
struct OrtHardwareDevice;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtSessionOptions;
struct OrtMemoryInfo;
struct OrtMemoryDevice;
struct OrtSyncStream;
struct OrtAllocator;
struct OrtKernelRegistry;
struct OrtKernelDefBuilder;
struct OrtKernelDef;
struct OrtKernelInfo;
struct OrtDataType;
struct OrtNodeComputeContext;
struct OrtEp;
struct OrtEpFactory;

namespace polyconv_ort {

constexpr uint32_t kOldestApi = 24; // of ONNX Runtime 1.24

constexpr int kFail = 1,
              kInvalidArgument = 2; // OrtErrorCode. Not EP_FAIL: at that, Python runs the model again without us
constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kHalf = 10; // ONNXTensorElementDataType
constexpr int kAttributeInt = 1, kAttributeInts = 2, kAttributeFloat = 3, kAttributeString = 5; // OrtOpAttrType
constexpr int kLogInfo = 1, kLogWarning = 2;                                                    // OrtLoggingLevel
constexpr int kHardwareCpu = 0, kHardwareGpu = 1;                                               // OrtHardwareDeviceType
constexpr int kMemoryOfCpu = 0, kMemoryOfGpu = 1; // OrtMemoryInfoDeviceType
constexpr int kDeviceMemory = 0;                  // OrtDeviceMemoryType
constexpr int kHostInput = -2, kHostOutput = -1;  // OrtMemType
constexpr int kDeviceAllocator = 0;               // OrtAllocatorType
constexpr uint32_t kNvidia = 0x10de;              // its number as a vendor of PCI devices

struct KernelImpl; // below
using KernelCreate = OrtStatus *(*)(void *state, const OrtKernelInfo *, KernelImpl **);

// Slots of OrtApi: X(name, slot, result, parameters).
#define POLYCONV_ORT_API(X)                                                                                           \
  X(CreateStatus, 0, OrtStatus *, (int code, const char *message))                                                    \
  X(GetErrorMessage, 2, const char *, (const OrtStatus *))                                                            \
  X(GetTensorMutableData, 51, OrtStatus *, (OrtValue *, void **data))                                                 \
  X(CastTypeInfoToTensorInfo, 55, OrtStatus *, (const OrtTypeInfo *, const OrtTensorTypeAndShapeInfo **))             \
  X(GetTensorElementType, 60, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, int *type))                            \
  X(GetDimensionsCount, 61, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, size_t *))                               \
  X(GetDimensions, 62, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, int64_t *, size_t))                           \
  X(GetSymbolicDimensions, 63, OrtStatus *, (const OrtTensorTypeAndShapeInfo *, const char **, size_t))               \
  X(GetTensorTypeAndShape, 65, OrtStatus *, (const OrtValue *, OrtTensorTypeAndShapeInfo **))                         \
  X(KernelContext_GetInput, 90, OrtStatus *, (const OrtKernelContext *, size_t, const OrtValue **))                   \
  X(KernelContext_GetOutput, 91, OrtStatus *, (OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **))     \
  X(ReleaseStatus, 93, void, (OrtStatus *))                                                                           \
  X(ReleaseMemoryInfo, 94, void, (OrtMemoryInfo *))                                                                   \
  X(ReleaseTensorTypeAndShapeInfo, 99, void, (OrtTensorTypeAndShapeInfo *))                                           \
  X(ReleaseAllocator, 132, void, (OrtAllocator *))                                                                    \
  X(KernelContext_GetGPUComputeStream, 193, OrtStatus *, (const OrtKernelContext *, void **stream))                   \
  X(Logger_LogMessage, 247, OrtStatus *,                                                                              \
    (const OrtLogger *, int severity, const char *message, const char *file, int line, const char *function))         \
  X(KernelContext_GetAllocator, 253, OrtStatus *, (const OrtKernelContext *, const OrtMemoryInfo *, OrtAllocator **)) \
  X(ReadOpAttr, 272, OrtStatus *, (const OrtOpAttr *, int type, void *data, size_t bytes, size_t *needed))            \
  X(KernelContext_ParallelFor, 274, OrtStatus *,                                                                      \
    (const OrtKernelContext *, void (*task)(void *, size_t), size_t total, size_t batches, void *data))               \
  X(KernelContext_GetScratchBuffer, 277, OrtStatus *,                                                                 \
    (const OrtKernelContext *, const OrtMemoryInfo *, size_t bytes, void **))                                         \
  X(GetValueInfoName, 289, OrtStatus *, (const OrtValueInfo *, const char **))                                        \
  X(GetValueInfoTypeInfo, 290, OrtStatus *, (const OrtValueInfo *, const OrtTypeInfo **))                             \
  X(CreateKeyValuePairs, 295, void, (OrtKeyValuePairs **))                                                            \
  X(AddKeyValuePair, 296, void, (OrtKeyValuePairs *, const char *key, const char *value))                             \
  X(GetKeyValue, 297, const char *, (const OrtKeyValuePairs *, const char *key))                                      \
  X(GetKeyValuePairs, 298, void,                                                                                      \
    (const OrtKeyValuePairs *, const char *const **keys, const char *const **values, size_t *count))                  \
  X(ReleaseKeyValuePairs, 300, void, (OrtKeyValuePairs *))                                                            \
  X(HardwareDevice_Type, 307, int, (const OrtHardwareDevice *))                                                       \
  X(HardwareDevice_VendorId, 308, uint32_t, (const OrtHardwareDevice *))                                              \
  X(GetEpApi, 317, const void *, ())                                                                                  \
  X(GetTensorSizeInBytes, 318, OrtStatus *, (const OrtValue *, size_t *))                                             \
  X(CreateMemoryInfo_V2, 320, OrtStatus *,                                                                            \
    (const char *name, int device_type, uint32_t vendor, int32_t device, int memory_type, size_t alignment,           \
     int allocator_type, OrtMemoryInfo **))                                                                           \
  X(ValueInfo_GetValueNumConsumers, 324, OrtStatus *, (const OrtValueInfo *, size_t *))                               \
  X(ValueInfo_GetValueConsumers, 325, OrtStatus *, (const OrtValueInfo *, const OrtNode **, int64_t *, size_t))       \
  X(ValueInfo_GetInitializerValue, 326, OrtStatus *, (const OrtValueInfo *, const OrtValue **))                       \
  X(ValueInfo_IsGraphOutput, 330, OrtStatus *, (const OrtValueInfo *, bool *))                                        \
  X(ValueInfo_IsConstantInitializer, 331, OrtStatus *, (const OrtValueInfo *, bool *))                                \
  X(Graph_GetNumNodes, 344, OrtStatus *, (const OrtGraph *, size_t *))                                                \
  X(Graph_GetNodes, 345, OrtStatus *, (const OrtGraph *, const OrtNode **, size_t))                                   \
  X(Node_GetId, 348, OrtStatus *, (const OrtNode *, size_t *))                                                        \
  X(Node_GetName, 349, OrtStatus *, (const OrtNode *, const char **))                                                 \
  X(Node_GetOperatorType, 350, OrtStatus *, (const OrtNode *, const char **))                                         \
  X(Node_GetDomain, 351, OrtStatus *, (const OrtNode *, const char **))                                               \
  X(Node_GetNumInputs, 353, OrtStatus *, (const OrtNode *, size_t *))                                                 \
  X(Node_GetInputs, 354, OrtStatus *, (const OrtNode *, const OrtValueInfo **, size_t))                               \
  X(Node_GetNumOutputs, 355, OrtStatus *, (const OrtNode *, size_t *))                                                \
  X(Node_GetOutputs, 356, OrtStatus *, (const OrtNode *, const OrtValueInfo **, size_t))                              \
  X(Node_GetNumImplicitInputs, 357, OrtStatus *, (const OrtNode *, size_t *))                                         \
  X(Node_GetImplicitInputs, 358, OrtStatus *, (const OrtNode *, const OrtValueInfo **, size_t))                       \
  X(Node_GetAttributeByName, 361, OrtStatus *, (const OrtNode *, const char *, const OrtOpAttr **))                   \
  X(Node_GetEpName, 368, OrtStatus *, (const OrtNode *, const char **))                                               \
  X(GetSessionOptionsConfigEntries, 379, OrtStatus *, (const OrtSessionOptions *, OrtKeyValuePairs **))               \
  X(SyncStream_GetHandle, 384, void *, (OrtSyncStream *))

// Slots of OrtEpApi.
#define POLYCONV_ORT_EP_API(X)                                                                                         \
  X(CreateEpDevice, 0, OrtStatus *,                                                                                    \
    (OrtEpFactory *, const OrtHardwareDevice *, const OrtKeyValuePairs *metadata, const OrtKeyValuePairs *options,     \
     OrtEpDevice **))                                                                                                  \
  X(EpGraphSupportInfo_AddNodesToFuse, 2, OrtStatus *,                                                                 \
    (OrtEpGraphSupportInfo *, const OrtNode *const *, size_t, const void *fusion_options))                             \
  X(EpDevice_AddAllocatorInfo, 5, OrtStatus *, (OrtEpDevice *, const OrtMemoryInfo *))                                 \
  X(MemoryInfo_GetMemoryDevice, 6, const OrtMemoryDevice *, (const OrtMemoryInfo *))                                   \
  X(Value_GetMemoryDevice, 7, const OrtMemoryDevice *, (const OrtValue *))                                             \
  X(MemoryDevice_GetDeviceType, 9, int, (const OrtMemoryDevice *))                                                     \
  X(MemoryDevice_GetVendorId, 11, uint32_t, (const OrtMemoryDevice *))                                                 \
  X(MemoryDevice_GetDeviceId, 12, uint32_t, (const OrtMemoryDevice *))                                                 \
  X(CreateKernelRegistry, 18, OrtStatus *, (OrtKernelRegistry **))                                                     \
  X(ReleaseKernelRegistry, 19, void, (OrtKernelRegistry *))                                                            \
  X(KernelRegistry_AddKernel, 20, OrtStatus *, (OrtKernelRegistry *, const OrtKernelDef *, KernelCreate, void *state)) \
  X(CreateKernelDefBuilder, 21, OrtStatus *, (OrtKernelDefBuilder **))                                                 \
  X(ReleaseKernelDefBuilder, 22, void, (OrtKernelDefBuilder *))                                                        \
  X(KernelDefBuilder_SetOperatorType, 23, OrtStatus *, (OrtKernelDefBuilder *, const char *))                          \
  X(KernelDefBuilder_SetDomain, 24, OrtStatus *, (OrtKernelDefBuilder *, const char *))                                \
  X(KernelDefBuilder_SetSinceVersion, 25, OrtStatus *, (OrtKernelDefBuilder *, int first, int last))                   \
  X(KernelDefBuilder_SetExecutionProvider, 26, OrtStatus *, (OrtKernelDefBuilder *, const char *))                     \
  X(KernelDefBuilder_SetInputMemType, 27, OrtStatus *, (OrtKernelDefBuilder *, size_t input, int type))                \
  X(KernelDefBuilder_SetOutputMemType, 28, OrtStatus *, (OrtKernelDefBuilder *, size_t output, int type))              \
  X(KernelDefBuilder_AddTypeConstraint, 29, OrtStatus *,                                                               \
    (OrtKernelDefBuilder *, const char *name, const OrtDataType *const *, size_t))                                     \
  X(KernelDefBuilder_Build, 32, OrtStatus *, (OrtKernelDefBuilder *, OrtKernelDef **))                                 \
  X(ReleaseKernelDef, 33, void, (OrtKernelDef *))                                                                      \
  X(GetTensorDataType, 40, OrtStatus *, (int type, const OrtDataType **))

// A table of the runtime as functions by name.
#define POLYCONV_ORT_FUNCTION(name, slot, result, parameters) \
  using name##_t = result(*) parameters;                      \
  name##_t name = nullptr;
#define POLYCONV_ORT_LOAD(name, slot, result, parameters) name = reinterpret_cast<name##_t>(table[slot]);

struct Api {
  POLYCONV_ORT_API(POLYCONV_ORT_FUNCTION)
  explicit Api(const void *api) {
    auto table = static_cast<void *const *>(api);
    POLYCONV_ORT_API(POLYCONV_ORT_LOAD)
  }
};

struct EpApi {
  POLYCONV_ORT_EP_API(POLYCONV_ORT_FUNCTION)
  explicit EpApi(const void *api) {
    auto table = static_cast<void *const *>(api);
    POLYCONV_ORT_EP_API(POLYCONV_ORT_LOAD)
  }
};
#undef POLYCONV_ORT_FUNCTION
#undef POLYCONV_ORT_LOAD

struct ApiBase {
  const void *(*GetApi)(uint32_t version); // NULL for a version that the runtime does not have yet
  const char *(*GetVersionString)();
};

struct NodeFusionOptions {
  uint32_t version;
  bool drop_constant_initializers; // the provider keeps its own copy of constants, and gets none as inputs of a run
};

// What computes one fused node.
struct NodeComputeInfo {
  uint32_t version;
  OrtStatus *(*CreateState)(NodeComputeInfo *, OrtNodeComputeContext *, void **state);
  OrtStatus *(*Compute)(NodeComputeInfo *, void *state, OrtKernelContext *);
  void (*ReleaseState)(NodeComputeInfo *, void *state);
};

// OrtKernelImpl as of 1.24: what computes one node of a type that is not compiled.
struct KernelImpl {
  uint32_t version, flags; // 0: the runtime's own
  OrtStatus *(*Compute)(KernelImpl *, OrtKernelContext *);
  void (*Release)(KernelImpl *);
  void *optional[2]; // PrePackWeight, SetSharedPrePackedWeight
};

// OrtAllocator as of 1.24.
struct Allocator {
  uint32_t version;
  void *(*Alloc)(Allocator *, size_t bytes);
  void (*Free)(Allocator *, void *);
  const OrtMemoryInfo *(*Info)(const Allocator *);
  void *(*Reserve)(Allocator *, size_t bytes); // for the time of a session's creation
  OrtStatus *(*GetStats)(const Allocator *, OrtKeyValuePairs **);
  void *(*AllocOnStream)(Allocator *, size_t bytes, OrtSyncStream *);
};

// OrtDataTransferImpl as of 1.24.
struct DataTransfer {
  uint32_t version;
  void (*Release)(DataTransfer *);
  bool (*CanCopy)(const DataTransfer *, const OrtMemoryDevice *from, const OrtMemoryDevice *to);
  OrtStatus *(*CopyTensors)(DataTransfer *, const OrtValue **from, OrtValue **to, OrtSyncStream **streams,
                            size_t count);
};

// OrtSyncNotificationImpl as of 1.24: a point in a stream.
struct SyncNotification {
  uint32_t version;
  void (*Release)(SyncNotification *);
  OrtStatus *(*Activate)(SyncNotification *);
  OrtStatus *(*WaitOnDevice)(SyncNotification *, OrtSyncStream *waiting);
  OrtStatus *(*WaitOnHost)(SyncNotification *);
};

// OrtSyncStreamImpl as of 1.24.
struct SyncStream {
  uint32_t version;
  void (*Release)(SyncStream *);
  void *(*GetHandle)(SyncStream *);
  OrtStatus *(*CreateNotification)(SyncStream *, SyncNotification **);
  OrtStatus *(*Flush)(SyncStream *);
  OrtStatus *(*OnSessionRunEnd)(SyncStream *);
};

// OrtEp as of 1.24. What is NULL has the runtime's default.
struct Ep {
  uint32_t version;
  const char *(*GetName)(const Ep *);
  OrtStatus *(*GetCapability)(Ep *, const OrtGraph *, OrtEpGraphSupportInfo *);
  OrtStatus *(*Compile)(Ep *, const OrtGraph **graphs, const OrtNode **fused, size_t count, NodeComputeInfo **infos,
                        OrtNode **context_nodes);
  void (*ReleaseNodeComputeInfos)(Ep *, NodeComputeInfo **, size_t count);
  void *optional[8]; // GetPreferredDataLayout to GetCompiledModelCompatibilityInfo
  OrtStatus *(*GetKernelRegistry)(Ep *, const OrtKernelRegistry **); // NULL: there are no kernels
  void *concurrent;                                                  // IsConcurrentRunSupported
};

// OrtEpFactory as of 1.24.
struct EpFactory {
  uint32_t version;
  const char *(*GetName)(const EpFactory *);
  const char *(*GetVendor)(const EpFactory *);
  OrtStatus *(*GetSupportedDevices)(EpFactory *, const OrtHardwareDevice *const *, size_t count, OrtEpDevice **,
                                    size_t most, size_t *supported);
  OrtStatus *(*CreateEp)(EpFactory *, const OrtHardwareDevice *const *, const OrtKeyValuePairs *const *, size_t count,
                         const OrtSessionOptions *, const OrtLogger *, Ep **);
  void (*ReleaseEp)(EpFactory *, Ep *);
  uint32_t (*GetVendorId)(const EpFactory *);
  const char *(*GetVersion)(const EpFactory *);
  OrtStatus *(*ValidateCompiledModelCompatibilityInfo)(EpFactory *, const OrtHardwareDevice *const *, size_t,
                                                       const char *, int *);
  OrtStatus *(*CreateAllocator)(EpFactory *, const OrtMemoryInfo *, const OrtKeyValuePairs *, Allocator **);
  void (*ReleaseAllocator)(EpFactory *, Allocator *);
  OrtStatus *(*CreateDataTransfer)(EpFactory *, DataTransfer **);
  bool (*IsStreamAware)(const EpFactory *);
  OrtStatus *(*CreateSyncStreamForDevice)(EpFactory *, const OrtMemoryDevice *, const OrtKeyValuePairs *,
                                          SyncStream **);
  void *optional[4]; // GetHardwareDeviceIncompatibilityDetails to GetCustomOpDomains
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_ABI_HPP
