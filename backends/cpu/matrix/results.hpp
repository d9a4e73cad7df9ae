// results.hpp - results that are made, and lines of them that are asked for, beside the products of other tiles: a
// little with each product, as the units for tiles then go on meanwhile. All at once they would add up to the products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/matrix/finish.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// bf16 results with at most a bias and relu, of neighbouring whole panels of positions whose sums are made.
struct MatrixResults {
  const float *sums; // of the first panel; those of the next are kMatrixSums further on
  bf16 *to;
  const float *bias;
  int64_t step, panels; // elements to the next position; panels
  int64_t panel, left;  // the next one, of so many to come of all positions
  int64_t some;         // of them with each product
  bool relu, stream;

  POLYCONV_MEMBER void make(int64_t count) {
    for (; count > 0 && left > 0; --count, --left) {
      const float *const s = sums + panel * kMatrixSums, *const b = bias + panel * kMatrixPanel;
      bf16 *const p = to + panel * kMatrixPanel;
      for (int c = 0; c < kMatrixPanel; c += 2 * kF32Lanes) {
        F32 x0 = load(s + c), x1 = load(s + c + kF32Lanes);
        if (bias) x0 += load(b + c), x1 += load(b + c + kF32Lanes);           // x + 0 would make 0 of -0
        if (relu) x0 = x0 < F32{} ? F32{} : x0, x1 = x1 < F32{} ? F32{} : x1; // NaN stays
        stream ? store_two<true>(p + c, x0, x1) : store_two<false>(p + c, x0, x1);
      }
      if (++panel < panels) continue;
      panel = 0, sums += kMatrixPanel, to += step;
    }
  }
};

// Lines that a tile's sums will be stored to, asked for while it is multiplied: a store that waits for its line holds
// up those behind it.
struct MatrixWritten {
  const char *at;
  int64_t row; // bytes to the next position's
  int64_t left, some;
  int64_t lines; // of a position

  POLYCONV_MEMBER void fetch() {
    for (int64_t i = 0; i < some && left > 0; ++i, --left, at += row)
      for (int64_t line = 0; line < lines; ++line) __builtin_prefetch(at + line * kMatrixRowBytes, 1);
  }
};

} // namespace polyconv::cpu::POLYCONV_ISA
