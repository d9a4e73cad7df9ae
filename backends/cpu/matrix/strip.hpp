// strip.hpp - brings input lines into a task's strip: chunks of 64 bytes of channels, filled up with zeros, in parts
// where the products want parts; padding included.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/matrix/finish.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// ---------------------------------------------------------------- one chunk of one pixel

#if defined(__AVX512BF16__)
// Parts of two vectors side by side, as f32.
POLYCONV_INLINE F32 low_parts(__m512i both) {
  return bits_as<F32>(bits_as<U32>(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(both))) << 16);
}
POLYCONV_INLINE F32 high_parts(__m512i both) {
  return bits_as<F32>(bits_as<U32>(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(both, 1))) << 16);
}

// Cuts off the first parts of finite numbers that rounded to Inf, which only these left infinite: Inf leaves NaN.
POLYCONV_INLINE __m512i cut_off(__m512i both, F32 low_rest, F32 high_rest) {
  constexpr int kInfinite = 0x08 | 0x10; // of either sign
  const uint32_t low = _mm512_fpclass_ps_mask(bits_as<__m512>(low_rest), kInfinite);
  const uint32_t high = _mm512_fpclass_ps_mask(bits_as<__m512>(high_rest), kInfinite);
  if (__builtin_expect((low | high) == 0, 1)) return both;
  return _mm512_mask_sub_epi16(both, high << 16 | low, both, _mm512_set1_epi16(1));
}
#else
// The same for one vector of f32 and its parts in the upper halves.
POLYCONV_INLINE U32 cut_off(U32 parts, F32 of) {
  const auto infinite = (parts & 0x7fffffffu) == 0x7f800000u, finite = (bits_as<U32>(of) & 0x7fffffffu) < 0x7f800000u;
  return parts - (bits_as<U32>(infinite & finite) & 0x10000u);
}
#endif

// A whole chunk of f32 as Parts bf16 rows: each part is what rounding left of the parts before; the first of a finite
// number is finite.
template <int Parts>
POLYCONV_INLINE void store_parts(const float *v, char *out, int64_t part_bytes) {
#if defined(__AVX512BF16__)
  F32 low = load(v), high = load(v + kF32Lanes);
#pragma GCC unroll 3
  for (int part = 0; part < Parts; ++part, out += part_bytes) {
    auto both = bits_as<__m512i>(_mm512_cvtne2ps_pbh(bits_as<__m512>(high), bits_as<__m512>(low)));
    if (part == 0) both = cut_off(both, low - low_parts(both), high - high_parts(both));
    _mm512_storeu_si512(out, both);
    low -= low_parts(both);
    high -= high_parts(both);
  }
#else
  for (int i = 0; i < 32; i += kF32Lanes) {
    F32 rest = load(v + i);
    for (int part = 0; part < Parts; ++part) {
      bf16 *row = reinterpret_cast<bf16 *>(out + part * part_bytes) + i;
      store_f32(row, rest);
      U32 bits = load_u32(row) << 16;
      if (part == 0) bits = cut_off(bits, rest), store_f32(row, bits_as<F32>(bits)); // exact
      rest -= bits_as<F32>(bits);
    }
  }
#endif
}

// `n` channels that lie side by side, at most a chunk.
template <class P>
POLYCONV_INLINE void store_chunk(const typename P::From *p, int64_t n, char *out, int64_t part_bytes) {
  typedef typename P::From From;
  if constexpr (P::kParts == 1) {
    if (n >= P::kChannels) { // never more: what the compiler then knows of the rest
      __builtin_memcpy(out, p, kMatrixRowBytes);
    } else {
#if defined(__AVX512BW__)
      const __mmask64 some = (uint64_t{1} << (n * static_cast<int64_t>(sizeof(From)))) - 1;
      _mm512_storeu_si512(out, _mm512_maskz_loadu_epi8(some, p));
      return;
#endif
      __builtin_memset(out, 0, kMatrixRowBytes);
      __builtin_memcpy(out, p, static_cast<size_t>(n) * sizeof(From));
    }
  } else {
    alignas(64) float v[P::kChannels];
    if constexpr (sizeof(From) == 4) {
      if (n == P::kChannels) return store_parts<P::kParts>(p, out, part_bytes);
#if defined(__AVX512F__)
      for (int i = 0; i < P::kChannels; i += kF32Lanes) {
        const int64_t left = n - i;
        const auto some = static_cast<__mmask16>(left <= 0 ? 0 : left < kF32Lanes ? (1 << left) - 1 : 0xffff);
        store(v + i, bits_as<F32>(_mm512_maskz_loadu_ps(some, p + i)));
      }
#else
      for (int i = 0; i < P::kChannels; ++i) v[i] = i < n ? p[i] : 0.0f;
#endif
    } else {
      From whole[P::kChannels] = {};
      if (n < P::kChannels) {
        __builtin_memcpy(whole, p, static_cast<size_t>(n) * sizeof(From));
        p = whole;
      }
      for (int i = 0; i < P::kChannels; i += kF32Lanes) store(v + i, load_f32(p + i));
    }
    store_parts<P::kParts>(v, out, part_bytes);
  }
}

