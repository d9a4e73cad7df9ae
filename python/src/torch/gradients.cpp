// gradients.cpp - aten::convolution_backward, from the tensors that PyTorch's dispatcher gives to the gradients.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "torch/calls.hpp"

namespace polyconv_python::torch_face {
namespace {

// aten::convolution_backward: a triple of gradients, or why they are PyTorch's.
struct Backward {
  nb::handle grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask;
  Seen seen_grad, seen_x, seen_w;
  uintptr_t stream = 0;
  nb::object run();

  void look_at_key(Key &key) const;
  nb::object run_plans(nb::handle for_data, nb::handle for_weights);
  nb::object gradient_of_weights(nb::handle taken, nb::object *bias);
  nb::object gradient_of_data(nb::handle taken);
  bool wanted(int which) const { return truth(nb::object(mask[which])); }
};

void Backward::look_at_key(Key &key) const {
  key.push(16 | (truth(transposed) ? 2 : 0) | (trains(w, false, seen_x.device) ? 4 : 0));
  key.push(PyLong_AsLongLong(groups.ptr()));
  key.push(seen_grad);
  key.push(seen_x);
  key.push(seen_w);
  for (const nb::handle list : {stride, padding, dilation, output_padding, mask}) key.push_list(list);
  push_switches(key, seen_x.device);
}

nb::object Backward::gradient_of_weights(nb::handle taken, nb::object *bias) {
  const Functions &all = functions();
  auto &ready = nb::cast<Ready &>(taken);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  Seen seen, seen_bias;
  nb::object made = make_result(ready, seen_x.device, "the gradient", seen);
  if (bias != nullptr) {
    const nb::object channels = nb::make_tuple(seen_grad.shape[1]), step = nb::make_tuple(1);
    const nb::object &accurate = seen_x.type == POLYCONV_F64 ? all.float64 : all.float32;
    *bias = make(channels, step, accurate, ready.device, seen_x.device, "the bias's gradient", seen_bias);
    buffers.bias[0] = seen_bias.data;
  }
  note(ready, taken, w, stream);
  buffers.input = seen_x.data;
  buffers.output = seen_grad.data;
  buffers.weights[0] = seen.data;
  launch(ready, buffers, Operand(), seen_x.device, stream);
  if (bias != nullptr && seen_bias.type != seen_x.type) *bias = in_type(*bias, ready.dtype);
  return made;
}

nb::object Backward::gradient_of_data(nb::handle taken) {
  auto &ready = nb::cast<Ready &>(taken);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  const Operand weights = weights_for(ready, taken, w, seen_w, stream);
  Seen seen;
  nb::object made = make_result(ready, seen_x.device, "the gradient", seen);
  buffers.input = seen.data;
  buffers.output = seen_grad.data;
  buffers.weights[0] = weights.raw;
  launch(ready, buffers, weights, seen_x.device, stream);
  return made;
}

nb::object Backward::run_plans(nb::handle for_data, nb::handle for_weights) {
  nb::object results[3] = {nb::none(), nb::none(), nb::none()};
  stream = stream_of(seen_x.device);
  const bool wants_bias = wanted(2);
  if (!for_weights.is_none())
    results[1] = gradient_of_weights(for_weights, wants_bias ? &results[2] : nullptr);
  else if (wants_bias)
    results[2] = functions().sum_for_bias(grad);
  if (!for_data.is_none()) results[0] = gradient_of_data(for_data);
  return nb::make_tuple(results[0], results[1], results[2]);
}

nb::object Backward::run() {
  Key key;
  const bool seen = seen_grad.look(grad) && seen_x.look(x) && seen_w.look(w);
  nb::object decided;
  if (seen) {
    look_at_key(key);
    decided = table().find(key);
  }
  if (!decided.is_valid()) {
    decided = functions().decide_backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding,
                                          groups, mask);
    // A pair of plans, None where the mask wants no gradient; else what is no sort of call, or why it is PyTorch's.
    if (!PyTuple_Check(decided.ptr()) || PyTuple_Size(decided.ptr()) != 2) return decided;
    if (!seen) refuse("grad, x or w is a tensor without memory, expected ones with numbers");
    table().keep(key, decided);
  } else {
    table().hits += PyTuple_GetItem(decided.ptr(), 0) != Py_None;
    table().hits += PyTuple_GetItem(decided.ptr(), 1) != Py_None;
  }
  return run_plans(PyTuple_GetItem(decided.ptr(), 0), PyTuple_GetItem(decided.ptr(), 1));
}

nb::object backward_itself(nb::handle grad, nb::handle x, nb::handle w, nb::handle bias_sizes, nb::handle stride,
                           nb::handle padding, nb::handle dilation, nb::handle transposed, nb::handle output_padding,
                           nb::handle groups, nb::handle mask) {
  Backward call{grad,           x,      w,    bias_sizes, stride, padding, dilation, transposed,
                output_padding, groups, mask, {},         {},     {}};
  return call.run();
}

// The same by who watches, if somebody does.
nb::object backward(nb::handle grad, nb::handle x, nb::handle w, nb::handle bias_sizes, nb::handle stride,
                    nb::handle padding, nb::handle dilation, nb::handle transposed, nb::handle output_padding,
                    nb::handle groups, nb::handle mask) {
  const nb::object watcher = functions().on_backward;
  const auto by = [&](auto &&function) -> nb::object {
    return function(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask);
  };
  return watcher.is_none() ? by(backward_itself) : by(watcher);
}

// The operator as PyTorch's dispatcher calls it.
nb::object convolution_backward(nb::handle grad, nb::handle x, nb::handle w, nb::handle bias_sizes, nb::handle stride,
                                nb::handle padding, nb::handle dilation, nb::handle transposed,
                                nb::handle output_padding, nb::handle groups, nb::handle mask) {
  nb::object results =
      backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask);
  if (!is_refused(results)) return results;
  return functions().left_backward(grad, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding,
                                   groups, mask);
}

} // namespace

void bind_gradients(nb::module_ &module) {
  const auto define = [&](const char *name, auto function) {
    module.def(name, function, nb::arg("grad"), nb::arg("x"), nb::arg("w"), nb::arg("bias_sizes").none(),
               nb::arg("stride"), nb::arg("padding"), nb::arg("dilation"), nb::arg("transposed"),
               nb::arg("output_padding"), nb::arg("groups"), nb::arg("mask"));
  };
  define("torch_backward", backward);
  define("torch_backward_itself", backward_itself);
  define("torch_convolution_backward", convolution_backward);
}

} // namespace polyconv_python::torch_face
