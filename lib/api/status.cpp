// status.cpp - the extern "C" wall: version, names of statuses, last error.
// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#define POLYCONV_STRINGIFY(x) #x
#define POLYCONV_DOTTED(major, minor, patch) \
  POLYCONV_STRINGIFY(major) "." POLYCONV_STRINGIFY(minor) "." POLYCONV_STRINGIFY(patch)

extern "C" {

const char *polyconv_version(void) {
  return POLYCONV_DOTTED(POLYCONV_VERSION_MAJOR, POLYCONV_VERSION_MINOR, POLYCONV_VERSION_PATCH);
}

const char *polyconv_status_string(polyconv_status status) {
  switch (status) {
    case POLYCONV_SUCCESS: return "success";
    case POLYCONV_INVALID_ARGUMENT: return "invalid argument";
    case POLYCONV_UNSUPPORTED: return "unsupported";
    case POLYCONV_UNAVAILABLE: return "unavailable";
    case POLYCONV_OUT_OF_MEMORY: return "out of memory";
    case POLYCONV_WORKSPACE_TOO_SMALL: return "workspace too small";
    case POLYCONV_DEVICE_ERROR: return "device error";
    case POLYCONV_IO_ERROR: return "I/O error";
    case POLYCONV_INTERNAL: return "internal";
    default: return "unknown status";
  }
}

const char *polyconv_last_error(void) {
  return polyconv::last_error();
}

} // extern "C"
