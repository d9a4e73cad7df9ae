// load.hpp - rows of stored elements of any type as rows of the arithmetic's type: converted, zero point subtracted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/convert.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// How elements of type From become numbers of type T. The s32 rows subtract the zero point; elsewhere it is 0 and not
// looked at.
template <class From, class T>
struct Load {
  explicit POLYCONV_MEMBER Load(int32_t) {}
  POLYCONV_MEMBER F32 full(const From *p) const { return load_f32(p); }
  POLYCONV_MEMBER F32 partial(const From *p, int n) const { return load_f32_partial(p, n); }
  POLYCONV_MEMBER float one(const From *p) const { return scalar_f32(*p); }
};
template <>
struct Load<double, double> {
  explicit POLYCONV_MEMBER Load(int32_t) {}
  POLYCONV_MEMBER F64 full(const double *p) const { return load(p); }
  POLYCONV_MEMBER F64 partial(const double *p, int n) const { return load_partial(p, n); }
  POLYCONV_MEMBER double one(const double *p) const { return *p; }
};
template <class From>
struct Load<From, int32_t> {
  int32_t zero_point;
  explicit POLYCONV_MEMBER Load(int32_t zero) : zero_point(zero) {}
  POLYCONV_MEMBER S32 full(const From *p) const { return load_s32(p) - splat(zero_point); }
  POLYCONV_MEMBER S32 partial(const From *p, int n) const {
    From lanes[kLanes<int32_t>];
    take_partial(lanes, p, n);
    return full(lanes);
  }
  POLYCONV_MEMBER int32_t one(const From *p) const { return *p - zero_point; }
};

// n elements `stride` apart, side by side.
template <class From, class T>
POLYCONV_INLINE void load_run(const Load<From, T> &convert, const From *p, int64_t stride, int64_t n, T *out) {
  constexpr int kL = kLanes<T>;
  int64_t i = 0;
  if (stride == 1) {
    for (; i + kL <= n; i += kL) store(out + i, convert.full(p + i));
    if (i < n) store_partial(out + i, convert.partial(p + i, static_cast<int>(n - i)), static_cast<int>(n - i));
    return;
  }
  for (; i < n; ++i) out[i] = convert.one(p + i * stride);
}

// n elements `stride` apart of each of `channels` channels that lie side by side: into rows `row_stride` apart.
template <class From, class T>
POLYCONV_INLINE void load_transposed(const Load<From, T> &convert, const From *p, int64_t stride, int64_t n,
                                     int64_t channels, T *out, int64_t row_stride) {
  constexpr int kL = kLanes<T>;
  for (int64_t c = 0; c < channels; c += kL) {
    const int count = channels - c < kL ? static_cast<int>(channels - c) : kL;
    T *column = out + c * row_stride;
    alignas(64) T lanes[kL];
    for (int64_t i = 0; i < n; ++i) {
      const From *pixel = p + i * stride + c;
      store(lanes, count == kL ? convert.full(pixel) : convert.partial(pixel, count));
      for (int lane = 0; lane < count; ++lane) column[lane * row_stride + i] = lanes[lane];
    }
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
