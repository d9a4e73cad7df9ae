// finish.hpp - from sums to stored results, a row at a time: the epilogue in its order, in vectors, for every type.
//
// A row is n consecutive elements of the result along one axis: along channels (each with its own bias and scale) or
// along W (all of one channel). Its sums lie dense in a buffer of the kernel's, usually in the L1 cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/activate.hpp"
#include "cpu/common/convert.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Where a row begins in the result, and the axis it follows: 1 for channels, 4 for W.
struct Row {
  int64_t n, k, d, h, w;
  int axis;
};

constexpr int kRowChunk = 64; // elements finished at a time

POLYCONV_INLINE int64_t row_offset(const polyconv_tensor &t, const Row &row) {
  return t.offset + row.n * t.stride[0] + row.k * t.stride[1] + row.d * t.stride[2] + row.h * t.stride[3] +
         row.w * t.stride[4];
}

// The first n elements at p with a stride, as f32 (f64) into dense v.
template <class T, class Real>
POLYCONV_INLINE void gather(const void *base, int64_t offset, int64_t stride, int n, Real *v) {
  const T *p = static_cast<const T *>(base) + offset;
  for (int i = 0; i < n; ++i) v[i] = static_cast<Real>(scalar_f32(p[i * stride]));
}
template <class Real>
POLYCONV_NOINLINE void gather_typed(int32_t type, const void *base, int64_t offset, int64_t stride, int n, Real *v) {
  switch (type) {
    case POLYCONV_F64:
      for (int i = 0; i < n; ++i) v[i] = static_cast<Real>(static_cast<const double *>(base)[offset + i * stride]);
      break;
    case POLYCONV_F32: gather<float>(base, offset, stride, n, v); break;
    case POLYCONV_F16: gather<f16>(base, offset, stride, n, v); break;
    case POLYCONV_BF16: gather<bf16>(base, offset, stride, n, v); break;
    case POLYCONV_S32: gather<int32_t>(base, offset, stride, n, v); break;
    case POLYCONV_S8: gather<int8_t>(base, offset, stride, n, v); break;
    case POLYCONV_U8: gather<uint8_t>(base, offset, stride, n, v); break;
    case POLYCONV_U16: gather<uint16_t>(base, offset, stride, n, v); break;
    default: break;
  }
}

// n values (the buffer is readable up to a whole vector) to storage of type T.
template <class T>
POLYCONV_INLINE void scatter(void *base, int64_t offset, int64_t stride, int n, const float *v) {
  T *p = static_cast<T *>(base) + offset;
  if (stride == 1) {
    int i = 0;
    for (; i + kF32Lanes <= n; i += kF32Lanes) store_f32(p + i, load(v + i));
    if (i < n) store_f32_partial(p + i, load(v + i), n - i);
    return;
  }
  T typed[kRowChunk];
  for (int i = 0; i < n; i += kF32Lanes) store_f32(typed + i, load(v + i));
  for (int i = 0; i < n; ++i) p[i * stride] = typed[i];
}
POLYCONV_NOINLINE void scatter_typed(int32_t type, void *base, int64_t offset, int64_t stride, int n, const float *v) {
  switch (type) {
    case POLYCONV_F32: scatter<float>(base, offset, stride, n, v); break;
    case POLYCONV_F16: scatter<f16>(base, offset, stride, n, v); break;
    case POLYCONV_BF16: scatter<bf16>(base, offset, stride, n, v); break;
    case POLYCONV_S32: scatter<int32_t>(base, offset, stride, n, v); break;
    case POLYCONV_S8: scatter<int8_t>(base, offset, stride, n, v); break;
    case POLYCONV_U8: scatter<uint8_t>(base, offset, stride, n, v); break;
    case POLYCONV_U16: scatter<uint16_t>(base, offset, stride, n, v); break;
    default: break;
  }
}
POLYCONV_NOINLINE void scatter_typed(int32_t, void *base, int64_t offset, int64_t stride, int n, const double *v) {
  double *p = static_cast<double *>(base) + offset;
  for (int i = 0; i < n; ++i) p[i * stride] = v[i];
}

