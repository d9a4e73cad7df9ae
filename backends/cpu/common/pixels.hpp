// pixels.hpp - where the pixels of a source row lie, written down once, so that loops over taps know no borders.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// `count` pixels of a row whose neighbours lie `stride` elements apart, from coordinate `first` of the axis on; padding
// is a pixel of its own, as are those beyond the last that any tap reads. `row` is NULL where the row is padding.
template <class From>
POLYCONV_NOINLINE void list_pixels(const Axis &axis, const From *row, int64_t stride, const From *padding,
                                   int64_t first, int64_t count, const From **list) {
  const auto [a, b, last] = axis_run(first, 1, axis.in, axis.in + axis.after, row ? count : 0);
  for (int64_t x = 0; x < a; ++x) {
    const int64_t from = inside(axis, first + x);
    list[x] = from < 0 ? padding : row + from * stride;
  }
  for (int64_t x = a; x < b; ++x) list[x] = row + (first + x) * stride;
  for (int64_t x = b; x < last; ++x) {
    const int64_t from = inside(axis, first + x);
    list[x] = from < 0 ? padding : row + from * stride;
  }
  for (int64_t x = last; x < count; ++x) list[x] = padding;
}

} // namespace polyconv::cpu::POLYCONV_ISA
