// host.cpp - host.hpp: what backends may call, and what becomes of their failures.
// SPDX-License-Identifier: Apache-2.0
#include "registry/host.hpp"

#include "os/log.hpp"
#include "registry/registry.hpp"

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
  if (status < POLYCONV_SUCCESS || status > POLYCONV_INTERNAL)
    return fail(POLYCONV_INTERNAL, "%s: %s returned status %d, which is none%s%s", who, call, static_cast<int>(status),
                backend_spoke ? ": " : "", backend_spoke ? last_error() : "");
  if (backend_spoke) return status;
  return fail(status, "%s: %s returned status %d (%s) without a reason", who, call, static_cast<int>(status),
              polyconv_status_string(status));
}

polyconv_status explain_exception(const char *who, const char *call, const char *what) noexcept {
  return fail(POLYCONV_INTERNAL, "%s: %s threw a C++ exception across the C ABI (%s)", who, call, what);
}

polyconv_status explain_bad_alloc(const char *who, const char *call) noexcept {
  return fail(POLYCONV_OUT_OF_MEMORY, "%s: %s: out of host memory", who, call);
}

void complain_of_exception(const char *who, const char *call) noexcept {
  try {
    log(POLYCONV_LOG_ERROR, "%s: %s threw a C++ exception across the C ABI", who, call);
  } catch (...) { // nobody is left to hear it
  }
}

} // namespace detail
} // namespace polyconv
