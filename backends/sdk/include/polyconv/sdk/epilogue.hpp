// epilogue.hpp - what happens between a sum and the stored value, one element at a time: polyconv_epilogue in
// its order. T is the arithmetic: float, or double for the f64 row and for the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>
#include <polyconv/sdk/half.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace polyconv::sdk {

// What tanh-GELU takes the tanh of, is sqrt(2 / pi) (v + 0.044715 v^3); v times this.
template <class T>
inline T gelu_tanh_factor(T v) {
  return T(0.79788456080286535588) * (1 + T(0.044715) * v * v);
}

// Comparisons are written so that NaN passes through. `alpha` is the epilogue's, or a PRelu's slope for the channel.
template <class T>
inline T activate(T v, const polyconv_epilogue &e, T alpha) {
  switch (e.activation) {
    case POLYCONV_ACT_RELU: return v < 0 ? T(0) : v;
    case POLYCONV_ACT_CLIPPED_RELU: return v < 0 ? T(0) : v > alpha ? alpha : v;
    case POLYCONV_ACT_LEAKY_RELU: return v < 0 ? alpha * v : v;
    case POLYCONV_ACT_TANH: return std::tanh(v);
    case POLYCONV_ACT_SIGMOID: return 1 / (1 + std::exp(-v));
    case POLYCONV_ACT_GELU: return v * (1 + std::erf(v * T(0.70710678118654752440))) / 2;
    case POLYCONV_ACT_SILU: return v / (1 + std::exp(-v));
    case POLYCONV_ACT_HARD_SWISH: {
      const T t = v + 3;
      return v * (t < 0 ? T(0) : t > 6 ? T(6) : t) / 6;
    }
    case POLYCONV_ACT_ELU: return v < 0 ? alpha * std::expm1(v) : v;
    // (1 + tanh(u)) / 2 is 1 / (1 + exp(-2 u)), which loses nothing where tanh is near -1.
    case POLYCONV_ACT_GELU_TANH: return v / (1 + std::exp(-2 * v * gelu_tanh_factor(v)));
    case POLYCONV_ACT_PRELU: return v < 0 ? alpha * v : v;
    default: return v;
  }
}
template <class T>
inline T activate(T v, const polyconv_epilogue &e) {
  return activate(v, e, static_cast<T>(e.activation_alpha));
}

// The slope of the activation at a pre-activation v. At a kink that of the flat or leaky side; NaN where v is NaN.
template <class T>
inline T activation_slope(T v, const polyconv_epilogue &e, T alpha) {
  if (v != v) return v;
  switch (e.activation) {
    case POLYCONV_ACT_RELU: return v > 0 ? T(1) : T(0);
    case POLYCONV_ACT_CLIPPED_RELU: return v > 0 && v < alpha ? T(1) : T(0);
    case POLYCONV_ACT_LEAKY_RELU: return v > 0 ? T(1) : alpha;
    case POLYCONV_ACT_TANH: {
      const T t = std::tanh(v);
      return 1 - t * t;
    }
    case POLYCONV_ACT_SIGMOID: {
      const T s = 1 / (1 + std::exp(-v));
      return s * (1 - s);
    }
    case POLYCONV_ACT_GELU: {
      const T density = std::exp(-v * v / 2) * T(0.39894228040143267794); // 1 / sqrt(2 pi)
      return (1 + std::erf(v * T(0.70710678118654752440))) / 2 + v * density;
    }
    case POLYCONV_ACT_SILU: {
      const T s = 1 / (1 + std::exp(-v));
      return s * (1 + v * (1 - s));
    }
    case POLYCONV_ACT_HARD_SWISH: return v <= -3 ? T(0) : v >= 3 ? T(1) : (2 * v + 3) / 6;
    case POLYCONV_ACT_ELU: return v > 0 ? T(1) : alpha * std::exp(v);
    case POLYCONV_ACT_GELU_TANH: {
      const T s = 1 / (1 + std::exp(-2 * v * gelu_tanh_factor(v)));
      const T square = v * v < T(1e4) ? v * v : T(1e4); // beyond, s is 0 or 1
      const T rise = T(2 * 0.79788456080286535588) * (1 + T(3 * 0.044715) * square);
      return s + s * (1 - s) * v * rise;
    }
    case POLYCONV_ACT_PRELU: return v > 0 ? T(1) : alpha;
    default: return T(1);
  }
}
template <class T>
inline T activation_slope(T v, const polyconv_epilogue &e) {
  return activation_slope(v, e, static_cast<T>(e.activation_alpha));
}

