// piece.hpp - work cut into pieces of nearly equal size, as sdk::share cuts it, for kernels (pass.hpp says why apart).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/pass.hpp"

#include <cstdint>

namespace polyconv::cpu::POLYCONV_ISA {

// Where piece i of `total` begins, cut into `parts`.
POLYCONV_INLINE int64_t piece(int64_t total, int64_t parts, int64_t i) {
  const int64_t size = total / parts, rest = total % parts;
  return i * size + (i < rest ? i : rest);
}

} // namespace polyconv::cpu::POLYCONV_ISA
