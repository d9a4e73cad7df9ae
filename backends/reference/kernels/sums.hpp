// sums.hpp - the three ways in which the reference sums products: double for the float rows, a compensated double for
// the f64 row, 32 bits that wrap for the quantised rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

namespace polyconv::reference {

// A sum as exact as if computed in twice the precision of double and then rounded once (Ogita, Rump and Oishi's Dot2:
// TwoProd, TwoSum, and their errors summed on the side). `high` is the plain sum, so NaN and Inf survive in it.
struct Compensated {
  double high, low;
};

inline void add_product(double &sum, double a, double b) {
  sum += a * b;
}

inline void add_product(Compensated &sum, double a, double b) {
  const double product = a * b;
  const double product_error = std::fma(a, b, -product);
  const double total = sum.high + product;
  const double back = total - sum.high;
  const double total_error = (sum.high - (total - back)) + (product - back);
  sum.high = total;
  sum.low += product_error + total_error;
}

inline void add_product(uint32_t &sum, int32_t a, int32_t b) {
  sum += static_cast<uint32_t>(a) * static_cast<uint32_t>(b);
}

inline double rounded(double sum) {
  return sum;
}
inline double rounded(Compensated sum) {
  return std::isfinite(sum.high) ? sum.high + sum.low : sum.high;
}

} // namespace polyconv::reference
