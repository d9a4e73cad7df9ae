// forward.cpp - aten::convolution, from the tensors that PyTorch's dispatcher gives to the result.
// SPDX-License-Identifier: Apache-2.0
#include "torch/calls.hpp"

namespace polyconv_python::torch_face {
namespace {

// The result of a layer, whose pointers of input, weights and the rest `buffers` has already.
nb::object run_layer(Ready &ready, nb::handle self, const Seen &x, nb::handle w, const Seen &seen_w, nb::handle bias,
                     polyconv_buffers &buffers) {
  const uintptr_t stream = stream_of(x.device);
  const Operand as_bias = bias_for(ready, bias, x.data, stream);
  const Operand weights = weights_for(ready, self, w, seen_w, stream);
  Seen seen_y;
  nb::object y = make_result(ready, x.device, "the result", seen_y);
  buffers.input = x.data;
  buffers.weights[0] = weights.raw;
  buffers.bias[0] = as_bias.raw;
  buffers.output = seen_y.data;
  launch(ready, buffers, weights, x.device, stream);
  return y;
}

// A layer that fuse() made, by a plan that was decided already; residual and slope are addresses.
nb::object run_fused(nb::handle taken, nb::handle x, nb::handle w, nb::handle bias, uintptr_t residual,
                     uintptr_t slope) {
  Seen seen_x, seen_w;
  if (!seen_x.look(x) || !seen_w.look(w)) refuse("x or w is a tensor without memory, expected ones with numbers");
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.residual[0] = reinterpret_cast<void *>(residual);
  buffers.slope[0] = reinterpret_cast<void *>(slope);
  ++table().clock;
  return run_layer(nb::cast<Ready &>(taken), taken, seen_x, w, seen_w, bias, buffers);
}

nb::object forward_itself(nb::handle x, nb::handle w, nb::handle bias, nb::handle stride, nb::handle padding,
                          nb::handle dilation, nb::handle transposed, nb::handle output_padding, nb::handle groups,
                          bool casts) {
  return Forward{x, w, bias, stride, padding, dilation, transposed, output_padding, groups}.run(casts);
}

// The same by who watches, if somebody does.
nb::object forward(nb::handle x, nb::handle w, nb::handle bias, nb::handle stride, nb::handle padding,
                   nb::handle dilation, nb::handle transposed, nb::handle output_padding, nb::handle groups,
                   bool casts) {
  const nb::object watcher = functions().on_forward;
  if (watcher.is_none())
    return forward_itself(x, w, bias, stride, padding, dilation, transposed, output_padding, groups, casts);
  return watcher(x, w, bias, stride, padding, dilation, transposed, output_padding, groups, nb::arg("casts") = casts);
}

// The operator as PyTorch's dispatcher calls it.
nb::object convolution(nb::handle x, nb::handle w, nb::handle bias, nb::handle stride, nb::handle padding,
                       nb::handle dilation, nb::handle transposed, nb::handle output_padding, nb::handle groups) {
  nb::object result = forward(x, w, bias, stride, padding, dilation, transposed, output_padding, groups, false);
  if (!is_refused(result)) return result;
  return functions().left_forward(x, w, bias, stride, padding, dilation, transposed, output_padding, groups);
}

} // namespace

nb::object Forward::run(bool casts) const {
  Key key;
  Seen seen_x, seen_w, seen_bias;
  const bool has_bias = !bias.is_none();
  const bool seen = seen_x.look(x) && seen_w.look(w) && (!has_bias || seen_bias.look(bias));
  nb::object decided;
  if (seen) {
    const bool are_new = trains(w, true, seen_x.device);
    key.push((casts ? 1 : 0) | (truth(transposed) ? 2 : 0) | (are_new ? 4 : 0) | (has_bias ? 8 : 0));
    key.push(PyLong_AsLongLong(groups.ptr()));
    key.push(seen_x);
    key.push(seen_w);
    if (has_bias) key.push(seen_bias);
    for (const nb::handle list : {stride, padding, dilation, output_padding}) key.push_list(list);
    push_switches(key, seen_x.device);
    decided = table().find(key);
  }
  const Functions &all = functions();
  if (!decided.is_valid()) {
    decided = all.decide_forward(x, w, bias, stride, padding, dilation, transposed, output_padding, groups, casts);
    if (seen && ready_of(decided) != nullptr) table().keep(key, decided);
  } else {
    ++table().hits;
  }
  Ready *ready = ready_of(decided);
  if (ready == nullptr)
    return all.not_taken(decided, x, w, bias, stride, padding, dilation, transposed, output_padding, groups, casts);
  if (!seen) refuse("x, w or bias is a tensor without memory, expected ones with numbers");
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  return run_layer(*ready, decided, seen_x, w, seen_w, bias, buffers);
}

bool is_refused(nb::handle result) {
  return reinterpret_cast<PyObject *>(Py_TYPE(result.ptr())) == functions().refused.ptr();
}

void bind_forward(nb::module_ &module) {
  nb::class_<Ready>(module, "Ready")
      .def(nb::init<nb::object, nb::object, nb::object, nb::object, nb::object>())
      .def_ro("plan", &Ready::plan_object)
      .def_ro("packs", &Ready::packs)
      .def_rw("makes_anew", &Ready::makes_anew)
      .def_rw("span", &Ready::span)
      .def_rw("calls", &Ready::calls)
      .def_rw("used", &Ready::used);
  module.def("torch_convolution", convolution, nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg());
  const auto define = [&](const char *name, auto function) {
    module.def(name, function, nb::arg("x"), nb::arg("w"), nb::arg("bias").none(), nb::arg("stride"),
               nb::arg("padding"), nb::arg("dilation"), nb::arg("transposed"), nb::arg("output_padding"),
               nb::arg("groups"), nb::arg("casts") = false);
  };
  define("torch_forward", forward);
  define("torch_forward_itself", forward_itself);
  module.def("torch_fused", run_fused, nb::arg("taken"), nb::arg("x"), nb::arg("w"), nb::arg("bias").none(),
             nb::arg("residual") = 0, nb::arg("slope") = 0);
  module.def("torch_hits", [] { return table().hits; });
  module.def("torch_packed", [] { return table().packed; });
  module.def("torch_tick", [] { return ++table().clock; });
  module.def(
      "torch_clear",
      [](bool hits) {
        table().clear();
        if (hits) table().hits = table().packed = 0;
      },
      nb::arg("hits") = false);
}

} // namespace polyconv_python::torch_face
