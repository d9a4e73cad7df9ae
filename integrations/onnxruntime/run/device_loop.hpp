// device_loop.hpp - what operators between layers are on a device with memory of its own: plain data that describes one
// launch, and the table of the library that launches it. The provider fills the data and knows nothing of CUDA; the
// library, libpolyconv_onnxruntime_cuda.so, is loaded where a GPU is, and knows nothing of the runtime.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_DEVICE_LOOP_HPP
#define POLYCONV_ORT_DEVICE_LOOP_HPP

#include <cstdint>

#if defined(__CUDACC__)
#define POLYCONV_ORT_BOTH __host__ __device__
#else
#define POLYCONV_ORT_BOTH
#endif

namespace polyconv_ort {

constexpr int kMostAxes = 5;
constexpr int kMostDeviceSteps = 8, kMostDeviceOperands = kMostDeviceSteps + 1;

enum class Element : int32_t { kF32, kF16, kBytes }; // bytes are moved as they are

enum class StepKind : int32_t { kSum, kDifference, kProduct, kQuotient, kClamp, kHardSigmoid, kHardSwish, kLeakyRelu };

// For each index (i0, i1, ...) below `sizes`: the first operand's element there, through all steps, goes to `result`.
// Strides are of elements. An operand's index along an axis is i / repeat.
struct DeviceLoop {
  struct Operand {
    const void *data;
    int64_t strides[kMostAxes];
    Element element;
  };
  struct Step {
    StepKind kind;
    int32_t operand; // the second number's; -1: none
    float alpha, beta;
  };
  int32_t axes, operand_count, step_count;
  Element element; // of the result
  int64_t sizes[kMostAxes], repeat[kMostAxes], result_strides[kMostAxes];
  void *result;
  Operand operands[kMostDeviceOperands];
  Step steps[kMostDeviceSteps];
};

// The mean of `pixels` elements for each image and channel, summed in double; results are dense, [images][channels].
struct DeviceAverage {
  int64_t images, channels, pixels;
  int64_t image_stride, channel_stride, pixel_stride; // of elements
  Element element;
  const void *from;
  void *to;
};

// What a library has; functions enqueue on `stream` of GPU `device` and return 0, or a number for `text`.
struct DevicePasses {
  uint32_t version; // kDevicePasses
  int (*loop)(int device, const DeviceLoop *, void *stream);
  int (*average)(int device, const DeviceAverage *, void *stream);
  const char *(*text)(int error);
};
constexpr uint32_t kDevicePasses = 1;
using DevicePassesQuery = const DevicePasses *(*)();
constexpr char kDevicePassesEntry[] = "polyconv_onnxruntime_passes";

// One step of a loop; NaN stays.
POLYCONV_ORT_BOTH inline float clamped(float x, float least, float most) {
  x = x < least ? least : x;
  return x > most ? most : x;
}

POLYCONV_ORT_BOTH inline float stepped(StepKind kind, float alpha, float beta, float a, float b) {
  switch (kind) {
    case StepKind::kSum: return a + b;
    case StepKind::kDifference: return a - b;
    case StepKind::kProduct: return a * b;
    case StepKind::kQuotient: return a / b;
    case StepKind::kClamp: return clamped(a, alpha, beta);
    case StepKind::kHardSigmoid: return clamped(alpha * a + beta, 0, 1);
    case StepKind::kHardSwish: return a * clamped(a * (1.0f / 6) + 0.5f, 0, 1);
    case StepKind::kLeakyRelu: return a < 0 ? alpha * a : a;
  }
  return a;
}

} // namespace polyconv_ort
#endif // POLYCONV_ORT_DEVICE_LOOP_HPP
