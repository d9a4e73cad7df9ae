// values.cuh - elements in memory as arithmetic: loads, stores and activation on the device, by the rules of
// polyconv_epilogue. The same file for every kernel, so that all CUDA techniques agree to the bit on conversions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <polyconv/backend.h>

#include <cstdint>
#include <type_traits>

namespace polyconv::cuda {

__device__ inline double value(double v) {
  return v;
}
__device__ inline float value(float v) {
  return v;
}
__device__ inline float value(__half v) {
  return __half2float(v);
}
__device__ inline float value(__nv_bfloat16 v) {
  return __bfloat162float(v);
}
__device__ inline int32_t value(int32_t v) {
  return v;
}
__device__ inline int32_t value(int8_t v) {
  return v;
}
__device__ inline int32_t value(uint8_t v) {
  return v;
}
__device__ inline int32_t value(uint16_t v) {
  return v;
}

// The sums of the quantised rows.
template <class Sum>
inline constexpr bool kInteger = std::is_integral_v<Sum>;

// A stored element as an operand of a product. Only integer rows have zero points.
template <class Sum, class Stored>
__device__ inline Sum operand(Stored stored, int32_t zero_point) {
  if constexpr (kInteger<Sum>)
    return static_cast<Sum>(value(stored) - zero_point);
  else
    return static_cast<Sum>(value(stored));
}
#ifdef __CUDACC__ // the device's own rounding
// Sums and products of the epilogue, each rounded on its own: the compiler must not contract them to one FMA, because
// the quantised rows promise the same bits on every backend.
__device__ inline float add(float a, float b) {
  return __fadd_rn(a, b);
}
__device__ inline double add(double a, double b) {
  return __dadd_rn(a, b);
}
__device__ inline float multiply(float a, float b) {
  return __fmul_rn(a, b);
}
__device__ inline double multiply(double a, double b) {
  return __dmul_rn(a, b);
}
__device__ inline float divide(float a, float b) {
  return __fdiv_rn(a, b);
}
__device__ inline double divide(double a, double b) {
  return __ddiv_rn(a, b);
}

// Rounds half to even and saturates; NaN becomes 0.
template <class T>
__device__ inline int32_t round_to_integer(T v, int32_t low, int32_t high) {
  int32_t i;
  if constexpr (sizeof(T) == 8)
    i = __double2int_rn(v);
  else
    i = __float2int_rn(v);
  return v != v ? 0 : min(max(i, low), high);
}
#endif
// Element i of a tensor whose type is known at run time: residuals, biases and scales, not the inner loop.
template <class T>
__device__ inline T load(const void *p, int32_t type, int64_t i) {
  switch (type) {
    case POLYCONV_F64: return static_cast<T>(static_cast<const double *>(p)[i]);
    case POLYCONV_F32: return static_cast<T>(static_cast<const float *>(p)[i]);
    case POLYCONV_F16: return static_cast<T>(value(static_cast<const __half *>(p)[i]));
    case POLYCONV_BF16: return static_cast<T>(value(static_cast<const __nv_bfloat16 *>(p)[i]));
    case POLYCONV_S32: return static_cast<T>(static_cast<const int32_t *>(p)[i]);
    case POLYCONV_S8: return static_cast<T>(static_cast<const int8_t *>(p)[i]);
    case POLYCONV_U8: return static_cast<T>(static_cast<const uint8_t *>(p)[i]);
    case POLYCONV_U16: return static_cast<T>(static_cast<const uint16_t *>(p)[i]);
    default: return T(0);
  }
}

// Stores v as element i; integers are rounded half to even and saturated.
template <class T>
__device__ inline void store(void *p, int32_t type, int64_t i, T v) {
  switch (type) {
    case POLYCONV_F64: static_cast<double *>(p)[i] = static_cast<double>(v); break;
    case POLYCONV_F32: static_cast<float *>(p)[i] = static_cast<float>(v); break;
    case POLYCONV_F16: static_cast<__half *>(p)[i] = __float2half_rn(static_cast<float>(v)); break;
    case POLYCONV_BF16: static_cast<__nv_bfloat16 *>(p)[i] = __float2bfloat16_rn(static_cast<float>(v)); break;
    case POLYCONV_S32: static_cast<int32_t *>(p)[i] = round_to_integer(v, INT32_MIN, INT32_MAX); break;
    case POLYCONV_S8: static_cast<int8_t *>(p)[i] = static_cast<int8_t>(round_to_integer(v, -128, 127)); break;
    case POLYCONV_U8: static_cast<uint8_t *>(p)[i] = static_cast<uint8_t>(round_to_integer(v, 0, 255)); break;
    case POLYCONV_U16: static_cast<uint16_t *>(p)[i] = static_cast<uint16_t>(round_to_integer(v, 0, 65535)); break;
    default: break;
  }
}

// polyconv_epilogue's activations but the three of activate_any; comparisons let NaN through.
template <class T>
__device__ inline T activate(T v, int32_t activation, T alpha) {
  switch (activation) {
    case POLYCONV_ACT_RELU: return v < 0 ? T(0) : v;
    case POLYCONV_ACT_CLIPPED_RELU: return v < 0 ? T(0) : v > alpha ? alpha : v;
    case POLYCONV_ACT_LEAKY_RELU: return v < 0 ? multiply(alpha, v) : v;
    case POLYCONV_ACT_TANH: return tanh(v);
    case POLYCONV_ACT_SIGMOID: return 1 / (1 + exp(-v));
    case POLYCONV_ACT_GELU: return v * (1 + erf(v * T(0.70710678118654752440))) / 2;
    case POLYCONV_ACT_SILU: return v / (1 + exp(-v));
    case POLYCONV_ACT_HARD_SWISH: {
      const T t = v + 3;
      return v * (t < 0 ? T(0) : t > 6 ? T(6) : t) / 6;
    }
    default: return v;
  }
}

// What tanh-GELU takes the tanh of, is v times this.
template <class T>
__device__ inline T gelu_tanh_factor(T v) {
  return T(0.79788456080286535588) * (1 + T(0.044715) * v * v);
}

// All of them, for kernels that take sdk::kActivationTraits. Apart, as the three more cost the others registers.
// `alpha` is a PRelu's slope for the channel.
template <class T>
__device__ inline T activate_any(T v, int32_t activation, T alpha) {
  switch (activation) {
    case POLYCONV_ACT_ELU: return v < 0 ? alpha * expm1(v) : v;
    case POLYCONV_ACT_GELU_TANH: return v / (1 + exp(-2 * v * gelu_tanh_factor(v)));
    case POLYCONV_ACT_PRELU: return v < 0 ? multiply(alpha, v) : v;
    default: return activate(v, activation, alpha);
  }
}

// The slope of the activation at a pre-activation v: sdk::activation_slope on the device.
template <class T>
__device__ inline T activation_slope(T v, int32_t activation, T alpha) {
  if (v != v) return v;
  switch (activation) {
    case POLYCONV_ACT_RELU: return v > 0 ? T(1) : T(0);
    case POLYCONV_ACT_CLIPPED_RELU: return v > 0 && v < alpha ? T(1) : T(0);
    case POLYCONV_ACT_LEAKY_RELU: return v > 0 ? T(1) : alpha;
    case POLYCONV_ACT_TANH: {
      const T t = tanh(v);
      return 1 - t * t;
    }
    case POLYCONV_ACT_SIGMOID: {
      const T s = 1 / (1 + exp(-v));
      return s * (1 - s);
    }
    case POLYCONV_ACT_GELU: {
      const T density = exp(-v * v / 2) * T(0.39894228040143267794); // 1 / sqrt(2 pi)
      return (1 + erf(v * T(0.70710678118654752440))) / 2 + v * density;
    }
    case POLYCONV_ACT_SILU: {
      const T s = 1 / (1 + exp(-v));
      return s * (1 + v * (1 - s));
    }
    case POLYCONV_ACT_HARD_SWISH: return v <= -3 ? T(0) : v >= 3 ? T(1) : (2 * v + 3) / 6;
    case POLYCONV_ACT_ELU: return v > 0 ? T(1) : alpha * exp(v);
    case POLYCONV_ACT_GELU_TANH: {
      const T s = 1 / (1 + exp(-2 * v * gelu_tanh_factor(v)));
      const T square = v * v < T(1e4) ? v * v : T(1e4); // beyond, s is 0 or 1
      return s + s * (1 - s) * v * T(2 * 0.79788456080286535588) * (1 + T(3 * 0.044715) * square);
    }
    case POLYCONV_ACT_PRELU: return v > 0 ? T(1) : alpha;
    default: return T(1);
  }
}

} // namespace polyconv::cuda
