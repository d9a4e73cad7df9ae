// face.cpp - PyTorch's tensors by the table of functions that it has had since 2.10, and by their attributes
// before; and what polyconv/torch/_native.py hands over.
// SPDX-License-Identifier: Apache-2.0
#include "torch/face.hpp"

#include <utility>

namespace polyconv_python::torch_face {
namespace {

constexpr const char *kCapsule = "dlpack_exchange_api";

// The names under which Python hands functions over.
constexpr std::pair<const char *, nb::object Functions::*> kMembers[] = {
    {"is_grad_enabled", &Functions::is_grad_enabled},
    {"thread_count", &Functions::thread_count},
    {"allows_tf32", &Functions::allows_tf32},
    {"stream_of", &Functions::stream_of},
    {"is_capturing", &Functions::is_capturing},
    {"current_device", &Functions::current_device},
    {"empty_strided", &Functions::empty_strided},
    {"empty_on_cpu", &Functions::empty_on_cpu},
    {"empty_on_cuda", &Functions::empty_on_cuda},
    {"float32", &Functions::float32},
    {"float64", &Functions::float64},
    {"uint8", &Functions::uint8},
    {"convolution", &Functions::convolution},
    {"autocast_type", &Functions::autocast_type},
    {"tracing_state", &Functions::tracing_state},
    {"mode_count", &Functions::mode_count},
    {"transform", &Functions::transform},
    {"plain_types", &Functions::plain_types},
    {"decide_forward", &Functions::decide_forward},
    {"decide_backward", &Functions::decide_backward},
    {"not_taken", &Functions::not_taken},
    {"packed", &Functions::packed},
    {"cast", &Functions::cast},
    {"sum_for_bias", &Functions::sum_for_bias},
    {"refused", &Functions::refused},
    {"left_forward", &Functions::left_forward},
    {"left_backward", &Functions::left_backward},
    {"on_forward", &Functions::on_forward},
    {"on_backward", &Functions::on_backward},
};

// What Python has to say by name: functions, and what is no function.
void hand_over(const nb::dict &from) {
  Functions &all = functions();
  for (auto [key, value] : from) {
    const auto name = nb::cast<std::string>(key);
    if (name == "several_devices") {
      all.several_devices = nb::cast<bool>(value);
    } else if (name == "mode") {
      all.mode = nb::cast<int64_t>(value);
    } else if (name == "exchange") {
      dlpack::ExchangeApi *api = nullptr; // also of what is no such table, as drafts of it were
      if (PyCapsule_IsValid(value.ptr(), kCapsule) != 0)
        api = static_cast<dlpack::ExchangeApi *>(PyCapsule_GetPointer(value.ptr(), kCapsule));
      while (api != nullptr && api->major != 1) api = api->older;
      all.exchange = api != nullptr && api->look != nullptr ? api : nullptr;
    } else {
      bool known = false;
      for (const auto &[member, place] : kMembers) {
        if (name != member) continue;
        all.*place = nb::borrow(value);
        known = true;
      }
      if (!known) refuse("'" + name + "' is nothing that the quick way asks for");
    }
  }
}

// Copies a tuple of whole numbers; false where it is none.
bool take(const nb::object &tuple, int64_t *to, int32_t count) {
  for (int32_t i = 0; i < count; ++i) to[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple.ptr(), i));
  return PyErr_Occurred() == nullptr;
}

} // namespace

Functions &functions() {
  static Functions *all = new Functions(); // outlives the interpreter
  return *all;
}

bool Seen::look(nb::handle tensor) {
  const dlpack::ExchangeApi *exchange = functions().exchange;
  if (exchange == nullptr) return look_at_attributes(tensor);
  dlpack::Tensor seen;
  if (exchange->look(tensor.ptr(), &seen) != 0) {
    PyErr_Clear();
    return false;
  }
  const bool on_cuda = seen.device.type == dlpack::kCuda;
  if (!on_cuda && seen.device.type != dlpack::kCpu && seen.device.type != dlpack::kCudaHost) return false;
  data = static_cast<char *>(seen.data) + seen.byte_offset;
  type = dlpack::type_of(seen.type);
  device = on_cuda ? seen.device.id : -1;
  axes = seen.ndim;
  shape = seen.shape;
  stride = seen.strides;
  return axes <= kMaxAxes && (stride != nullptr || axes == 0);
}

bool Seen::look_at_attributes(nb::handle tensor) {
  POLYCONV_NAME(name_is_cuda, "is_cuda");
  POLYCONV_NAME(name_is_cpu, "is_cpu");
  POLYCONV_NAME(name_get_device, "get_device");
  POLYCONV_NAME(name_shape, "shape");
  POLYCONV_NAME(name_stride, "stride");
  POLYCONV_NAME(name_dtype, "dtype");
  POLYCONV_NAME(name_data_ptr, "data_ptr");
  try {
    const bool on_cuda = truth(attribute(tensor, name_is_cuda));
    if (!on_cuda && !truth(attribute(tensor, name_is_cpu))) return false;
    device = on_cuda ? nb::cast<int32_t>(call(attribute(tensor, name_get_device))) : -1;
    type = type_of_torch(attribute(tensor, name_dtype));
    const nb::object sizes = attribute(tensor, name_shape);
    axes = static_cast<int32_t>(PyTuple_Size(sizes.ptr()));
    if (axes > kMaxAxes) return false;
    shape = own_;
    stride = own_ + kMaxAxes;
    if (!take(sizes, own_, axes) || !take(call(attribute(tensor, name_stride)), own_ + kMaxAxes, axes)) {
      PyErr_Clear();
      return false;
    }
    data = reinterpret_cast<char *>(nb::cast<uintptr_t>(call(attribute(tensor, name_data_ptr))));
    return true;
  } catch (const nb::python_error &) { // sparse ones, and whatever else hides its numbers
    return false;
  }
}

uintptr_t stream_of(int32_t device) {
  if (device < 0) return 0;
  const Functions &all = functions();
  if (all.exchange == nullptr) return nb::cast<uintptr_t>(all.stream_of(device));
  void *stream = nullptr;
  if (all.exchange->current_stream(dlpack::kCuda, device, &stream) != 0) nb::raise_python_error();
  return reinterpret_cast<uintptr_t>(stream);
}

void bind_functions(nb::module_ &module) {
  module.def("torch_hand_over", hand_over);
}

} // namespace polyconv_python::torch_face
