// host.hpp - the library's side of the plug-in ABI: the table that backends are handed, and the way a call into a
// backend is made so that whatever it does becomes a status and a sentence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.hpp"

#include <polyconv/backend.h>
#include <polyconv/sdk/float_mode.hpp>

#include <string>
#include <utility>

namespace polyconv {

// Lives for ever, as the ABI promises.
extern const polyconv_host host_table;

// What a backend (or the CPU device, which answers as one) says before it returns a status: kept as this thread's last
// error, and remembered to have been said.
void backend_error(const char *sentence) noexcept;

namespace detail {
void forget_backend_error() noexcept;
// Supplies a sentence where the backend gave none.
polyconv_status explain_failure(polyconv_status status, const char *who, const char *call) noexcept;
polyconv_status explain_exception(const char *who, const char *call, const char *what) noexcept;
polyconv_status explain_bad_alloc(const char *who, const char *call) noexcept;
// For calls that have no status: a line of log.
void complain_of_exception(const char *who, const char *call) noexcept;
} // namespace detail

// Calls a function of a backend that returns a status. On anything but SUCCESS the last error holds its sentence, or
// one that names `who` ("cuda:0") and `call` ("alloc") where it said nothing. An exception that crosses the
// ABI against the rules becomes INTERNAL, but for std::bad_alloc, as does a number that is no status. It runs in the
// default mode of floating point, whatever the calling thread's is.
template <class Call>
polyconv_status ask_backend(const char *who, const char *call, Call &&function) noexcept {
  detail::forget_backend_error();
  const sdk::DefaultFloatMode mode;
  try {
    const polyconv_status status = std::forward<Call>(function)();
    return status == POLYCONV_SUCCESS ? status : detail::explain_failure(status, who, call);
  } catch (const std::bad_alloc &) {
    return detail::explain_bad_alloc(who, call);
  } catch (const std::exception &error) {
    return detail::explain_exception(who, call, error.what());
  } catch (...) {
    return detail::explain_exception(who, call, "no std::exception");
  }
}

// Calls a function of a backend that gives something back and cannot fail. An exception costs a line of log.
template <class Call>
void tell_backend(const char *who, const char *call, Call &&function) noexcept {
  try {
    std::forward<Call>(function)();
  } catch (...) {
    detail::complain_of_exception(who, call);
  }
}

// Restores this thread's last error at the end of a scope in which failures are no news to the caller: a backend that
// is missing says so in the list of backends, not in polyconv_last_error.
class KeepLastError {
 public:
  KeepLastError() : sentence_(last_error()) {}
  ~KeepLastError() { set_last_error(sentence_.c_str()); }
  KeepLastError(const KeepLastError &) = delete;
  KeepLastError &operator=(const KeepLastError &) = delete;

 private:
  std::string sentence_;
};

} // namespace polyconv
