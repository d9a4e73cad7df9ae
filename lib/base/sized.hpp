// sized.hpp - structs that the library fills for a caller who may be older or newer: the caller's struct_size says how
// much of it there is. What this library does not know of a newer one becomes 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.hpp"

#include <algorithm>
#include <cstring>

namespace polyconv {

constexpr size_t kMostGrowth = 4096; // a size beyond it is no newer version but memory nobody initialised

// Writes `value` to the `size` bytes that a caller has, and says so in its struct_size.
template <class Struct>
void hand_out(const Struct &value, size_t size, Struct *to) noexcept {
  char *bytes = reinterpret_cast<char *>(to);
  const size_t known = std::min(size, sizeof value);
  std::memcpy(bytes, &value, known);
  std::memset(bytes + known, 0, size - known);
  std::memcpy(bytes, &size, sizeof size);
}

// Writes `value` to *destination as far as its struct_size covers, and leaves that size as it is. `minimum` is the size
// of the struct's first version, `name` what to call it in errors. Throws Failure(INVALID_ARGUMENT).
template <class Struct>
void fill_sized(Struct *destination, const Struct &value, size_t minimum, const char *name) {
  if (destination == nullptr) throw failure(POLYCONV_INVALID_ARGUMENT, "%s is NULL, expected a struct to fill", name);
  const size_t size = destination->struct_size;
  if (size < minimum || size > sizeof(Struct) + kMostGrowth) {
    throw failure(POLYCONV_INVALID_ARGUMENT, "%s.struct_size is %zu, expected sizeof(*%s), at least %zu", name, size,
                  name, minimum);
  }
  hand_out(value, size, destination);
}

} // namespace polyconv
