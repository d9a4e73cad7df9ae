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
  const float *bias;                                        // NULL: none
  int64_t step, panels;                                     // elements to the next position; panels of a position
  int64_t left, some;                                       // positions to come, in all and with each product
  void (*positions)(MatrixResults &results, int64_t count); // makes those of so many, see positions_of

  POLYCONV_MEMBER void make(int64_t count) {
    if (count > left) count = left;
    if (count == 0) return;
    left -= count;
    positions(*this, count);
  }
};

// A function of its own, as there are many products to stand beside, and what does not change is asked for once.
template <bool Bias, bool Relu, bool Stream>
POLYCONV_NOINLINE void make_positions(MatrixResults &results, int64_t count) {
  const float *sums = results.sums;
  const float *const bias = results.bias;
  bf16 *to = results.to;
  const int64_t step = results.step, panels = results.panels;
  for (; count > 0; --count, sums += kMatrixPanel, to += step)
    for (int64_t panel = 0; panel < panels; ++panel) {
      const int64_t k = panel * kMatrixPanel;
      for (int c = 0; c < kMatrixPanel; c += 2 * kF32Lanes) {
        F32 bias0 = {}, bias1 = {};
        if constexpr (Bias) bias0 = load(bias + k + c), bias1 = load(bias + k + c + kF32Lanes);
        finish_two<Stream>(to + k + c, sums + panel * kMatrixSums + c, Bias, bias0, bias1, Relu);
      }
    }
  results.sums = sums, results.to = to;
}

template <bool Stream>
POLYCONV_INLINE auto positions_as(bool bias, bool relu) {
  if (bias) return relu ? make_positions<true, true, Stream> : make_positions<true, false, Stream>;
  return relu ? make_positions<false, true, Stream> : make_positions<false, false, Stream>;
}
POLYCONV_INLINE auto positions_of(bool bias, bool relu, bool stream) {
  return stream ? positions_as<true>(bias, relu) : positions_as<false>(bias, relu);
}

} // namespace polyconv::cpu::POLYCONV_ISA
