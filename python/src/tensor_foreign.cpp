// tensor_foreign.cpp - looks at PyTorch's tensors by their attributes and at anything's by DLPack; and the class by
// which Python sees what was seen.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "dlpack.hpp"
#include "tensor.hpp"

namespace polyconv_python {
namespace {

bool truth(nb::handle object, PyObject *name) {
  nb::object value = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!value.is_valid()) nb::raise_python_error();
  return value.ptr() == Py_True;
}

nb::object call(nb::handle object, PyObject *name) {
  nb::object method = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!method.is_valid()) nb::raise_python_error();
  nb::object result = nb::steal(PyObject_CallNoArgs(method.ptr()));
  if (!result.is_valid()) nb::raise_python_error();
  return result;
}

// Copies a tuple of integers; a longer one is refused.
int take_tuple(nb::handle tuple, int64_t *to, const char *role) {
  const Py_ssize_t count = PyTuple_Size(tuple.ptr());
  if (count > kMaxAxes) refuse(std::string(role) + " has " + std::to_string(count) + " axes, expected at most 5");
  for (Py_ssize_t i = 0; i < count; ++i) to[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple.ptr(), i));
  if (PyErr_Occurred()) nb::raise_python_error();
  return static_cast<int>(count);
}

// The capsule of __dlpack__, by version 1 where the producer has it. The stream goes to CUDA producers alone.
nb::object capsule_of(nb::handle from, bool cuda, intptr_t stream) {
  nb::object producer = from.attr("__dlpack__");
  nb::dict arguments;
  if (cuda) arguments["stream"] = stream == 0 ? 1 : stream; // 1 is DLPack's name for the legacy default stream
  arguments["max_version"] = nb::make_tuple(1, 0);
  nb::tuple none;
  nb::object capsule = nb::steal(PyObject_Call(producer.ptr(), none.ptr(), arguments.ptr()));
  if (!capsule.is_valid() && PyErr_ExceptionMatches(PyExc_TypeError)) { // older than version 1
    PyErr_Clear();
    nb::del(arguments["max_version"]);
    capsule = nb::steal(PyObject_Call(producer.ptr(), none.ptr(), arguments.ptr()));
  }
  if (!capsule.is_valid()) nb::raise_python_error();
  return capsule;
}

nb::tuple as_tuple(const int64_t *from, int count) {
  nb::list list;
  for (int i = 0; i < count; ++i) list.append(from[i]);
  return nb::tuple(list);
}

} // namespace

// The library's type of a torch.dtype: these are objects for ever, so that addresses tell them apart.
int32_t type_of_torch(nb::handle dtype) {
  static PyObject *types = nullptr;
  const nb::handle all = made_once(types, [] { return nb::object(kinds().attr("torch_types")()); });
  PyObject *found = PyDict_GetItem(all.ptr(), dtype.ptr());
  return found != nullptr ? static_cast<int32_t>(PyLong_AsLong(found)) : 0;
}

int32_t dlpack::type_of(DataType type) {
  if (type.lanes != 1) return 0;
  switch (type.code * 256 + type.bits) {
    case kFloat * 256 + 64: return POLYCONV_F64;
    case kFloat * 256 + 32: return POLYCONV_F32;
    case kFloat * 256 + 16: return POLYCONV_F16;
    case kBfloat * 256 + 16: return POLYCONV_BF16;
    case kInt * 256 + 32: return POLYCONV_S32;
    case kInt * 256 + 8: return POLYCONV_S8;
    case kUnsigned * 256 + 8: return POLYCONV_U8;
    case kUnsigned * 256 + 16: return POLYCONV_U16;
    default: return 0;
  }
}

void Tensor::look_at_torch(nb::handle from, const char *role) {
  POLYCONV_NAME(name_requires_grad, "requires_grad");
  POLYCONV_NAME(name_is_cuda, "is_cuda");
  POLYCONV_NAME(name_is_cpu, "is_cpu");
  POLYCONV_NAME(name_is_neg, "is_neg");
  POLYCONV_NAME(name_get_device, "get_device");
  POLYCONV_NAME(name_shape, "shape");
  POLYCONV_NAME(name_stride, "stride");
  POLYCONV_NAME(name_dtype, "dtype");
  POLYCONV_NAME(name_data_ptr, "data_ptr");
  if (truth(from, name_requires_grad))
    refuse(std::string(role) + " is a tensor that requires grad, expected one that doesn't: this function records no " +
           "gradient; give " + role + ".detach(), or use torch.nn with polyconv.torch.enable()");
  if (call(from, name_is_neg).ptr() == Py_True)
    refuse(std::string(role) +
           " is a view whose numbers are negated when they are read, as of .conj().imag, expected " +
           "numbers in memory: give " + role + ".resolve_neg()");
  cuda = truth(from, name_is_cuda);
  if (cuda == 0 && !truth(from, name_is_cpu))
    refuse(std::string(role) + " is on device " + nb::cast<std::string>(nb::str(nb::object(from.attr("device")))) +
           ", expected cpu or cuda");
  if (cuda != 0) device = nb::cast<int32_t>(call(from, name_get_device));
  nb::object dtype = nb::steal(PyObject_GetAttr(from.ptr(), name_dtype));
  if (!dtype.is_valid()) nb::raise_python_error();
  type = type_of_torch(dtype);
  try {
    nb::object sizes = nb::steal(PyObject_GetAttr(from.ptr(), name_shape));
    if (!sizes.is_valid()) nb::raise_python_error();
    axes = take_tuple(sizes, shape, role);
    take_tuple(call(from, name_stride), stride, role);
    data = reinterpret_cast<char *>(nb::cast<uintptr_t>(call(from, name_data_ptr)));
  } catch (const nb::python_error &error) { // sparse ones, those of vmap, and whatever else hides its numbers
    refuse(std::string(role) + " is a tensor without memory of its own, expected a dense one; PyTorch says: " +
           nb::cast<std::string>(nb::str(error.value())));
  }
  bool empty = false;
  for (int axis = 0; axis < axes; ++axis) empty |= shape[axis] == 0;
  if (data == nullptr && !empty) // of torch.compile, which traces shapes
    refuse(std::string(role) +
           " is a tensor without memory, as torch.compile traces with, expected one with numbers; use " +
           "torch.nn with polyconv.torch.enable() in what is compiled");
}

