// status.cpp - translates failures into the exception classes of polyconv/errors.py.
// SPDX-License-Identifier: Apache-2.0
#include "status.hpp"

namespace polyconv_python {
namespace {

PyObject *classes = nullptr; // a list, by status; kept for the life of the process

void translate(const std::exception_ptr &thrown, void *) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Failure &failure) {
    PyObject *type = classes != nullptr ? PyList_GetItem(classes, failure.status) : nullptr;
    if (type == nullptr) PyErr_Clear();
    PyErr_SetString(type != nullptr ? type : PyExc_RuntimeError, failure.what());
  }
}

} // namespace

std::string path_from(nb::handle path) {
  PyObject *bytes = nullptr;
  const bool found = PyUnicode_FSConverter(path.ptr(), &bytes) != 0;
  PyErr_Clear();
  const nb::object held = nb::steal(bytes);
  if (!found)
    refuse("path is " + nb::cast<std::string>(nb::repr(path)) +
           ", expected str, bytes or an object with __fspath__, without NUL");
  return std::string(PyBytes_AsString(bytes), static_cast<size_t>(PyBytes_Size(bytes)));
}

void bind_status(nb::module_ &module) {
  nb::register_exception_translator(translate);
  module.def("set_exceptions", [](nb::list by_status) { classes = by_status.release().ptr(); });
  module.def("version", [] { return polyconv_version(); });
}

} // namespace polyconv_python