// Rounds half to even and saturates; NaN becomes 0.
template <class Integer, class T>
inline Integer saturate(T v) {
  constexpr auto low = std::numeric_limits<Integer>::min();
  constexpr auto high = std::numeric_limits<Integer>::max();
  if (v != v) return 0;
  const T rounded = std::nearbyint(v);
  if (rounded <= static_cast<T>(low)) return low;
  if (rounded >= static_cast<T>(high)) return high;
  return static_cast<Integer>(rounded);
}

// Element `i` of a tensor as arithmetic of type T (an s32 may lose bits in float: the rule of the s8/u8 rows).
template <class T>
inline T load_as(const void *p, int32_t type, int64_t i) {
  switch (type) {
    case POLYCONV_F64: return static_cast<T>(static_cast<const double *>(p)[i]);
    case POLYCONV_F32: return static_cast<T>(static_cast<const float *>(p)[i]);
    case POLYCONV_F16: return static_cast<T>(to_float(static_cast<const f16 *>(p)[i]));
    case POLYCONV_BF16: return static_cast<T>(to_float(static_cast<const bf16 *>(p)[i]));
    case POLYCONV_S32: return static_cast<T>(static_cast<const int32_t *>(p)[i]);
    case POLYCONV_S8: return static_cast<T>(static_cast<const int8_t *>(p)[i]);
    case POLYCONV_U8: return static_cast<T>(static_cast<const uint8_t *>(p)[i]);
    case POLYCONV_U16: return static_cast<T>(static_cast<const uint16_t *>(p)[i]);
    default: return T(0);
  }
}

// Stores v as element `i`; integers are rounded half to even and saturated.
template <class T>
inline void store_as(void *p, int32_t type, int64_t i, T v) {
  switch (type) {
    case POLYCONV_F64: static_cast<double *>(p)[i] = static_cast<double>(v); break;
    case POLYCONV_F32: static_cast<float *>(p)[i] = static_cast<float>(v); break;
    case POLYCONV_F16: static_cast<f16 *>(p)[i] = to_f16(v); break;
    case POLYCONV_BF16: static_cast<bf16 *>(p)[i] = to_bf16(v); break;
    case POLYCONV_S32: static_cast<int32_t *>(p)[i] = saturate<int32_t>(v); break;
    case POLYCONV_S8: static_cast<int8_t *>(p)[i] = saturate<int8_t>(v); break;
    case POLYCONV_U8: static_cast<uint8_t *>(p)[i] = saturate<uint8_t>(v); break;
    case POLYCONV_U16: static_cast<uint16_t *>(p)[i] = saturate<uint16_t>(v); break;
    default: break;
  }
}

// The type of a scale, and of a PRelu's slopes, beside sums of a type.
inline int32_t scale_type(int32_t sum_type) {
  return sum_type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
}

// What activate calls alpha, for one channel of the result: a PRelu has one each, in `slope`.
template <class T>
inline T alpha_of(const polyconv_layer &l, const void *slope, int64_t channel) {
  if (l.epilogue.activation != POLYCONV_ACT_PRELU) return static_cast<T>(l.epilogue.activation_alpha);
  return load_as<T>(slope, scale_type(l.sum_type), channel);
}

inline bool is_integer_type(int32_t type) {
  return type >= POLYCONV_S32 && type <= POLYCONV_U16;
}

// True where a quantised layer never leaves integers: s32 out, nothing but a bias.
inline bool stays_integer(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  return l.sum_type == POLYCONV_S32 && l.result.type == POLYCONV_S32 && !e.has_scale &&
         e.residual_from == POLYCONV_RESIDUAL_NONE && e.activation == POLYCONV_ACT_NONE &&
         e.pool.kind == POLYCONV_POOL_NONE && e.out_scale == 1.0f && e.out_zero_point == 0;
}

// The last step before storing: integer outputs divide by out_scale, round half to even and add the zero point.
// Rounding comes before the zero point, so ties do not depend on it.
template <class T>
inline T quantise(T v, const polyconv_epilogue &e, int32_t result_type) {
  if (is_integer_type(result_type))
    return std::nearbyint(v / static_cast<T>(e.out_scale)) + static_cast<T>(e.out_zero_point);
  return v;
}

} // namespace polyconv::sdk