// sum * scale + bias; (sum + bias) * scale where sums are integers.
template <class Real, class Sum>
POLYCONV_INLINE void scale_and_bias(const Epilogue &e, const Sum *sums, int64_t k, bool along_channels, int n,
                                    Real *v) {
  const Real *scale = static_cast<const Real *>(e.scale);
  constexpr int kStep = kLanes<Real>;
  for (int i = 0; i < n; i += kStep) {
    const int rest = n - i < kStep ? n - i : kStep;
    const int64_t channel = along_channels ? k + i : k;
    Vector<Real> x;
    if constexpr (sizeof(Sum) == 4 && static_cast<Sum>(0.5) == 0) { // s32
      U32 sum = bits_as<U32>(load_partial(sums + i, rest));
      if (e.bias) {
        const int32_t *bias = static_cast<const int32_t *>(e.bias) + channel;
        sum += bits_as<U32>(along_channels ? load_partial(bias, rest) : splat(*bias));
      }
      x = __builtin_convertvector(bits_as<S32>(sum), F32);
      if (scale) x *= along_channels ? load_partial(scale + channel, rest) : splat(scale[channel]);
    } else {
      x = load_partial(sums + i, rest);
      if (scale) x *= along_channels ? load_partial(scale + channel, rest) : splat(scale[channel]);
      if (e.bias) {
        const Real *bias = static_cast<const Real *>(e.bias) + channel;
        x += along_channels ? load_partial(bias, rest) : splat(*bias);
      }
    }
    store(v + i, x);
  }
}

template <class Real>
POLYCONV_INLINE void round_to_scale(const Epilogue &e, int n, Real *v) {
  if constexpr (sizeof(Real) == 4) { // the f64 row has no integer results
    const F32 zero_point = splat(static_cast<float>(e.rules.out_zero_point)), scale = splat(e.rules.out_scale);
    for (int i = 0; i < n; i += kF32Lanes) store(v + i, round_even(load(v + i) / scale) + zero_point);
  } else {
    (void)e, (void)n, (void)v;
  }
}

// One chunk of at most kRowChunk elements, the first at `row`.
template <class Real, class Sum>
POLYCONV_NOINLINE void finish_chunk(const Epilogue &e, const Sum *sums, int n, const Row &row) {
  alignas(64) Real v[kRowChunk], residual[kRowChunk];
  scale_and_bias(e, sums, row.k, row.axis == 1, n, v);
  if (e.residual) {
    gather_typed(e.residual_tensor.type, e.residual, row_offset(e.residual_tensor, row),
                 e.residual_tensor.stride[row.axis], n, residual);
    const Real scale = static_cast<Real>(e.rules.residual_scale);
    const Real zero_point = static_cast<Real>(e.rules.residual_zero_point);
    for (int i = 0; i < n; ++i) v[i] += scale * (residual[i] - zero_point);
  }
  if (e.saved)
    scatter_typed(POLYCONV_F32, e.saved, row_offset(e.saved_tensor, row), e.saved_tensor.stride[row.axis], n, v);
  if (e.slow) {
    const Real *slope = static_cast<const Real *>(e.slope);
    activate_run(v, n, e.rules, slope ? slope + row.k : nullptr, row.axis == 1);
  } else if (e.rules.activation != POLYCONV_ACT_NONE) {
    const Vector<Real> alpha = splat(static_cast<Real>(e.rules.activation_alpha));
    for (int i = 0; i < n; i += kLanes<Real>) store(v + i, activate(load(v + i), e.rules.activation, alpha));
  }
  if (e.result.type >= POLYCONV_S32) round_to_scale(e, n, v);
  scatter_typed(e.result.type, e.output, row_offset(e.result, row), e.result.stride[row.axis], n, v);
}

