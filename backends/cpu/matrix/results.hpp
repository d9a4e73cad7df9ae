// results.hpp - results that are made beside the products of the next tiles, a little with each of them: all at once
// they would take their own time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/matrix/finish.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// bf16 results with at most a bias and relu, of neighbouring whole panels of positions whose sums are made.
struct MatrixResults {
  const float *sums; // of the first panel; those of the next are kMatrixSums further on
  bf16 *to;
  const float *bias;         // NULL: none
  int64_t step, panels;      // elements to the next position; panels of a position
  int64_t panel, left, some; // the next one; how many are to come, of all positions, and with each product
  bool relu, stream;

  POLYCONV_MEMBER void make(int64_t count) {
    for (; count > 0 && left > 0; --count, --left) {
      const int64_t k = panel * kMatrixPanel;
      const float *const s = sums + panel * kMatrixSums;
      for (int c = 0; c < kMatrixPanel; c += 2 * kF32Lanes) {
        const F32 b0 = bias ? load(bias + k + c) : F32{}, b1 = bias ? load(bias + k + c + kF32Lanes) : F32{};
        stream ? finish_two<true>(to + k + c, s + c, bias != nullptr, b0, b1, relu)
               : finish_two<false>(to + k + c, s + c, bias != nullptr, b0, b1, relu);
      }
      if (++panel == panels) panel = 0, sums += kMatrixPanel, to += step;
    }
  }
};

} // namespace polyconv::cpu::POLYCONV_ISA