bool Tensor::look_at_dlpack(nb::handle from, const char *role, intptr_t stream) {
  if (!nb::hasattr(from, "__dlpack__") || !nb::hasattr(from, "__dlpack_device__")) return false;
  const auto place = nb::cast<nb::tuple>(from.attr("__dlpack_device__")());
  const int type_of_device = nb::cast<int>(nb::int_(nb::object(place[0]))); // an enumeration in NumPy
  const bool on_cuda = type_of_device == dlpack::kCuda || type_of_device == dlpack::kCudaManaged;
  if (!on_cuda && type_of_device != dlpack::kCpu && type_of_device != dlpack::kCudaHost)
    refuse(std::string(role) + " is on a device of DLPack's type " + std::to_string(type_of_device) +
           ", expected 1 (CPU) or 2 (CUDA)");
  nb::object capsule = capsule_of(from, on_cuda, stream);
  versioned_ = PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0;
  void *found = PyCapsule_GetPointer(capsule.ptr(), versioned_ ? "dltensor_versioned" : "dltensor");
  if (found == nullptr) nb::raise_python_error();
  if (versioned_ && static_cast<dlpack::ManagedVersioned *>(found)->major != 1)
    refuse(std::string(role) + " comes as DLPack's version " +
           std::to_string(static_cast<dlpack::ManagedVersioned *>(found)->major) + ", expected 1");
  PyCapsule_SetName(capsule.ptr(), versioned_ ? "used_dltensor_versioned" : "used_dltensor");
  managed_ = found;
  const dlpack::Tensor &seen = versioned_ ? static_cast<dlpack::ManagedVersioned *>(found)->tensor
                                          : static_cast<dlpack::Managed *>(found)->tensor;
  read_only = kind == Kind::kJax ||
              (versioned_ && (static_cast<dlpack::ManagedVersioned *>(found)->flags & dlpack::kReadOnly) != 0);
  if (seen.ndim > kMaxAxes)
    refuse(std::string(role) + " has " + std::to_string(seen.ndim) + " axes, expected at most 5");
  data = static_cast<char *>(seen.data) + seen.byte_offset;
  cuda = on_cuda;
  device = on_cuda ? seen.device.id : 0;
  type = dlpack::type_of(seen.type);
  axes = seen.ndim;
  std::memcpy(shape, seen.shape, sizeof(int64_t) * static_cast<size_t>(axes));
  make_dense();
  if (seen.strides != nullptr) std::memcpy(stride, seen.strides, sizeof(int64_t) * static_cast<size_t>(axes));
  return true;
}

void bind_tensor(nb::module_ &module) {
  nb::class_<Tensor>(module, "Tensor")
      .def(
          "__init__",
          [](Tensor *self, nb::handle from, const char *role, intptr_t stream) {
            new (self) Tensor();
            try {
              self->look(from, role, stream, true);
            } catch (...) { // nanobind destroys nothing whose __init__ failed, and the array would stay lent for ever
              self->~Tensor();
              throw;
            }
          },
          nb::arg("object"), nb::arg("role"), nb::arg("stream") = 0, nb::keep_alive<1, 2>())
      .def_prop_ro("pointer", [](const Tensor &t) { return reinterpret_cast<intptr_t>(t.data); })
      .def_ro("type", &Tensor::type)
      .def_ro("cuda", &Tensor::cuda)
      .def_ro("device", &Tensor::device)
      .def_ro("read_only", &Tensor::read_only)
      .def_prop_ro("kind", [](const Tensor &t) { return static_cast<int>(t.kind); })
      .def_prop_ro("shape", [](const Tensor &t) { return as_tuple(t.shape, t.axes); })
      .def_prop_ro("strides", [](const Tensor &t) { return as_tuple(t.stride, t.axes); });
}

} // namespace polyconv_python
