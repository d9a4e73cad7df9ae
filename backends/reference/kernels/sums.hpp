// sums.hpp - the three ways in which the reference sums products: double for the float rows, a compensated double for
// the f64 row, 32 bits that wrap for the quantised rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace polyconv::reference {

// A sum as exact as if computed in twice the precision of double and then rounded once (Ogita, Rump and Oishi's Dot2:
// TwoProd, TwoSum, and their errors summed on the side). `high` is the plain sum, so NaN and Inf survive in it.
struct Compensated {
  double high, low;
};

inline void add_product(double &sum, double a, double b) {
  sum += a * b;
}

// Adds to the plain sum; what that lost by rounding (TwoSum).
inline double add_high(Compensated &sum, double value) {
  const double total = sum.high + value;
  const double back = total - sum.high;
  const double error = (sum.high - (total - back)) + (value - back);
  sum.high = total;
  return error;
}

inline void add_product(Compensated &sum, double a, double b) {
  const double product = a * b;
  const double product_error = std::fma(a, b, -product);
  sum.low += product_error + add_high(sum, product);
}

// Of a product that has no error.
inline void add_exact_product(Compensated &sum, double product) {
  sum.low += add_high(sum, product);
}

inline void add_product(uint32_t &sum, int32_t a, int32_t b) {
  sum += static_cast<uint32_t>(a) * static_cast<uint32_t>(b);
}

inline bool is_float(double value) {
  return static_cast<double>(static_cast<float>(value)) == value;
}

// sums[i * step] += values[i] * factor.
template <class Value, class Sum>
inline void add_products(Sum *sums, int64_t step, const Value *values, int64_t count, Value factor) {
  for (int64_t i = 0; i < count; ++i) add_product(sums[i * step], values[i], factor);
}

// Two numbers of 24 bits have an exact product in double, and most data are such even where they are asked about in
// f64: without the fma, which is a call where the compiler may not count on the instruction, that takes a third of the
// time.
inline void add_exact_products(Compensated *sums, int64_t step, const double *values, int64_t count, double factor) {
  for (int64_t i = 0; i < count; ++i) add_exact_product(sums[i * step], values[i] * factor);
}

// What is multiplied by many factors, and whether all of it are floats.
template <class Value, class Sum>
class Multiplied {
 public:
  Multiplied(const Value *values, int64_t count) : values_(values), count_(count) {
    if constexpr (std::is_same_v<Sum, Compensated>) floats_ = std::all_of(values, values + count, is_float);
  }
  void add(Sum *sums, int64_t step, Value factor) const {
    if constexpr (std::is_same_v<Sum, Compensated>)
      if (floats_ && is_float(factor)) return add_exact_products(sums, step, values_, count_, factor);
    add_products(sums, step, values_, count_, factor);
  }

 private:
  const Value *values_;
  int64_t count_;
  bool floats_ = false;
};

inline double rounded(double sum) {
  return sum;
}
inline double rounded(Compensated sum) {
  return std::isfinite(sum.high) ? sum.high + sum.low : sum.high;
}

} // namespace polyconv::reference