// s32 results that never leave integers: sum + bias modulo 2^32; side by side, and of which nothing is saved.
POLYCONV_INLINE void finish_integers_simply(const int32_t *sums, int64_t n, const int32_t *bias, bool along_channels,
                                            int32_t *p) {
  const S32 one_bias = bias && !along_channels ? splat(*bias) : S32{};
  for (int64_t i = 0; i < n; i += kF32Lanes) {
    const int rest = n - i < kF32Lanes ? static_cast<int>(n - i) : kF32Lanes;
    S32 v = load_partial(sums + i, rest), b = one_bias;
    if (bias && along_channels) b = load_partial(bias + i, rest);
    v = bits_as<S32>(bits_as<U32>(v) + bits_as<U32>(b));
    if (rest == kF32Lanes)
      store(p + i, v);
    else
      store_partial(p + i, v, rest);
  }
}
POLYCONV_NOINLINE void finish_integers(const Epilogue &e, const int32_t *sums, int64_t n, const Row &row) {
  int32_t *p = static_cast<int32_t *>(e.output) + row_offset(e.result, row);
  const int32_t *bias = static_cast<const int32_t *>(e.bias);
  const int64_t stride = e.result.stride[row.axis], step = row.axis == 1 ? 1 : 0;
  if (stride == 1 && !e.saved) return finish_integers_simply(sums, n, bias ? bias + row.k : nullptr, step == 1, p);
  float *saved = e.saved ? static_cast<float *>(e.saved) + row_offset(e.saved_tensor, row) : nullptr;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t b = bias ? static_cast<uint32_t>(bias[row.k + i * step]) : 0;
    const int32_t value = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + b);
    p[i * stride] = value;
    if (saved) saved[i * e.saved_tensor.stride[row.axis]] = static_cast<float>(value);
  }
}

// At most a bias and a quick activation, f32, results side by side: one pass from sums to results.
POLYCONV_INLINE void finish_simply(const Epilogue &e, const float *sums, int64_t n, const float *bias,
                                   bool along_channels, float *p) {
  const F32 alpha = splat(e.rules.activation_alpha);
  const int32_t activation = e.rules.activation;
  const F32 one_bias = bias && !along_channels ? splat(*bias) : F32{};
  int64_t i = 0;
  for (; i + kF32Lanes <= n; i += kF32Lanes) {
    F32 x = load(sums + i);
    if (bias) x += along_channels ? load(bias + i) : one_bias;
    store(p + i, activate(x, activation, alpha));
  }
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    F32 x = load_partial(sums + i, rest);
    if (bias) x += along_channels ? load_partial(bias + i, rest) : one_bias;
    store_partial(p + i, activate(x, activation, alpha), rest);
  }
}

template <class To>
constexpr bool kWhole = __is_same(To, uint8_t) || __is_same(To, uint16_t); // of an image

// As finish_simply, for results of type To.
template <class To>
POLYCONV_INLINE void finish_quickly(const Epilogue &e, const float *sums, int64_t n, const float *bias,
                                    bool along_channels, To *p) {
  const F32 alpha = splat(e.rules.activation_alpha), scale = splat(e.rules.out_scale);
  const F32 zero_point = splat(static_cast<float>(e.rules.out_zero_point));
  const F32 one_bias = bias && !along_channels ? splat(*bias) : F32{};
  int64_t i = 0;
  if (e.rules.activation == POLYCONV_ACT_NONE && e.rules.out_scale == 1.0f && !(bias && along_channels))
    for (; i + kF32Lanes <= n; i += kF32Lanes) { // no branches
      const F32 x = load(sums + i) + one_bias;
      store_f32(p + i, kWhole<To> ? round_even(x) + zero_point : x);
    }
  for (; i < n; i += kF32Lanes) {
    const int rest = n - i < kF32Lanes ? static_cast<int>(n - i) : kF32Lanes;
    F32 x = load_partial(sums + i, rest);
    if (bias) x += along_channels ? load_partial(bias + i, rest) : one_bias;
    x = activate(x, e.rules.activation, alpha);
    if (kWhole<To>) x = round_even(x / scale) + zero_point;
    if (rest == kF32Lanes)
      store_f32(p + i, x);
    else
      store_f32_partial(p + i, x, rest);
  }
}
// Of `rows` rows, as finish_rows has them.
template <class To>
POLYCONV_INLINE void finish_rows_quickly(const Epilogue &e, const float *sums, int64_t sums_stride, int64_t rows,
                                         int64_t n, const Row &row) {
  const bool along_channels = row.axis == 1;
  const float *bias = e.bias ? static_cast<const float *>(e.bias) + row.k : nullptr;
  To *p = static_cast<To *>(e.output) + row_offset(e.result, row);
  const int64_t step = e.result.stride[along_channels ? 4 : 1];
  for (int64_t i = 0; i < rows; ++i, p += step, sums += sums_stride) {
    finish_quickly(e, sums, n, bias, along_channels, p);
    if (bias && !along_channels) ++bias;
  }
}
POLYCONV_NOINLINE void finish_rows_quickly_typed(const Epilogue &e, const float *sums, int64_t sums_stride,
                                                 int64_t rows, int64_t n, const Row &row) {
  switch (e.result.type) {
    case POLYCONV_U8: return finish_rows_quickly<uint8_t>(e, sums, sums_stride, rows, n, row);
    case POLYCONV_U16: return finish_rows_quickly<uint16_t>(e, sums, sums_stride, rows, n, row);
    case POLYCONV_F16: return finish_rows_quickly<f16>(e, sums, sums_stride, rows, n, row);
    case POLYCONV_BF16: return finish_rows_quickly<bf16>(e, sums, sums_stride, rows, n, row);
    default: return;
  }
}

