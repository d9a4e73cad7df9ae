// address.hpp - an address as sentences show it, 0x%llx: %p is in each C library's own words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv {

inline unsigned long long address(const void *pointer) noexcept {
  return static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(pointer));
}

} // namespace polyconv
