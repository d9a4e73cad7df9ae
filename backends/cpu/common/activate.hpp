// activate.hpp - activations in vectors. Those of a few instructions are inlined wherever results leave; those with
// exp, those by channel and those that need the C library are applied to runs of values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/epilogue.hpp"
#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// max(v, 0), min(..., alpha) and so on; NaN passes through. Slow ones are not here.
template <class V>
POLYCONV_INLINE V activate(V v, int32_t activation, V alpha) {
  const V zero = {};
  switch (activation) {
    case POLYCONV_ACT_RELU: return v < zero ? zero : v;
    case POLYCONV_ACT_CLIPPED_RELU: {
      const V positive = v < zero ? zero : v;
      return positive > alpha ? alpha : positive;
    }
    case POLYCONV_ACT_LEAKY_RELU: return v < zero ? alpha * v : v;
    case POLYCONV_ACT_HARD_SWISH: {
      const V shifted = v + 3, positive = shifted < zero ? zero : shifted;
      return v * (positive > zero + 6 ? zero + 6 : positive) / 6;
    }
    default: return v;
  }
}

// bias[m] to every sum of a tile's row m.
template <int M, int N>
POLYCONV_INLINE void add_bias(const float *bias, F32 (&sums)[M][N]) {
#pragma GCC unroll 16
  for (int m = 0; m < M; ++m) {
    const F32 each = splat(bias[m]);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[m][n] += each;
  }
}

// change(sum) for every sum of a tile.
template <class V, int M, int N, class Change>
POLYCONV_INLINE void for_sums(V (&sums)[M][N], const Change &change) {
#pragma GCC unroll 32
  for (int m = 0; m < M; ++m)
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) sums[m][n] = change(sums[m][n]);
}

// activate() for every sum of a tile. Which one is asked for once: a question at every sum makes a tile five times as
// long.
template <int M, int N>
POLYCONV_INLINE void activate_tile(int32_t activation, F32 alpha, F32 (&sums)[M][N]) {
  switch (activation) {
    case POLYCONV_ACT_RELU: return for_sums(sums, [&](F32 v) { return activate(v, POLYCONV_ACT_RELU, alpha); });
    case POLYCONV_ACT_CLIPPED_RELU:
      return for_sums(sums, [&](F32 v) { return activate(v, POLYCONV_ACT_CLIPPED_RELU, alpha); });
    case POLYCONV_ACT_LEAKY_RELU:
      return for_sums(sums, [&](F32 v) { return activate(v, POLYCONV_ACT_LEAKY_RELU, alpha); });
    case POLYCONV_ACT_HARD_SWISH:
      return for_sums(sums, [&](F32 v) { return activate(v, POLYCONV_ACT_HARD_SWISH, alpha); });
    default: return;
  }
}

// exp(v) as scale * (1 + rest): a power of 2, and exp of at most half of log 2 by its series up to the seventh power,
// whose next term is below a quarter of f32's unit roundoff. v is held where the power is a normal number.
struct Exponential {
  F32 scale, rest;
};
POLYCONV_INLINE Exponential exponential(F32 v) {
  const F32 least = splat(-87.0f), most = splat(88.0f);
  v = v < least ? least : v;
  v = v > most ? most : v;
  const F32 n = round_even(v * splat(1.44269504f));
  // log 2 in two parts, so that n times the first is exact.
  const F32 r = multiply_add(n, splat(2.12194440e-4f), multiply_add(n, splat(-0.693359375f), v));
  F32 series = splat(1.0f / 5040);
  series = multiply_add(series, r, splat(1.0f / 720));
  series = multiply_add(series, r, splat(1.0f / 120));
  series = multiply_add(series, r, splat(1.0f / 24));
  series = multiply_add(series, r, splat(1.0f / 6));
  series = multiply_add(series, r, splat(0.5f));
  const U32 exponent = bits_as<U32>(__builtin_convertvector(n, S32)) + 127u;
  return {bits_as<F32>(exponent << 23), multiply_add(r * r, series, r)};
}
POLYCONV_INLINE F32 exp_of(F32 v) {
  const Exponential e = exponential(v);
  return multiply_add(e.scale, e.rest, e.scale);
}
POLYCONV_INLINE F32 exp_less_1(F32 v) { // no digits are lost near 0
  const Exponential e = exponential(v);
  return multiply_add(e.scale, e.rest, e.scale - 1);
}

