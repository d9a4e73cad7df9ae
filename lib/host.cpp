// host.cpp - host.hpp: what backends may call, and what becomes of their failures.
// SPDX-License-Identifier: Apache-2.0
#include "host.hpp"

#include "registry.hpp"

namespace polyconv {
namespace {

thread_local bool backend_spoke = false;

void host_log(int32_t level, const char *message) {
  try {
    log(level, "%s", message != nullptr ? message : "");
  } catch (...) { // a log line is not worth an exception in a backend
  }
}

} // namespace

void backend_error(const char *sentence) noexcept {
  set_last_error(sentence);
  backend_spoke = sentence != nullptr && sentence[0] != '\0';
}

const polyconv_host host_table = {sizeof(polyconv_host), POLYCONV_BACKEND_ABI_MINOR, host_log, backend_error};

namespace detail {

void forget_backend_error() noexcept {
  backend_spoke = false;
}

polyconv_status explain_failure(polyconv_status status, const char *who, const char *call) noexcept {
  if (backend_spoke) return status;
  return fail(status, "%s: %s returned status %d (%s) without a reason", who, call, static_cast<int>(status),
              polyconv_status_string(status));
}

polyconv_status explain_exception(const char *who, const char *call, const char *what) noexcept {
  return fail(POLYCONV_INTERNAL, "%s: %s threw a C++ exception across the C ABI (%s)", who, call, what);
}

} // namespace detail
} // namespace polyconv
