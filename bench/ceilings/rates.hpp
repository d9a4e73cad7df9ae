// rates.hpp - loops that do nothing but multiply-add, and loops that do nothing but copy: what the machine can do
// at best, which rows of the bench are measured against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace polyconv::bench {

// Runs about `rounds` rounds of independent multiply-adds on registers and returns the operations done, a
// multiply-add counting two.
struct FmaLoop {
  const char *isa; // "avx512"
  double (*f32)(int64_t rounds);
  double (*f64)(int64_t rounds);
};

// One for each instruction set that was compiled and that this processor has, widest last.
std::vector<FmaLoop> fma_loops();

// Copies `bytes` (a multiple of 64, both 64-aligned).
struct CopyLoop {
  const char *name; // "plain", "memcpy", "nontemporal"
  void (*copy)(void *destination, const void *source, size_t bytes);
};
std::vector<CopyLoop> copy_loops();

} // namespace polyconv::bench
