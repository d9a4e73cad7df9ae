// channels.cuh - neighbouring channels of a pixel: loaded at once, as floats, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/pairs.cuh"

namespace polyconv::cuda::shared {

// Neighbouring channels as they are loaded.
template <int bytes>
struct WordOf;
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};
template <class T, int channels>
using Channels = typename WordOf<sizeof(T) * channels>::Type;

// Bits of one element, and of two, as floats.
__device__ inline float as_float(uint32_t bits, float) {
  return __uint_as_float(bits);
}
__device__ inline float as_float(uint16_t bits, __half) {
  return __half2float(__ushort_as_half(bits));
}
__device__ inline float as_float(uint16_t bits, __nv_bfloat16) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}
__device__ inline float2 as_floats(uint32_t bits, __half) {
  return __half22float2(reinterpret_cast<const __half2 &>(bits));
}
__device__ inline float2 as_floats(uint32_t bits, __nv_bfloat16) {
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}

template <class T, int channels>
__device__ inline void unpack(const Channels<T, channels> &from, float (&v)[channels]) {
  if constexpr (channels == 1) {
    v[0] = as_float(from, T());
  } else {
    const auto *words = reinterpret_cast<const uint32_t *>(&from);
#pragma unroll
    for (int i = 0; i < channels; i += sizeof(T) == 4 ? 1 : 2) {
      if constexpr (sizeof(T) == 4) {
        v[i] = __uint_as_float(words[i]);
      } else {
        const float2 pair = as_floats(words[i / 2], T());
        v[i] = pair.x, v[i + 1] = pair.y;
      }
    }
  }
}

__device__ inline uint32_t as_bits(float v, float) {
  return __float_as_uint(v);
}
__device__ inline uint16_t as_bits(float v, __half) {
  return __half_as_ushort(__float2half_rn(v));
}
__device__ inline uint16_t as_bits(float v, __nv_bfloat16) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(v));
}

template <class T, int channels>
__device__ inline Channels<T, channels> pack(const float (&v)[channels]) {
  Channels<T, channels> packed;
  if constexpr (channels == 1) {
    packed = as_bits(v[0], T());
  } else {
    auto *words = reinterpret_cast<uint32_t *>(&packed);
#pragma unroll
    for (int i = 0; i < channels; i += sizeof(T) == 4 ? 1 : 2) {
      if constexpr (sizeof(T) == 4)
        words[i] = as_bits(v[i], T());
      else
        words[i / 2] = pair_of(v[i], v[i + 1], T());
    }
  }
  return packed;
}

// ---------------------------------------------------------------- tensors

// Whether `channels` of a tensor, beginning at a multiple of them, are an aligned vector where its pointer is aligned.
inline bool in_vectors(const polyconv_tensor &t, int64_t channels) {
  if (t.stride[1] != 1 && t.size[1] > 1) return false;
  for (const int axis : {0, 2, 3, 4})
    if (t.size[axis] > 1 && t.stride[axis] % channels != 0) return false;
  return t.size[1] % channels == 0 && t.offset % channels == 0;
}

} // namespace polyconv::cuda::shared
