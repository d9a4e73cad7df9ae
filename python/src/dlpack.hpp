// dlpack.hpp - the structs of the DLPack exchange (version 1.0 of its specification), written from its description:
// what a capsule called "dltensor" or "dltensor_versioned" points to.
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_PYTHON_DLPACK_HPP
#define POLYCONV_PYTHON_DLPACK_HPP

#include <cstdint>

namespace polyconv_python::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t { kInt = 0, kUnsigned = 1, kFloat = 2, kBfloat = 4 };
inline constexpr uint64_t kReadOnly = 1;

struct Device {
  int32_t type;
  int32_t id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void *data;
  Device device;
  int32_t ndim;
  DataType type;
  int64_t *shape;
  int64_t *strides; // in elements; null where dense, the last axis fastest
  uint64_t byte_offset;
};

struct Managed { // "dltensor"
  Tensor tensor;
  void *manager;
  void (*deleter)(Managed *);
};

struct ManagedVersioned { // "dltensor_versioned"
  uint32_t major, minor;
  void *manager;
  void (*deleter)(ManagedVersioned *);
  uint64_t flags;
  Tensor tensor;
};

} // namespace polyconv_python::dlpack
#endif // POLYCONV_PYTHON_DLPACK_HPP
