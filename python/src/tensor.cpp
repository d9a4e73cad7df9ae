// tensor.cpp - looks at arrays by the buffer protocol and by the array interfaces; DLPack and PyTorch are next door.
// SPDX-License-Identifier: Apache-2.0
#include "tensor.hpp"

#include <cstring>
#include <vector>

#include "dlpack.hpp"

namespace polyconv_python {
namespace {

struct KnownType {
  PyObject *type; // owned: a type that went could leave its address to another
  Kind kind;
};

std::vector<KnownType> &known_types() {
  static std::vector<KnownType> types;
  return types;
}

// The library's type for a format of the buffer protocol in the machine's own byte order; 0 for any other.
int32_t type_of_format(const char *format, int64_t item) {
  if (format == nullptr) return POLYCONV_U8;
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (format[0] == '\0' || format[1] != '\0') return 0;
  switch (*format) {
    case 'd': return POLYCONV_F64;
    case 'f': return POLYCONV_F32;
    case 'e': return POLYCONV_F16;
    case 'b': return POLYCONV_S8;
    case 'B': return POLYCONV_U8;
    case 'H': return POLYCONV_U16;
    case 'i':
    case 'l': return item == 4 ? POLYCONV_S32 : 0;
    default: return 0;
  }
}

} // namespace

nb::handle kinds() {
  static PyObject *module = nullptr;
  return made_once(module, [] { return nb::object(nb::module_::import_("polyconv._kinds")); });
}

Kind kind_of(nb::handle object) {
  PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(object.ptr()));
  for (const KnownType &known : known_types())
    if (known.type == type) return known.kind;
  const Kind kind = static_cast<Kind>(nb::cast<int>(kinds().attr("kind_of_type")(nb::handle(type))));
  Py_INCREF(type);
  known_types().push_back({type, kind});
  return kind;
}

void Tensor::release() {
  if (has_buffer_) PyBuffer_Release(&buffer_);
  has_buffer_ = false;
  if (managed_ != nullptr) {
    if (versioned_) {
      auto *managed = static_cast<dlpack::ManagedVersioned *>(managed_);
      if (managed->deleter != nullptr) managed->deleter(managed);
    } else {
      auto *managed = static_cast<dlpack::Managed *>(managed_);
      if (managed->deleter != nullptr) managed->deleter(managed);
    }
  }
  managed_ = nullptr;
  kept_.reset();
}

void Tensor::take_strides(const int64_t *from, int64_t item, const char *role) {
  for (int axis = 0; axis < axes; ++axis) {
    if (from[axis] % item != 0 && shape[axis] > 1)
      refuse(std::string(role) + ": the stride of axis " + std::to_string(axis) + " is " + std::to_string(from[axis]) +
             " bytes, expected a multiple of the element's " + std::to_string(item));
    stride[axis] = from[axis] / item;
  }
}

void Tensor::make_dense() {
  int64_t step = 1;
  for (int axis = axes; axis-- > 0;) {
    stride[axis] = step;
    step *= shape[axis];
  }
}

bool Tensor::look_at_numpy(nb::handle from, const char *role) {
  if (PyObject_GetBuffer(from.ptr(), &buffer_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear(); // types that the buffer protocol has no letter for, such as bfloat16
    return false;
  }
  has_buffer_ = true;
  if (buffer_.ndim > kMaxAxes)
    refuse(std::string(role) + " has " + std::to_string(buffer_.ndim) + " axes, expected at most 5");
  data = static_cast<char *>(buffer_.buf);
  axes = buffer_.ndim;
  read_only = buffer_.readonly != 0;
  type = type_of_format(buffer_.format, buffer_.itemsize);
  int64_t strides[kMaxAxes];
  for (int axis = 0; axis < axes; ++axis) {
    shape[axis] = buffer_.shape[axis];
    strides[axis] = buffer_.strides[axis];
  }
  take_strides(strides, buffer_.itemsize, role);
  return true;
}

// (pointer, shape, strides in bytes or None, type, bytes of an element, read only, device, what keeps it alive)
void Tensor::look_at_interface(nb::handle from, const char *role) {
  kept_ = kinds().attr("interface")(from, role);
  data = reinterpret_cast<char *>(nb::cast<intptr_t>(kept_[0]));
  nb::object sizes = kept_[1], steps = kept_[2];
  axes = static_cast<int32_t>(nb::len(sizes));
  if (axes > kMaxAxes) refuse(std::string(role) + " has " + std::to_string(axes) + " axes, expected at most 5");
  for (int axis = 0; axis < axes; ++axis) shape[axis] = nb::cast<int64_t>(sizes[axis]);
  type = nb::cast<int32_t>(kept_[3]);
  make_dense();
  if (!steps.is_none()) {
    int64_t strides[kMaxAxes];
    for (int axis = 0; axis < axes; ++axis) strides[axis] = nb::cast<int64_t>(steps[axis]);
    take_strides(strides, nb::cast<int64_t>(kept_[4]), role);
  }
  read_only = nb::cast<bool>(kept_[5]);
  device = nb::cast<int32_t>(kept_[6]);
  cuda = device >= 0;
  if (device < 0) device = 0;
}

void Tensor::look(nb::handle from, const char *role, intptr_t stream, bool hand_over) {
  object = from;
  kind = kind_of(from);
  if (kind == Kind::kTorch) {
    look_at_torch(from, role);
    if (hand_over && cuda != 0) kinds().attr("hand_over")(from, stream);
    return;
  }
  if (kind == Kind::kMasked)
    refuse(std::string(role) + " is a masked array, whose mask nobody would look at, expected a plain one: give " +
           role + ".filled(...)");
  if (!(kind == Kind::kNumpy && look_at_numpy(from, role)) &&
      !(kind != Kind::kNumpy && look_at_dlpack(from, role, stream)))
    look_at_interface(from, role);
  check_address(role);
}

// Kernels read whole elements: an address between two is refused, as the library's own check refuses it.
void Tensor::check_address(const char *role) const {
  const size_t item = polyconv_type_size(type);
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (item != 0 && address % item != 0)
    refuse(std::string(role) + " lies at address " + std::to_string(address) + ", expected a multiple of " +
           std::to_string(item) + ", the bytes of an element: give a copy of it");
}

} // namespace polyconv_python
