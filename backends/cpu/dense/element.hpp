// element.hpp - how stored inputs become the elements of the dense kernel's arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/dense/plan.hpp"
#include "cpu/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Inputs of type From as elements of type T. For pairs an element holds two channels, at p and at q (q NULL beyond the
// last); elsewhere q is not looked at.
template <class From, class T>
struct Element {
  static constexpr int kChannels = 1;
  float pad;
  explicit POLYCONV_MEMBER Element(const DensePlan &plan) : pad(static_cast<float>(plan.pad_value)) {}
  POLYCONV_MEMBER F32 full(const From *p, const From *) const { return load_f32(p); }
  POLYCONV_MEMBER F32 partial(const From *p, const From *, int n) const { return load_f32_partial(p, n); }
  POLYCONV_MEMBER float one(const From *p, const From *) const { return scalar_f32(*p); }
  POLYCONV_MEMBER float padding() const { return pad; }
};

template <>
struct Element<double, double> {
  static constexpr int kChannels = 1;
  double pad;
  explicit POLYCONV_MEMBER Element(const DensePlan &plan) : pad(plan.pad_value) {}
  POLYCONV_MEMBER F64 full(const double *p, const double *) const { return load(p); }
  POLYCONV_MEMBER F64 partial(const double *p, const double *, int n) const { return load_partial(p, n); }
  POLYCONV_MEMBER double one(const double *p, const double *) const { return *p; }
  POLYCONV_MEMBER double padding() const { return pad; }
};

template <class From>
struct Element<From, int32_t> {
  static constexpr int kChannels = 2;
  int32_t zero_point, pad;
  explicit POLYCONV_MEMBER Element(const DensePlan &plan)
      : zero_point(plan.zero_point), pad(static_cast<int32_t>(plan.pad_value) - plan.zero_point) {}
  POLYCONV_MEMBER S32 full(const From *p, const From *q) const {
    const S32 zero = splat(zero_point), low = load_s32(p) - zero;
    return pair(low, q ? load_s32(q) - zero : S32{});
  }
  POLYCONV_MEMBER S32 partial(const From *p, const From *q, int n) const {
    From low[kLanes<int32_t>] = {}, high[kLanes<int32_t>] = {};
    for (int i = 0; i < n; ++i) low[i] = p[i];
    for (int i = 0; q && i < n; ++i) high[i] = q[i];
    return full(low, q ? high : nullptr);
  }
  POLYCONV_MEMBER int32_t one(const From *p, const From *q) const {
    return pair(*p - zero_point, q ? *q - zero_point : 0);
  }
  POLYCONV_MEMBER int32_t padding() const { return pair(pad, pad); }

  // Low first in memory, on either byte order: channels side by side are pairs already.
  POLYCONV_MEMBER static S32 pair(S32 first, S32 second) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return (first & 0xffff) | bits_as<S32>(bits_as<U32>(second) << 16);
#else
    return (second & 0xffff) | bits_as<S32>(bits_as<U32>(first) << 16);
#endif
  }
  POLYCONV_MEMBER static int32_t pair(int32_t first, int32_t second) {
    int16_t both[2] = {static_cast<int16_t>(first), static_cast<int16_t>(second)};
    int32_t result;
    __builtin_memcpy(&result, both, sizeof result);
    return result;
  }
};

// Where the second channel of element c's pair lies, NULL beyond the last channel.
template <class E, class From>
POLYCONV_INLINE const From *second_channel(const DensePlan &p, int64_t c, const From *first) {
  return E::kChannels == 2 && 2 * c + 1 < p.group_in ? first + p.input.stride[1] : nullptr;
}

} // namespace polyconv::cpu::POLYCONV_ISA
