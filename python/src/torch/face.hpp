// face.hpp - what the quick way of polyconv.torch asks PyTorch and polyconv/torch: functions of both, handed over
// once, and tensors seen without a copy of their numbers. Nothing of PyTorch's headers or symbols is used, so that one
// build serves its versions.
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_PYTHON_TORCH_FACE_HPP
#define POLYCONV_PYTHON_TORCH_FACE_HPP

#include "dlpack.hpp"
#include "tensor.hpp"

namespace polyconv_python::torch_face {

// Functions of PyTorch's and of polyconv/torch; polyconv/torch/_native.py says what each is. One that a version of
// PyTorch does not have is None.
struct Functions {
  nb::object is_grad_enabled, thread_count, allows_tf32, stream_of, is_capturing, current_device; // of PyTorch
  nb::object empty_strided, empty_on_cpu, empty_on_cuda;
  nb::object float32, float64, uint8;
  nb::object convolution, autocast_type, tracing_state, mode_count, transform;
  nb::object plain_types; // a tuple of the classes that tensors have unless somebody has a class of his own
  nb::object decide_forward, decide_backward, not_taken, packed, cast, sum_for_bias, left_forward, left_backward;
  nb::object refused;                 // the class of what says why a call is PyTorch's
  nb::object on_forward, on_backward; // in the place of our own, while somebody watches; None otherwise
  const dlpack::ExchangeApi *exchange = nullptr;
  bool several_devices = false;
  int64_t mode = 0; // a number for what enable() was told
};

// There from the import of polyconv.torch to the end of the process.
Functions &functions();

// The result of a call, or its exception.
inline nb::object checked(PyObject *result) {
  if (result == nullptr) nb::raise_python_error();
  return nb::steal(result);
}
inline nb::object call(nb::handle function) {
  return checked(PyObject_CallNoArgs(function.ptr()));
}
inline bool truth(nb::handle object) {
  return object.ptr() == Py_True;
}
inline nb::object attribute(nb::handle object, PyObject *name) {
  return checked(PyObject_GetAttr(object.ptr(), name));
}

// A tensor of PyTorch's on the CPU or on CUDA, of any class; shape and strides are the tensor's own.
struct Seen {
  char *data = nullptr;
  int32_t type = 0; // of the library; 0: none of its
  int32_t device = -1;
  int32_t axes = 0;
  const int64_t *shape = nullptr, *stride = nullptr;

  Seen() = default;
  Seen(const Seen &) = delete;
  // False where it is no tensor with memory, or not on these devices.
  bool look(nb::handle tensor);
  int64_t bytes(int64_t elements) const { // of so many
    return elements * (type == POLYCONV_F64 ? 8 : type == POLYCONV_F32 ? 4 : 2);
  }

 private:
  bool look_at_attributes(nb::handle tensor);
  int64_t own_[2 * kMaxAxes]; // where PyTorch has no quick way
};

// The CUDA stream that PyTorch works on now; 0 on the CPU.
uintptr_t stream_of(int32_t device);

void bind_functions(nb::module_ &module);
void bind_forward(nb::module_ &module);
void bind_gradients(nb::module_ &module);
void bind_autocast(nb::module_ &module);

} // namespace polyconv_python::torch_face
#endif // POLYCONV_PYTHON_TORCH_FACE_HPP
