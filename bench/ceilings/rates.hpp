// rates.hpp - loops that do nothing but multiply-add, and loops that do nothing but copy: what the machine can do
// at best, which rows of the bench are measured against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace polyconv::bench {

// Runs about `rounds` rounds of independent multiply-adds on registers and returns the operations done, a
// multiply-add counting two.
struct FmaLoop {
  const char *kind;    // what is multiplied: "fma_f32", "fma_f64", "fma_bf16", "fma_s8"
  const char *variant; // the unit: "avx512", "vnni", "amx"
  double (*run)(int64_t rounds);
};

// Those that were compiled and that this processor has, by kind, of each the widest last. A kind that it has no unit
// for is missing.
std::vector<FmaLoop> fma_loops();

// Copies `bytes` (a multiple of 64, both 64-aligned).
struct CopyLoop {
  const char *name; // "plain", "memcpy", "nontemporal"
  void (*copy)(void *destination, const void *source, size_t bytes);
};
std::vector<CopyLoop> copy_loops();

} // namespace polyconv::bench
