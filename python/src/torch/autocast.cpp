// autocast.cpp - conv1d to conv3d under autocast, on the way that layers of a network take; every other one is
// polyconv/torch/_autocast.py's.
// SPDX-License-Identifier: Apache-2.0
#include "torch/calls.hpp"

namespace polyconv_python::torch_face {
namespace {

// The functions of one number of spatial axes.
struct Layer {
  int dims;
  nb::object zeros;     // a list
  nb::object otherwise; // what takes calls that are not as plain as these, and says what is an error
  nb::object left;      // what takes calls that polyconv refused

  nb::object run(nb::handle x, nb::handle w, nb::handle bias, nb::handle stride, nb::handle padding,
                 nb::handle dilation, nb::handle groups) const;
  nb::object record(nb::handle x, nb::handle w, nb::handle bias, nb::handle stride, nb::handle padding,
                    nb::handle dilation, nb::handle groups, bool is_watched) const;
  bool is_plain(nb::handle x, nb::handle w, nb::handle bias, Seen &seen) const;
};

bool is_float(int32_t type) {
  return type == POLYCONV_F32 || type == POLYCONV_F16 || type == POLYCONV_BF16;
}

// A tensor of PyTorch's own, of a type that autocast casts.
bool look_at_plain(nb::handle tensor, Seen &seen) {
  PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(tensor.ptr()));
  PyObject *plain = functions().plain_types.ptr();
  return (type == PyTuple_GetItem(plain, 0) || type == PyTuple_GetItem(plain, 1)) && seen.look(tensor) &&
         is_float(seen.type);
}

bool Layer::is_plain(nb::handle x, nb::handle w, nb::handle bias, Seen &seen) const {
  Seen seen_w, seen_bias;
  return look_at_plain(x, seen) && look_at_plain(w, seen_w) && (bias.is_none() || look_at_plain(bias, seen_bias)) &&
         seen.axes == dims + 2 && seen_w.axes == dims + 2;
}

bool has(nb::handle list, int count) {
  return PyList_Check(list.ptr()) && PyList_Size(list.ptr()) == count;
}

bool requires_grad(nb::handle tensor) {
  POLYCONV_NAME(name, "requires_grad");
  return !tensor.is_none() && truth(attribute(tensor, name));
}

// Whether somebody traces or transforms what runs.
bool is_traced() {
  const Functions &all = functions();
  return !call(all.tracing_state).is_none() ||
         (!all.mode_count.is_none() && nb::cast<int64_t>(call(all.mode_count)) != 0) ||
         (!all.transform.is_none() && !call(all.transform).is_none());
}

// The type that autocast computes in.
nb::object type_on(int32_t device) {
  POLYCONV_NAME(cuda, "cuda");
  POLYCONV_NAME(cpu, "cpu");
  return functions().autocast_type(nb::handle(device >= 0 ? cuda : cpu));
}

// A call whose gradients are recorded goes on to autograd. On CUDA autocast has a kernel of aten::convolution too,
// which casts each of a context's weights once; on the CPU it has none.
nb::object Layer::record(nb::handle x, nb::handle w, nb::handle bias, nb::handle stride, nb::handle padding,
                         nb::handle dilation, nb::handle groups, bool is_watched) const {
  nb::object cast_x = nb::borrow(x), cast_w = nb::borrow(w), cast_bias = nb::borrow(bias);
  Seen seen;
  if (!seen.look(x)) refuse("x is a tensor without memory, expected one with numbers");
  if (seen.device < 0) {
    const nb::object dtype = type_on(seen.device);
    cast_x = x.attr("to")(dtype);
    cast_w = w.attr("to")(dtype);
    if (!bias.is_none()) cast_bias = bias.attr("to")(dtype);
    if (!seen.look(cast_x)) refuse("x is a tensor without memory, expected one with numbers");
  }
  const BiasBeforeCast before(is_watched || bias.is_none() ? nb::handle() : bias, seen.data);
  return functions().convolution(cast_x, cast_w, cast_bias, stride, padding, dilation, nb::handle(Py_False), zeros,
                                 groups);
}

nb::object Layer::run(nb::handle x, nb::handle w, nb::handle bias, nb::handle stride, nb::handle padding,
                      nb::handle dilation, nb::handle groups) const {
  const Functions &all = functions();
  Seen seen;
  if (!has(stride, dims) || !has(padding, dims) || !has(dilation, dims) || !is_plain(x, w, bias, seen))
    return otherwise(x, w, bias, stride, padding, dilation, groups);
  const nb::handle no(Py_False);
  const bool is_watched = !all.on_forward.is_none() || is_traced();
  if (truth(call(all.is_grad_enabled)) && (requires_grad(x) || requires_grad(w) || requires_grad(bias)))
    return record(x, w, bias, stride, padding, dilation, groups, is_watched);
  if (is_watched) return otherwise(x, w, bias, stride, padding, dilation, groups);
  const nb::object dtype = type_on(seen.device);
  const nb::object cast = type_of_torch(dtype) != seen.type ? nb::object(x.attr("to")(dtype)) : nb::borrow(x);
  nb::object result = Forward{cast, w, bias, stride, padding, dilation, no, zeros, groups}.run(true);
  if (!is_refused(result)) return result;
  return left(x, w, bias, stride, padding, dilation, no, zeros, groups);
}

} // namespace

void bind_autocast(nb::module_ &module) {
  module.def("torch_autocast", [](int dims, nb::object otherwise, nb::object left) {
    nb::list zeros, ones;
    for (int i = 0; i < dims; ++i) {
      zeros.append(0);
      ones.append(1);
    }
    const Layer layer{dims, zeros, std::move(otherwise), std::move(left)};
    return nb::cpp_function(
        [layer](nb::handle x, nb::handle w, nb::handle bias, nb::handle stride, nb::handle padding, nb::handle dilation,
                nb::handle groups) { return layer.run(x, w, bias, stride, padding, dilation, groups); },
        nb::arg("x"), nb::arg("w"), nb::arg("bias").none() = nb::none(), nb::arg("stride") = ones,
        nb::arg("padding") = zeros, nb::arg("dilation") = ones, nb::arg("groups") = 1); // PyTorch leaves defaults out
  });
}

} // namespace polyconv_python::torch_face
