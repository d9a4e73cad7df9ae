// element.hpp - how stored inputs become the elements of the dense kernel's arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/convert.hpp"
#include "cpu/dense/plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Where the channels of an element lie: `count` of kChannels are there, `stride` elements apart.
struct ElementChannels {
  int64_t stride;
  int count;
};

// Inputs of type From as elements of type T, which hold kChannels channels.
template <class From, class T>
struct Element {
  static constexpr int kChannels = 1;
  float pad;
  explicit POLYCONV_MEMBER Element(const DensePlan &plan) : pad(static_cast<float>(plan.pad_value)) {}
  POLYCONV_MEMBER F32 full(const From *p, ElementChannels) const { return load_f32(p); }
  POLYCONV_MEMBER F32 partial(const From *p, ElementChannels, int n) const { return load_f32_partial(p, n); }
  POLYCONV_MEMBER float one(const From *p, ElementChannels) const { return scalar_f32(*p); }
  POLYCONV_MEMBER float padding() const { return pad; }
};

template <>
struct Element<double, double> {
  static constexpr int kChannels = 1;
  double pad;
  explicit POLYCONV_MEMBER Element(const DensePlan &plan) : pad(plan.pad_value) {}
  POLYCONV_MEMBER F64 full(const double *p, ElementChannels) const { return load(p); }
  POLYCONV_MEMBER F64 partial(const double *p, ElementChannels, int n) const { return load_partial(p, n); }
  POLYCONV_MEMBER double one(const double *p, ElementChannels) const { return *p; }
  POLYCONV_MEMBER double padding() const { return pad; }
};

#if defined(POLYCONV_DOTS)
} // namespace polyconv::cpu::POLYCONV_ISA
#include "cpu/dense/dots.hpp"
namespace polyconv::cpu::POLYCONV_ISA {
#else
template <class From>
struct Element<From, int32_t> {
  static constexpr int kChannels = 2;
  int32_t zero_point, pad;
  explicit POLYCONV_MEMBER Element(const DensePlan &plan)
      : zero_point(plan.zero_point), pad(static_cast<int32_t>(plan.pad_value) - plan.zero_point) {}
  POLYCONV_MEMBER S32 full(const From *p, ElementChannels c) const {
    const S32 zero = splat(zero_point), low = load_s32(p) - zero;
    return pair(low, c.count > 1 ? load_s32(p + c.stride) - zero : S32{});
  }
  POLYCONV_MEMBER S32 partial(const From *p, ElementChannels c, int n) const {
    From some[2][kLanes<int32_t>] = {};
    for (int channel = 0; channel < c.count; ++channel)
      for (int i = 0; i < n; ++i) some[channel][i] = p[channel * c.stride + i];
    return full(some[0], {kLanes<int32_t>, c.count});
  }
  POLYCONV_MEMBER int32_t one(const From *p, ElementChannels c) const {
    return pair(*p - zero_point, c.count > 1 ? p[c.stride] - zero_point : 0);
  }
  // n channels side by side, as `count` elements.
  POLYCONV_MEMBER void copy(const From *in, int64_t n, int64_t count, int32_t *out) const {
    int16_t *o = reinterpret_cast<int16_t *>(out);
    const S32 zero = splat(zero_point);
    int64_t i = 0;
    for (; i + kLanes<int32_t> <= n; i += kLanes<int32_t>) {
      const HalfS16 narrow = __builtin_convertvector(load_s32(in + i) - zero, HalfS16);
      __builtin_memcpy(o + i, &narrow, sizeof narrow);
    }
    for (; i < n; ++i) o[i] = static_cast<int16_t>(in[i] - zero_point);
    if (i < 2 * count) o[i] = 0;
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
#endif

// The channels of element c.
template <class E>
POLYCONV_INLINE ElementChannels channels_of(const DensePlan &p, int64_t c) {
  const int64_t left = p.group_in - E::kChannels * c;
  return {p.input.stride[1], static_cast<int>(left < E::kChannels ? left : E::kChannels)};
}

} // namespace polyconv::cpu::POLYCONV_ISA
