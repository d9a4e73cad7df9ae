// missing.hpp - skips what only a backend can show that cannot serve here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <string>

#include "skip.hpp"

namespace polyconv_test {

// True, with the test case marked as skipped, where the backend cannot serve.
inline bool missing(const std::string &backend) {
  polyconv_backend_info info = {};
  info.struct_size = sizeof info;
  for (int32_t i = 0; polyconv_backend_get(i, &info) == POLYCONV_SUCCESS; ++i) {
    if (backend != info.name) continue;
    if (!info.available) skip(backend + ": " + info.reason);
    return !info.available;
  }
  skip("the " + backend + " backend was not built");
  return true;
}

} // namespace polyconv_test
