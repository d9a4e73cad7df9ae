// tensor.hpp - an array of somebody else's, seen without a copy: pointer, type, shape, strides, device, and whatever
// keeps the memory alive while it is looked at.
//
// Four ways lead in, the quickest first: NumPy arrays by the buffer protocol, PyTorch tensors by their attributes
// (their
// __dlpack__ is a Python function of several microseconds), anything by DLPack, and the array interfaces for what has
// neither, bfloat16 in NumPy among it.
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_PYTHON_TENSOR_HPP
#define POLYCONV_PYTHON_TENSOR_HPP

#include "status.hpp"

namespace polyconv_python {

enum class Kind : int32_t { kNumpy = 0, kTorch = 1, kCupy = 2, kJax = 3, kOther = 4, kMasked = 5 };

inline constexpr int kMaxAxes = 6; // batch, channels, three spatial axes, and one to be told of in words

struct Tensor {
  char *data = nullptr;
  int32_t type = 0; // POLYCONV_F32 and so on; 0: none of the library's
  int32_t cuda = 0; // 1: memory of a CUDA device
  int32_t device = 0;
  int32_t axes = 0;
  bool read_only = false;
  Kind kind = Kind::kOther;
  int64_t shape[kMaxAxes] = {};
  int64_t stride[kMaxAxes] = {}; // in elements
  nb::handle object;             // borrowed

  Tensor() = default;
  Tensor(const Tensor &) = delete;
  Tensor &operator=(const Tensor &) = delete;
  ~Tensor() { release(); }

  // Looks at an object; `role` names it in errors. `stream` is where a CUDA array will be used: the producer makes it
  // wait for what it still has to do (DLPack's rule). PyTorch is asked to only where `hand_over` says so, as that costs
  // microseconds: not where the stream is PyTorch's own.
  void look(nb::handle from, const char *role, intptr_t stream, bool hand_over);
  bool look_at_numpy(nb::handle from, const char *role);
  void look_at_torch(nb::handle from, const char *role);
  bool look_at_dlpack(nb::handle from, const char *role, intptr_t stream);
  void look_at_interface(nb::handle from, const char *role);
  void release();

 private:
  void check_address(const char *role) const;
  void take_strides(const int64_t *from, int64_t item, const char *role);
  void make_dense();

  Py_buffer buffer_ = {};
  bool has_buffer_ = false;
  void *managed_ = nullptr; // of DLPack
  bool versioned_ = false;
  nb::object kept_;
};

// What an object is, by its type; remembered for each type.
Kind kind_of(nb::handle object);

// The library's type of a torch.dtype, 0 for one that it does not have.
int32_t type_of_torch(nb::handle dtype);

// polyconv/_kinds.py, which knows the libraries that arrays come from.
nb::handle kinds();

// Interned names of attributes.
#define POLYCONV_NAME(variable, text) static PyObject *const variable = PyUnicode_InternFromString(text)

void bind_tensor(nb::module_ &module);

} // namespace polyconv_python
#endif // POLYCONV_PYTHON_TENSOR_HPP
