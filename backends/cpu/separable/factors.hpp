// factors.hpp - a filter as an outer product. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv::cpu {

// A filter of rows x columns, dense.
template <class T>
struct Filter2D {
  const T *weights;
  int64_t rows, columns;

  T at(int64_t r, int64_t c) const { return weights[r * columns + c]; }
};

// Factors such that down[r] * along[c], rounded to T, is weight (r, c): bit for bit, or, where `near`, within eight
// units of rounding. The sum of |down| is at most 1, so that sums of the first pass stay inside the range of their
// terms. False where none were found: the filter is no outer product, or only one of numbers wider than T.
template <class T>
bool find_factors(const Filter2D<T> &filter, bool near, T *down, T *along);

} // namespace polyconv::cpu