// Finishes n sums. Along W a row may run on into the next rows where e.whole_images is set. Sum is float, double or
// int32_t, as e.sum_type says.
template <class Sum>
POLYCONV_INLINE void finish_row(const Epilogue &e, const Sum *sums, int64_t n, Row row) {
  if constexpr (sizeof(Sum) == 4 && static_cast<Sum>(0.5) == 0) {
    if (e.integer) return finish_integers(e, sums, n, row);
  } else if constexpr (sizeof(Sum) == 4) {
    if (e.simple && e.result.stride[row.axis] == 1) {
      const float *bias = e.bias ? static_cast<const float *>(e.bias) + row.k : nullptr;
      return finish_simply(e, sums, n, bias, row.axis == 1, static_cast<float *>(e.output) + row_offset(e.result, row));
    }
    if (e.quick && e.result.stride[row.axis] == 1) return finish_rows_quickly_typed(e, sums, 0, 1, n, row);
  }
  for (int64_t i = 0; i < n; i += kRowChunk) {
    const int chunk = n - i < kRowChunk ? static_cast<int>(n - i) : kRowChunk;
    if constexpr (sizeof(Sum) == 8)
      finish_chunk<double>(e, sums + i, chunk, row);
    else
      finish_chunk<float>(e, sums + i, chunk, row);
    (row.axis == 1 ? row.k : row.w) += kRowChunk;
  }
}

// Finishes `rows` rows of n sums, `sums_stride` apart: neighbours along W where a row follows channels (as far as
// finish_row may go along W), and neighbouring channels where it follows W.
template <class Sum>
POLYCONV_INLINE void finish_rows(const Epilogue &e, const Sum *sums, int64_t sums_stride, int64_t rows, int64_t n,
                                 Row row) {
  const bool along_channels = row.axis == 1;
  if constexpr (sizeof(Sum) == 4 && static_cast<Sum>(0.5) != 0) {
    if (e.simple && e.result.stride[row.axis] == 1) {
      float *p = static_cast<float *>(e.output) + row_offset(e.result, row);
      const int64_t step = e.result.stride[along_channels ? 4 : 1];
      const float *bias = e.bias ? static_cast<const float *>(e.bias) + row.k : nullptr;
      for (int64_t i = 0; i < rows; ++i, p += step, sums += sums_stride) {
        finish_simply(e, sums, n, bias, along_channels, p);
        if (bias && !along_channels) ++bias;
      }
      return;
    }
    if (e.quick && e.result.stride[row.axis] == 1) return finish_rows_quickly_typed(e, sums, sums_stride, rows, n, row);
  }
  for (int64_t i = 0; i < rows; ++i, sums += sums_stride) {
    finish_row(e, sums, n, row);
    ++(along_channels ? row.w : row.k);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