// ---------------------------------------------------------------- pixels of one line

// The bits of n neighbouring pixels of a channel, one a lane.
template <class From>
POLYCONV_INLINE U32 load_lanes(const From *p, int64_t n) {
  From some[kF32Lanes] = {};
  if (n < kF32Lanes) {
    __builtin_memcpy(some, p, static_cast<size_t>(n) * sizeof(From));
    p = some;
  }
  if constexpr (sizeof(From) == 4)
    return bits_as<U32>(load(p));
  else if constexpr (sizeof(From) == 2)
    return load_u32(p);
  else
    return bits_as<U32>(load_s32(reinterpret_cast<const uint8_t *>(p)));
}

// Up to a vector of neighbouring pixels of a chunk's n channels, transposed: `stage` has a chunk's row for each pixel.
template <class P>
POLYCONV_INLINE void turn_chunk(const typename P::From *p, int64_t channel_stride, int64_t n, int64_t pixels,
                                typename P::From *stage) {
  typedef typename P::From From;
  constexpr int kPer = 4 / static_cast<int>(sizeof(From)), kElements = P::kChannels / kPer;
  for (int first = 0; first < kElements; first += kF32Lanes) {
    F32 square[kF32Lanes];
#pragma GCC unroll 16
    for (int lane = 0; lane < kF32Lanes; ++lane) {
      U32 bits = {};
#pragma GCC unroll 4
      for (int i = 0; i < kPer; ++i) {
        const int64_t channel = (first + lane) * kPer + i;
        if (channel < n) bits |= load_lanes(p + channel * channel_stride, pixels) << (i * 8 * int(sizeof(From)));
      }
      square[lane] = bits_as<F32>(bits);
    }
    transpose<float>(square);
#pragma GCC unroll 16
    for (int lane = 0; lane < kF32Lanes; ++lane)
      __builtin_memcpy(stage + lane * P::kChannels + first * kPer, &square[lane], sizeof square[lane]);
  }
}

// `count` pixels, `stride` elements apart, from p (the group's first channel) on: some pixels at a time, so that these
// are read in runs and their planes written in runs.
template <class P>
POLYCONV_NOINLINE void store_pixels(const MatrixPlan &plan, const typename P::From *p, int64_t stride, int64_t count,
                                    char *out) {
  typedef typename P::From From;
  const int64_t channel_stride = plan.input.stride[1], channels = plan.group_in, part_bytes = plan.part_bytes;
  alignas(64) From stage[kF32Lanes * P::kChannels];
  for (int64_t i = 0; i < count; i += kF32Lanes, p += kF32Lanes * stride, out += kF32Lanes * kMatrixRowBytes) {
    const int64_t pixels = count - i < kF32Lanes ? count - i : kF32Lanes;
    const From *in = p;
    char *chunk = out;
    for (int64_t c = 0; c < channels;
         c += P::kChannels, in += P::kChannels * channel_stride, chunk += plan.chunk_bytes) {
      const int64_t n = channels - c < P::kChannels ? channels - c : P::kChannels;
      if (channel_stride == 1) {
        for (int64_t pixel = 0; pixel < pixels; ++pixel)
          store_chunk<P>(in + pixel * stride, n, chunk + pixel * kMatrixRowBytes, part_bytes);
        continue;
      }
      if (stride == 1) {
        turn_chunk<P>(in, channel_stride, n, pixels, stage);
      } else {
        for (int64_t pixel = 0; pixel < pixels; ++pixel)
          for (int64_t k = 0; k < n; ++k) stage[pixel * P::kChannels + k] = in[pixel * stride + k * channel_stride];
      }
      for (int64_t pixel = 0; pixel < pixels; ++pixel)
        store_chunk<P>(stage + pixel * P::kChannels, n, chunk + pixel * kMatrixRowBytes, part_bytes);
    }
  }
}