// Tanh-GELU is v / (1 + exp(t)) for this t.
POLYCONV_INLINE F32 gelu_tanh_exponent(F32 v) {
  return v * splat(-1.5957691216f) * multiply_add(v * v, splat(0.044715f), splat(1.0f));
}

POLYCONV_INLINE F32 elu(F32 v, F32 alpha) {
  return v < F32{} ? alpha * exp_less_1(v) : v;
}
POLYCONV_INLINE F32 gelu_tanh(F32 v) {
  const F32 t = gelu_tanh_exponent(v);
  return t > splat(87.0f) ? F32{} : v / (exp_of(t) + 1);
}
POLYCONV_INLINE F32 elu_slope(F32 v, F32 alpha) {
  return v > F32{} ? splat(1.0f) : alpha * exp_of(v); // NaN stays
}
POLYCONV_INLINE F32 gelu_tanh_slope(F32 v) {
  const F32 s = splat(1.0f) / (exp_of(gelu_tanh_exponent(v)) + 1), far = splat(1e4f), square = v * v;
  // Where the square is held, s is 0 or 1 but for nothing.
  const F32 rise =
      multiply_add(square > far ? far : square, splat(1.5957691216f * 3 * 0.044715f), splat(1.5957691216f));
  return multiply_add(s * (splat(1.0f) - s), v * rise, s);
}

// change(v, alpha) on n values in place, by vectors: values' room is whole vectors. Where alpha is `slopes`, it is that
// of the first value, and each value's own where the run follows channels.
template <class Real, class Change>
POLYCONV_INLINE void change_by_channel(Real *values, int64_t n, const Real *slopes, bool along_channels,
                                       const Change &change) {
  for (int64_t i = 0; i < n; i += kLanes<Real>) {
    const int rest = n - i < kLanes<Real> ? static_cast<int>(n - i) : kLanes<Real>;
    const Vector<Real> alpha = along_channels ? load_partial(slopes + i, rest) : splat(*slopes);
    store(values + i, change(load(values + i), alpha));
  }
}

// The activations for which is_slow holds, of n values in place, whose room is whole vectors. `slopes` are a PRelu's,
// from the first value's channel on.
template <class Real>
POLYCONV_NOINLINE void activate_run(Real *values, int64_t n, const polyconv_epilogue &rules, const Real *slopes,
                                    bool along_channels) {
  typedef Vector<Real> V;
  if (rules.activation == POLYCONV_ACT_PRELU)
    return change_by_channel(values, n, slopes, along_channels, [](V v, V a) { return v < V{} ? a * v : v; });
  if constexpr (sizeof(Real) == 4) {
    const Real alpha = rules.activation_alpha;
    if (rules.activation == POLYCONV_ACT_ELU)
      return change_by_channel(values, n, &alpha, false, [](V v, V a) { return elu(v, a); });
    if (rules.activation == POLYCONV_ACT_GELU_TANH)
      return change_by_channel(values, n, &alpha, false, [](V v, V) { return gelu_tanh(v); });
  }
  activate_slowly(values, n, rules);
}

// Likewise from pre-activations to the slopes there.
template <class Real>
POLYCONV_NOINLINE void slope_run(Real *values, int64_t n, const polyconv_epilogue &rules, const Real *slopes,
                                 bool along_channels) {
  typedef Vector<Real> V;
  if (rules.activation == POLYCONV_ACT_PRELU)
    return change_by_channel(values, n, slopes, along_channels, [](V v, V a) {
      const V slope = v > V{} ? V{} + 1 : a;
      return v == v ? slope : v;
    });
  if constexpr (sizeof(Real) == 4) {
    const Real alpha = rules.activation_alpha;
    if (rules.activation == POLYCONV_ACT_ELU)
      return change_by_channel(values, n, &alpha, false, [](V v, V a) { return elu_slope(v, a); });
    if (rules.activation == POLYCONV_ACT_GELU_TANH)
      return change_by_channel(values, n, &alpha, false, [](V v, V) { return gelu_tanh_slope(v); });
  }
  slope_slowly(values, n, rules);
}

} // namespace polyconv::cpu::POLYCONV_ISA
