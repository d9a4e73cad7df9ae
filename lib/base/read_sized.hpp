// read_sized.hpp - structs that a caller fills, who may be older or newer than this library: what an older one lacks
// keeps its default, what a newer one adds must be zero, since nobody here would honour it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/sized.hpp"

#include <algorithm>
#include <cstring>

namespace polyconv {

// Copies *from over the defaults in *to. `minimum` is the least size that makes sense, `name` what errors call the
// struct. Throws Failure(INVALID_ARGUMENT).
template <class Struct>
void read_sized(Struct *to, const Struct *from, size_t minimum, const char *name) {
  const size_t size = from->struct_size;
  if (size < minimum || size > sizeof(Struct) + kMostGrowth) {
    throw failure(POLYCONV_INVALID_ARGUMENT,
                  "%s.struct_size is %zu, expected the sizeof (%zu) that polyconv_%s_init sets", name, size,
                  sizeof(Struct), name);
  }
  const unsigned char *bytes = reinterpret_cast<const unsigned char *>(from);
  for (size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      throw failure(POLYCONV_INVALID_ARGUMENT,
                    "%s.struct_size is %zu and byte %zu is not 0, expected fields that this version (%s) knows", name,
                    size, i, polyconv_version());
    }
  }
  std::memcpy(to, from, std::min(size, sizeof(Struct)));
  to->struct_size = sizeof(Struct);
}

} // namespace polyconv
