// dots.hpp - elements of several channels in the passes that multiply and add them at one instruction: pairs of bf16
// (vdpbf16ps), quads of 8-bit integers (vpdpbusd, of which one factor is unsigned: the input's).
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace polyconv::cpu::POLYCONV_ISA {

// The bits of n neighbouring elements, zero in the other lanes.
template <class From>
POLYCONV_INLINE U32 load_bits(const From *p, int n) {
  From some[kLanes<uint32_t>] = {};
  if (n < kLanes<uint32_t>) {
    for (int i = 0; i < n; ++i) some[i] = p[i];
    p = some;
  }
  if constexpr (sizeof(From) == 2)
    return load_u32(p);
  else
    return bits_as<U32>(load_s32(reinterpret_cast<const uint8_t *>(p)));
}

// Inputs of sizeof(From) bytes as elements of as many as fill T.
template <class From, class T>
struct ElementOfSeveral {
  static constexpr int kChannels = sizeof(T) / sizeof(From), kBits = 8 * sizeof(From);
  uint32_t flip, pad; // what turns the sign of all channels; all channels of padding

  POLYCONV_MEMBER Vector<T> full(const From *p, ElementChannels c) const { return partial(p, c, kLanes<T>); }
  POLYCONV_MEMBER Vector<T> partial(const From *p, ElementChannels c, int n) const {
    U32 bits = load_bits(p, n);
#pragma GCC unroll 4
    for (int i = 1; i < kChannels; ++i)
      if (i < c.count) bits |= load_bits(p + i * c.stride, n) << (i * kBits);
    return bits_as<Vector<T>>(bits ^ flip);
  }
  // By shifts: what is stored channel by channel and loaded as one waits for all its stores.
  POLYCONV_MEMBER T one(const From *p, ElementChannels c) const {
    uint32_t bits = 0;
    for (int i = 0; i < c.count; ++i) bits |= bits_at(p + i * c.stride) << (i * kBits);
    return as_element(bits ^ flip);
  }
  POLYCONV_MEMBER T padding() const {
    return as_element(pad);
  }

  // n channels side by side, as `count` elements: what no channel fills is zero.
  POLYCONV_MEMBER void copy(const From *in, int64_t n, int64_t count, T *out) const {
    const int64_t whole = n / kChannels;
    int64_t i = 0;
    for (; i + kLanes<T> <= whole; i += kLanes<T>) {
      U32 bits;
      __builtin_memcpy(&bits, in + i * kChannels, sizeof bits);
      store(out + i, bits_as<Vector<T>>(bits ^ flip));
    }
    for (; i < whole; ++i) {
      uint32_t bits;
      __builtin_memcpy(&bits, in + i * kChannels, sizeof bits);
      out[i] = as_element(bits ^ flip);
    }
    if (i < count) out[i] = as_element(bits_of_few(in + i * kChannels, n - i * kChannels) ^ flip), ++i;
    for (; i < count; ++i) out[i] = as_element(flip);
  }

  POLYCONV_MEMBER static uint32_t bits_at(const From *p) {
    if constexpr (sizeof(From) == 1)
      return static_cast<uint8_t>(*p);
    else
      return p->bits;
  }
  // Of fewer than kChannels channels side by side.
  POLYCONV_MEMBER static uint32_t bits_of_few(const From *p, int64_t n) {
    if constexpr (kChannels == 2) {
      return n > 0 ? bits_at(p) : 0;
    } else {
      uint16_t two = 0;
      if (n >= 2) __builtin_memcpy(&two, p, sizeof two);
      return n % 2 != 0 ? two | bits_at(p + n - 1) << ((n - 1) * kBits) : two;
    }
  }
  POLYCONV_MEMBER static T as_element(uint32_t bits) {
    T element;
    __builtin_memcpy(&element, &bits, sizeof element);
    return element;
  }
};

template <>
struct Element<bf16, float> : ElementOfSeveral<bf16, float> {
  explicit POLYCONV_MEMBER Element(const DensePlan &plan) {
    bf16 lanes[kF32Lanes];
    store_f32(lanes, splat(static_cast<float>(plan.pad_value)));
    flip = 0, pad = lanes[0].bits * 0x10001u;
  }
};

template <class From>
struct Element<From, int32_t> : ElementOfSeveral<From, int32_t> {
  explicit POLYCONV_MEMBER Element(const DensePlan &plan) {
    this->flip = static_cast<From>(-1) < 0 ? 0x80808080u : 0;
    this->pad = (static_cast<uint32_t>(static_cast<int32_t>(plan.pad_value)) & 0xffu) * 0x01010101u ^ this->flip;
  }
};

} // namespace polyconv::cpu::POLYCONV_ISA
