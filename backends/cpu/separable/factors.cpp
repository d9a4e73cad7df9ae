// factors.cpp - see factors.hpp. An outer product fixes its factors but for a common scale, and it is the scale that
// decides whether the products round to the weights. Those tried: the one that makes a factor of a column or row itself
// (Sobel, binomial and box filters), and the square root of a symmetric filter's middle (Gaussians).
// SPDX-License-Identifier: Apache-2.0
#include "cpu/separable/factors.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace polyconv::cpu {
namespace {

template <class T>
struct Factors {
  std::vector<T> down, along;
};

// The neighbour `steps` representable numbers away.
template <class T>
T stepped(T v, int steps) {
  for (; steps > 0; --steps) v = std::nextafter(v, std::numeric_limits<T>::infinity());
  for (; steps < 0; ++steps) v = std::nextafter(v, -std::numeric_limits<T>::infinity());
  return v;
}

constexpr int kSteps[] = {0, 1, -1, 2, -2};

// The row with the largest weight, and its column.
template <class T>
void find_largest(const Filter2D<T> &f, int64_t &row, int64_t &column) {
  T largest = -1;
  for (int64_t r = 0; r < f.rows; ++r)
    for (int64_t c = 0; c < f.columns; ++c)
      if (std::fabs(f.at(r, c)) > largest) {
        largest = std::fabs(f.at(r, c));
        row = r, column = c;
      }
}

// The other factor of a column: a number whose products with all of `down` are that column.
template <class T>
bool fit_column(const Filter2D<T> &f, const std::vector<T> &down, int64_t row, int64_t c, T &result) {
  const T quotient = f.at(row, c) / down[static_cast<size_t>(row)];
  for (int steps : kSteps) {
    result = stepped(quotient, steps);
    bool good = true;
    for (int64_t r = 0; r < f.rows && good; ++r) good = down[static_cast<size_t>(r)] * result == f.at(r, c);
    if (good) return true;
  }
  return false;
}

// `down` is given; `row` is where it is largest.
template <class T>
bool fit(const Filter2D<T> &f, int64_t row, Factors<T> &factors) {
  factors.along.resize(static_cast<size_t>(f.columns));
  for (int64_t c = 0; c < f.columns; ++c)
    if (!fit_column(f, factors.down, row, c, factors.along[static_cast<size_t>(c)])) return false;
  return true;
}

// Each column as the factor along H.
template <class T>
bool fit_columns(const Filter2D<T> &f, int64_t row, Factors<T> &factors) {
  for (int64_t c = 0; c < f.columns; ++c) {
    if (f.at(row, c) == 0) continue;
    factors.down.clear();
    for (int64_t r = 0; r < f.rows; ++r) factors.down.push_back(f.at(r, c));
    if (fit(f, row, factors)) return true;
  }
  return false;
}

// A factor whose products with itself are the filter, from its largest element on.
template <class T>
bool fit_square_root(const Filter2D<T> &f, int64_t row, int64_t column, Factors<T> &factors) {
  if (f.rows != f.columns || row != column || !(f.at(row, row) > 0)) return false;
  for (int middle : kSteps) {
    const T root = stepped(std::sqrt(f.at(row, row)), middle);
    factors.down.clear();
    for (int64_t r = 0; r < f.rows; ++r) {
      T best = f.at(r, row) / root;
      for (int steps : kSteps) {
        const T tried = stepped(f.at(r, row) / root, steps);
        if (tried * root == f.at(r, row) && tried * tried == f.at(r, r)) {
          best = tried;
          break;
        }
      }
      factors.down.push_back(best);
    }
    if (fit(f, row, factors)) return true;
  }
  return false;
}

// Row and column of the largest weight, as they are.
template <class T>
bool fit_nearly(const Filter2D<T> &f, int64_t row, int64_t column, Factors<T> &factors) {
  constexpr T kUnit = std::numeric_limits<T>::epsilon() / 2;
  factors.down.clear(), factors.along.clear();
  for (int64_t r = 0; r < f.rows; ++r) factors.down.push_back(f.at(r, column) / f.at(row, column));
  for (int64_t c = 0; c < f.columns; ++c) factors.along.push_back(f.at(row, c));
  for (int64_t r = 0; r < f.rows; ++r)
    for (int64_t c = 0; c < f.columns; ++c) {
      const T product = factors.down[static_cast<size_t>(r)] * factors.along[static_cast<size_t>(c)];
      const T bound = 8 * kUnit * std::fabs(f.at(r, c)) + kUnit * kUnit * std::fabs(f.at(row, column));
      if (!(std::fabs(product - f.at(r, c)) <= bound)) return false;
    }
  return true;
}

// Moves a power of two from one factor to the other; false where that is not exact, or a product vanishes that an
// infinity must not multiply.
template <class T>
bool scale(const Filter2D<T> &f, const Factors<T> &factors, bool near, T *down, T *along) {
  T sum = 0;
  for (T v : factors.down) sum += std::fabs(v);
  if (!std::isfinite(sum)) return false; // each is, not all together
  const int exponent = std::ilogb(sum) + 1;
  for (int64_t r = 0; r < f.rows; ++r) down[r] = std::scalbn(factors.down[static_cast<size_t>(r)], -exponent);
  for (int64_t c = 0; c < f.columns; ++c) along[c] = std::scalbn(factors.along[static_cast<size_t>(c)], exponent);
  for (int64_t r = 0; r < f.rows; ++r)
    for (int64_t c = 0; c < f.columns; ++c) {
      const T before = factors.down[static_cast<size_t>(r)] * factors.along[static_cast<size_t>(c)];
      const bool vanished = !near && f.at(r, c) == 0 && down[r] != 0 && along[c] != 0;
      if ((!near && down[r] * along[c] != before) || vanished) return false;
    }
  return true;
}

} // namespace

template <class T>
bool find_factors(const Filter2D<T> &filter, bool near, T *down, T *along) {
  for (int64_t i = 0; i < filter.rows * filter.columns; ++i)
    if (!std::isfinite(filter.weights[i])) return false;
  int64_t row = 0, column = 0;
  find_largest(filter, row, column);
  if (filter.at(row, column) == 0) return false;
  Factors<T> factors;
  return (fit_columns(filter, row, factors) || fit_square_root(filter, row, column, factors) ||
          (near && fit_nearly(filter, row, column, factors))) &&
         scale(filter, factors, near, down, along);
}

template bool find_factors<float>(const Filter2D<float> &, bool, float *, float *);
template bool find_factors<double>(const Filter2D<double> &, bool, double *, double *);

} // namespace polyconv::cpu
