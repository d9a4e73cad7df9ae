// status.hpp - how the library fails inside: one exception with a status and a sentence, caught at the extern "C"
// wall of api_*.cpp, which keeps the sentence for polyconv_last_error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>
#include <polyconv/sdk/printf.hpp>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace polyconv {

class Failure : public std::runtime_error {
 public:
  Failure(polyconv_status status, const std::string &sentence) : std::runtime_error(sentence), status_(status) {}
  polyconv_status status() const { return status_; }

 private:
  polyconv_status status_;
};

// A Failure with a printf-style sentence.
POLYCONV_PRINTF(2, 3) Failure failure(polyconv_status status, const char *format, ...);

// This thread's last error: a fixed buffer, so that setting it never allocates.
void set_last_error(const char *sentence) noexcept;
const char *last_error() noexcept;

// Sets the last error and returns the status: for paths that must not throw (polyconv_run).
POLYCONV_PRINTF(2, 3) polyconv_status fail(polyconv_status status, const char *format, ...) noexcept;

// The wall: runs `body`, turns whatever it throws into a status and a sentence.
template <class Body>
polyconv_status guarded(Body &&body) noexcept {
  try {
    body();
    return POLYCONV_SUCCESS;
  } catch (const Failure &failure) {
    set_last_error(failure.what());
    return failure.status();
  } catch (const std::bad_alloc &) {
    set_last_error("out of host memory");
    return POLYCONV_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    set_last_error(error.what());
    return POLYCONV_INTERNAL;
  } catch (...) {
    set_last_error("an unknown exception");
    return POLYCONV_INTERNAL;
  }
}

} // namespace polyconv
