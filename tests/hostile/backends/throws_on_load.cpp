// throws_on_load.cpp - a library whose static initialiser throws: dlopen does not return, the exception does.
// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include <polyconv/backend.h>
#include <polyconv/sdk/backend.hpp>

namespace {

[[maybe_unused]] const int initialised = [] {
  throw std::runtime_error("the fake cannot be initialised");
  return 1;
}();

} // namespace

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *,
                                                                             const polyconv_backend **);

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *,
                                                                             const polyconv_backend **) {
  return POLYCONV_UNAVAILABLE;
}
