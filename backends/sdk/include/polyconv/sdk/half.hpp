// half.hpp - f16 and bf16 as storage: conversions to and from float, round to nearest even, NaN kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

namespace polyconv::sdk {

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

inline float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float to_float(bf16 h) {
  return bits_to_float(static_cast<uint32_t>(h.bits) << 16);
}

inline bf16 to_bf16(float value) {
  const uint32_t bits = float_to_bits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)}; // quiet NaN
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline float to_float(f16 h) {
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000u) << 16;
  const uint32_t magnitude = h.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return bits_to_float(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13); // Inf, NaN
  // Shifted into place the exponent is 112 too small; one multiplication mends it, denormals included.
  return bits_to_float(sign | float_to_bits(bits_to_float(magnitude << 13) * 0x1p112f));
}

inline f16 to_f16(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u)};  // quiet NaN
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)}; // 65520 and above round to Inf
  if (magnitude < 0x38800000u) { // below 2^-14: the sum's unit in the last place is f16's denormal unit
    const float scaled = bits_to_float(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (float_to_bits(scaled) - 0x3f000000u))};
  }
  return {static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13))};
}

// A double goes through float rounded to odd, so that the second rounding cannot undo the first.
inline float to_float_odd(double value) {
  float f = static_cast<float>(value);
  if (static_cast<double>(f) == value || value != value) return f;
  uint32_t bits = float_to_bits(f);
  if ((bits & 1u) == 0 && (bits & 0x7fffffffu) < 0x7f800000u) {
    const bool too_big = (f > value) == (f > 0); // rounded away from zero: step back, else step out
    bits = too_big ? (bits & 0x7fffffffu ? bits - 1 : bits) : bits + 1;
    f = bits_to_float(bits);
  }
  return f;
}
inline f16 to_f16(double value) {
  return to_f16(to_float_odd(value));
}
inline bf16 to_bf16(double value) {
  return to_bf16(to_float_odd(value));
}

} // namespace polyconv::sdk