// ---------------------------------------------------------------- one line

// The padding value as the input's type.
template <class From>
POLYCONV_INLINE From padding(const MatrixPlan &p) {
  From value;
  if constexpr (sizeof(From) == 1) {
    value = static_cast<From>(static_cast<int32_t>(p.pad_value));
  } else {
    alignas(64) From lanes[kF32Lanes];
    store_f32(lanes, splat(static_cast<float>(p.pad_value)));
    value = lanes[0];
  }
  return value;
}

// A pixel that holds all taps of W, the first of them at input column `first`; `line` NULL: a line of padding.
template <class P>
POLYCONV_INLINE void store_merged(const MatrixPlan &p, const typename P::From *line, int64_t first, char *out) {
  typedef typename P::From From;
  const Axis &axis = p.axis[2];
  const int64_t channel_stride = p.input.stride[1], stride = p.input.stride[4];
  const int64_t last = first + (axis.taps - 1) * axis.dilation;
  const bool inside_all = line && first >= 0 && last < axis.in;
  if (inside_all && axis.dilation == 1 && channel_stride == 1 && stride == p.group_in) { // one run of elements
    const From *run = line + first * stride;
    for (int64_t c = 0; c < p.channels; c += P::kChannels, out += p.chunk_bytes)
      store_chunk<P>(run + c, p.channels - c < P::kChannels ? p.channels - c : P::kChannels, out, p.part_bytes);
    return;
  }
  From stage[P::kChannels];
  const From pad = padding<From>(p);
  int64_t filled = 0;
  for (int64_t tap = 0; tap < axis.taps; ++tap) {
    const int64_t column = line ? inside(axis, first + tap * axis.dilation) : -1;
    for (int64_t c = 0; c < p.group_in; ++c) {
      stage[filled++] = column < 0 ? pad : line[column * stride + c * channel_stride];
      if (filled < P::kChannels) continue;
      store_chunk<P>(stage, filled, out, p.part_bytes);
      out += p.chunk_bytes;
      filled = 0;
    }
  }
  if (filled) store_chunk<P>(stage, filled, out, p.part_bytes);
}

// `count` pixels of padding.
template <class P>
POLYCONV_INLINE void store_padding(const MatrixPlan &p, int64_t count, char *out) {
  typename P::From stage[P::kChannels];
  for (int i = 0; i < P::kChannels; ++i) stage[i] = padding<typename P::From>(p);
  for (int64_t c = 0; c < p.channels; c += P::kChannels, out += p.chunk_bytes)
    for (int64_t i = 0; i < count; ++i)
      store_chunk<P>(stage, p.channels - c < P::kChannels ? p.channels - c : P::kChannels, out + i * kMatrixRowBytes,
                     p.part_bytes);
}

// Stored columns [0, count) of a line, the first at input column `first`. `line` is column 0, NULL for padding.
template <class P>
POLYCONV_NOINLINE void store_line(const MatrixPlan &p, const typename P::From *line, int64_t first, int64_t count,
                                  char *out) {
  const Axis &axis = p.axis[2];
  if (p.merged) {
    for (int64_t i = 0; i < count; ++i, out += kMatrixRowBytes) store_merged<P>(p, line, first + i * axis.step, out);
    return;
  }
  if (!line) return store_padding<P>(p, count, out);
  const int64_t pitch = p.pitch[1], stride = p.input.stride[4];
  const AxisRun run = axis_run(first, pitch, axis.in, first + count * pitch, count);
  for (int64_t i = run.a > 0 ? 0 : run.b; i < count; i = i + 1 == run.a ? run.b : i + 1) { // [0, a) and [b, count)
    const int64_t column = inside(axis, first + i * pitch);
    if (column < 0)
      store_padding<P>(p, 1, out + i * kMatrixRowBytes);
    else
      store_pixels<P>(p, line + column * stride, stride, 1, out + i * kMatrixRowBytes);
  }
  store_pixels<P>(p, line + (first + run.a * pitch) * stride, stride * pitch, run.b - run.a,
                  out + run.a * kMatrixRowBytes);
}

// Input line `row` of depth `depth` of an image; NULL where either is padding.
template <class From>
POLYCONV_INLINE const From *line_of(const MatrixPlan &p, const From *image, int64_t depth, int64_t row) {
  return depth < 0 || row < 0 ? nullptr : image + depth * p.input.stride[2] + row * p.input.stride[3];
}

} // namespace polyconv::cpu::POLYCONV_ISA
