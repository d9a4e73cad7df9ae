// sized.hpp - structs that the library fills for a caller who may be older or newer: the caller's struct_size says how
// much of it there is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "status.hpp"

#include <algorithm>
#include <cstring>

namespace polyconv {

// Writes `value` to *destination as far as its struct_size covers, and leaves that size as it is. `minimum` is the size
// of the struct's first version, `name` what to call it in errors. Throws Failure(INVALID_ARGUMENT).
template <class Struct>
void fill_sized(Struct *destination, const Struct &value, size_t minimum, const char *name) {
  if (destination == nullptr) throw failure(POLYCONV_INVALID_ARGUMENT, "%s is NULL, expected a struct to fill", name);
  const size_t size = destination->struct_size;
  if (size < minimum) {
    throw failure(POLYCONV_INVALID_ARGUMENT, "%s.struct_size is %zu, expected sizeof(*%s), at least %zu", name, size,
                  name, minimum);
  }
  std::memcpy(destination, &value, std::min(size, sizeof(Struct)));
  destination->struct_size = size;
}

} // namespace polyconv
