// dlpack.hpp - the structs of the DLPack exchange (version 1 of its specification), written from its description: what
// a capsule called "dltensor" or "dltensor_versioned" points to, and the table of functions, since its version 1.2, by
// which a library tells of its arrays without Python.
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

// The library's type, 0 for one that it does not have.
int32_t type_of(DataType type);

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

// What the capsule "dlpack_exchange_api" of a class leads to, the class's attribute __dlpack_c_exchange_api__.
struct ExchangeApi {
  uint32_t major, minor;
  ExchangeApi *older; // by an older major version of the specification
  int (*allocate)(Tensor *prototype, ManagedVersioned **out, void *context,
                  void (*set_error)(void *context, const char *kind, const char *message));
  int (*manage)(void *object, ManagedVersioned **out);
  int (*wrap)(ManagedVersioned *from, void **object);
  int (*look)(void *object, Tensor *out); // null where a library has none; the array goes on owning all of it
  int (*current_stream)(int32_t device_type, int32_t device, void **stream);
};

} // namespace polyconv_python::dlpack
#endif // POLYCONV_PYTHON_DLPACK_HPP
