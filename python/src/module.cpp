// module.cpp - the extension module polyconv._core: polyconv.h for Python, without names, defaults or choices. Those
// are in the Python files beside it.
// SPDX-License-Identifier: Apache-2.0
#include "call.hpp"
#include "torch/face.hpp"

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false); // what the cache holds lives until the process ends
  polyconv_python::bind_status(module);
  polyconv_python::bind_tensor(module);
  polyconv_python::bind_problem(module);
  polyconv_python::bind_plan(module);
  polyconv_python::bind_weights(module);
  polyconv_python::bind_tune(module);
  polyconv_python::bind_openmp(module);
  polyconv_python::bind_world(module);
  polyconv_python::bind_call(module);
  polyconv_python::torch_face::bind_functions(module);
  polyconv_python::torch_face::bind_forward(module);
  polyconv_python::torch_face::bind_gradients(module);
  polyconv_python::torch_face::bind_autocast(module);
}
