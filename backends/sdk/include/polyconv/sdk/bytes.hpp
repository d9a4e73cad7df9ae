// bytes.hpp - what elements and pieces of a workspace take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::sdk {

// Of one element.
inline int64_t type_bytes(int32_t type) {
  switch (type) {
    case POLYCONV_F64: return 8;
    case POLYCONV_F32:
    case POLYCONV_S32: return 4;
    case POLYCONV_S8:
    case POLYCONV_U8: return 1;
    default: return 2;
  }
}

// Rounded up, so that the next piece begins aligned.
constexpr int64_t aligned_bytes(int64_t bytes) {
  return (bytes + POLYCONV_ALIGNMENT - 1) / POLYCONV_ALIGNMENT * POLYCONV_ALIGNMENT;
}

} // namespace polyconv::sdk
