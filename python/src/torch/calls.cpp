// calls.cpp - the way of every convolution of a network through polyconv.torch: it has to be short. What a call
// looks like is looked up, tensors are made by PyTorch, the plan runs.
// SPDX-License-Identifier: Apache-2.0
#include "torch/calls.hpp"

#include <cstring>

namespace polyconv_python::torch_face {
namespace {

// Memory for runs on the CPU: a thread's own, which its next run takes over, unless it is large.
class Scratch {
 public:
  explicit Scratch(size_t bytes) {
    constexpr size_t kMost = 64 << 20;
    thread_local std::unique_ptr<Memory> kept;
    if (kept == nullptr || kept->bytes < bytes) {
      auto fresh = std::make_unique<Memory>("cpu", bytes);
      (bytes <= kMost ? kept : own_) = std::move(fresh);
    }
    pointer = own_ != nullptr ? own_->pointer : kept->pointer;
  }
  void *pointer;

 private:
  std::unique_ptr<Memory> own_;
};

// PyTorch's function takes type and device by name.
nb::object make_by_function(const nb::object &shape, const nb::object &strides, const nb::object &dtype,
                            const nb::object &device) {
  static PyObject *names = nullptr;
  made_once(names, [] { return nb::object(nb::make_tuple("dtype", "device")); });
  PyObject *arguments[] = {nullptr, shape.ptr(), strides.ptr(), dtype.ptr(), device.ptr()};
  return checked(
      PyObject_Vectorcall(functions().empty_strided.ptr(), arguments + 1, 2 | PY_VECTORCALL_ARGUMENTS_OFFSET, names));
}

nb::object make_tensor(const nb::object &shape, const nb::object &strides, const nb::object &dtype,
                       const nb::object &device, int32_t index) {
  const Functions &all = functions();
  const nb::object &quick = index < 0 ? all.empty_on_cpu : all.empty_on_cuda;
  const bool here = index < 0 || !all.several_devices || nb::cast<int32_t>(call(all.current_device)) == index;
  if (quick.is_none() || !here) return make_by_function(shape, strides, dtype, device);
  PyObject *arguments[] = {nullptr, shape.ptr(), strides.ptr(), dtype.ptr()};
  return checked(PyObject_Vectorcall(quick.ptr(), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

} // namespace

nb::object make(const nb::object &shape, const nb::object &strides, const nb::object &dtype, const nb::object &device,
                int32_t index, const char *name, Seen &seen) {
  nb::object made = make_tensor(shape, strides, dtype, device, index);
  if (!seen.look(made)) refuse(std::string(name) + " is a tensor without memory, expected one");
  return made;
}

nb::object make_bytes(const Ready &ready, const nb::object &shape, int32_t index, const char *name, Seen &seen) {
  static PyObject *step = nullptr;
  made_once(step, [] { return nb::object(nb::make_tuple(1)); });
  return make(shape, nb::borrow(step), functions().uint8, ready.device, index, name, seen);
}

nb::object in_type(nb::handle tensor, nb::handle dtype) {
  POLYCONV_NAME(name_to, "to");
  const nb::object method = attribute(tensor, name_to);
  PyObject *arguments[] = {nullptr, dtype.ptr()};
  return checked(PyObject_Vectorcall(method.ptr(), arguments + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

nb::object make_result(const Ready &ready, int32_t index, const char *name, Seen &seen) {
  return make(ready.shape, ready.strides, ready.dtype, ready.device, index, name, seen);
}

Ready::Ready(nb::object of, nb::object out_shape, nb::object out_strides, nb::object out_dtype, nb::object on)
    : plan_object(std::move(of)),
      shape(std::move(out_shape)),
      strides(std::move(out_strides)),
      dtype(std::move(out_dtype)),
      device(std::move(on)),
      plan(nb::cast<const Plan *>(plan_object)),
      type(plan->problems[0].weights_type) {
  workspace_shape = nb::make_tuple(plan->info.workspace_bytes);
  if (plan->problems[0].direction == POLYCONV_BACKWARD_WEIGHTS) return;
  const char *format = nullptr;
  int64_t bytes = 0;
  require(polyconv_plan_weights(plan->plan, 0, &format, &bytes));
  packs = std::strcmp(format, "raw") != 0;
  packed_shape = nb::make_tuple(bytes);
}

void Key::push(const Seen &tensor) {
  push(tensor.type | tensor.axes << 8 | static_cast<int64_t>(tensor.device + 1) << 16);
  for (int32_t axis = 0; axis < tensor.axes; ++axis) {
    push(tensor.shape[axis]);
    push(tensor.stride[axis]);
  }
}

void Key::push_list(nb::handle list) {
  const bool is_list = PyList_Check(list.ptr());
  if (!is_list && !PyTuple_Check(list.ptr())) {
    fits_ = false;
    return;
  }
  const Py_ssize_t count = is_list ? PyList_Size(list.ptr()) : PyTuple_Size(list.ptr());
  push(count);
  for (Py_ssize_t i = 0; i < count && fits_; ++i) {
    PyObject *number = is_list ? PyList_GetItem(list.ptr(), i) : PyTuple_GetItem(list.ptr(), i);
    push(PyLong_Check(number) ? PyLong_AsLongLong(number) : -1);
    fits_ = fits_ && PyLong_Check(number);
  }
  if (PyErr_Occurred() == nullptr) return;
  PyErr_Clear(); // a number that is too large
  fits_ = false;
}

uint64_t Key::hash() const {
  uint64_t hash = 0x9e3779b97f4a7c15u; // the golden ratio, as good as any odd number
  for (int i = 0; i < count_; ++i) {
    hash = (hash ^ static_cast<uint64_t>(numbers_[i])) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return hash;
}

bool Key::is(const std::vector<int64_t> &other) const {
  return other.size() == static_cast<size_t>(count_) &&
         std::memcmp(other.data(), numbers_, other.size() * sizeof(int64_t)) == 0;
}

nb::object Table::find(const Key &key) {
  ++clock;
  const auto at = key.fits() ? found_.find(key.hash()) : found_.end();
  if (at == found_.end()) return {};
  for (const One &one : at->second) {
    if (key.is(one.key)) return one.decided;
  }
  return {};
}

void Table::keep(const Key &key, nb::object decided) {
  if (!key.fits()) return;
  if (count_ >= kMost) clear();
  found_[key.hash()].push_back({key.numbers(), std::move(decided)});
  ++count_;
}

void Table::clear() {
  const auto going = std::move(found_); // destroyed last: what Python runs meanwhile finds an empty table
  found_.clear();
  count_ = 0;
}

Table &table() {
  static Table *kept = new Table(); // outlives the interpreter
  return *kept;
}

Ready *ready_of(nb::handle decided) {
  Ready *ready = nullptr;
  return nb::try_cast<Ready *>(decided, ready, false) ? ready : nullptr;
}

void push_switches(Key &key, int32_t device) {
  const Functions &all = functions();
  key.push(all.mode);
  if (device < 0)
    key.push(nb::cast<int64_t>(call(all.thread_count)));
  else
    key.push(truth(call(all.allows_tf32)));
}

bool trains(nb::handle w, bool forward, int32_t device) {
  POLYCONV_NAME(name_requires_grad, "requires_grad");
  return device >= 0 && truth(attribute(w, name_requires_grad)) &&
         (!forward || truth(call(functions().is_grad_enabled)));
}

void launch(Ready &ready, polyconv_buffers &buffers, const Operand &weights, int32_t device, uintptr_t stream) {
  std::unique_ptr<Scratch> scratch;
  nb::object workspace;
  const auto bytes = static_cast<size_t>(ready.plan->info.workspace_bytes);
  buffers.workspace_size = bytes;
  if (bytes > 0 && device < 0) {
    scratch = std::make_unique<Scratch>(bytes);
    buffers.workspace = scratch->pointer;
  } else if (bytes > 0) {
    Seen seen;
    workspace = make_bytes(ready, ready.workspace_shape, device, "the workspace", seen);
    buffers.workspace = seen.data;
  }
  if (weights.packed != nullptr) buffers.packed[0] = weights.packed->weights;
  if (weights.anew != nullptr) buffers.packed[0] = weights.anew.get();
  const Reading reading(weights.packed);
  polyconv_status status = POLYCONV_SUCCESS;
  std::string sentence;
  {
    const Unlocked unlocked;
    status = polyconv_run(ready.plan->plan, &buffers, reinterpret_cast<void *>(stream));
    if (status != POLYCONV_SUCCESS) sentence = polyconv_last_error();
  }
  if (status != POLYCONV_SUCCESS) throw Failure(status, sentence);
  ++ready.calls;
  ready.used = table().clock;
}

} // namespace polyconv_python::torch_face
