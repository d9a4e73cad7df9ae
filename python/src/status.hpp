// status.hpp - how a status of polyconv.h becomes a Python exception: thrown here, translated in status.cpp.
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_PYTHON_STATUS_HPP
#define POLYCONV_PYTHON_STATUS_HPP

#include <nanobind/stl/string.h>
#include <polyconv/polyconv.h>

#include <stdexcept>
#include <string>

#include "lock.hpp"

namespace polyconv_python {

// A status other than success, and the sentence for the user.
class Failure : public std::runtime_error {
 public:
  Failure(polyconv_status of, const std::string &sentence) : std::runtime_error(sentence), status(of) {}
  const polyconv_status status;
};

// Throws what the library says of its last call on this thread. Call it on the thread of that call.
inline void require(polyconv_status status) {
  if (status != POLYCONV_SUCCESS) throw Failure(status, polyconv_last_error());
}

[[noreturn]] inline void refuse(const std::string &sentence) {
  throw Failure(POLYCONV_INVALID_ARGUMENT, sentence);
}

// Text as the library takes it, to its first NUL: one that goes on behind that would be taken for another.
inline const char *whole_text(const std::string &text, const char *name) {
  if (text.find('\0') != std::string::npos)
    refuse(std::string(name) + " is " + nb::cast<std::string>(nb::repr(nb::cast(text))) +
           ", expected text without NUL");
  return text.c_str();
}

// A path of the file system: str, bytes or anything with __fspath__, as open() takes it.
std::string path_from(nb::handle path);

// Registers the translation, and the function by which polyconv/errors.py tells its classes.
void bind_status(nb::module_ &module);

} // namespace polyconv_python
#endif // POLYCONV_PYTHON_STATUS_HPP
