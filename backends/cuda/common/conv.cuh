// conv.cuh - a polyconv_layer as a kernel argument: small, by value, with the pointers of one run in its epilogue.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/padding.hpp>
#include <polyconv/sdk/tensor.hpp>

#include "common/values.cuh"

namespace polyconv::cuda {

// An element of a tensor: (n, c, d, h, w); of weights (k, c, d, r, s) in the same order.
template <class Index>
struct Place {
  Index n, c, d, h, w;
};

// A tensor as device code addresses it. Index is int32_t where every offset fits (fits_int32), so that address
// arithmetic costs one register, and int64_t otherwise: beyond 2^31 elements everything stays right.
template <class Index>
struct View {
  Index size[5];
  Index stride[5];
  Index offset;

  explicit View(const polyconv_tensor &t) : offset(static_cast<Index>(t.offset)) {
    for (int axis = 0; axis < 5; ++axis) {
      size[axis] = static_cast<Index>(t.size[axis]);
      stride[axis] = static_cast<Index>(t.stride[axis]);
    }
  }
  __device__ Index at(Index n, Index c, Index d, Index h, Index w) const {
    return offset + n * stride[0] + c * stride[1] + d * stride[2] + h * stride[3] + w * stride[4];
  }
  __device__ Index at(const Place<Index> &p) const { return at(p.n, p.c, p.d, p.h, p.w); }

  // Element i in order of N C D H W: neighbouring threads are neighbours along W.
  __device__ Place<Index> along_w(int64_t i) const {
    Place<Index> p;
    Index rest = static_cast<Index>(i);
    p.w = rest % size[4], rest /= size[4];
    p.h = rest % size[3], rest /= size[3];
    p.d = rest % size[2], rest /= size[2];
    p.c = rest % size[1], p.n = rest / size[1];
    return p;
  }
  // Element i in order of N D H W C: neighbouring threads are neighbours along the channels.
  __device__ Place<Index> along_c(int64_t i) const {
    const Index rest = static_cast<Index>(i);
    Place<Index> p = pixel_of(rest / size[1]);
    p.c = rest % size[1];
    return p;
  }
  // Pixel i of N D H W, channel 0.
  __device__ Place<Index> pixel_of(int64_t i) const {
    Place<Index> p;
    Index rest = static_cast<Index>(i);
    p.c = 0;
    p.w = rest % size[4], rest /= size[4];
    p.h = rest % size[3], rest /= size[3];
    p.d = rest % size[2], p.n = rest / size[2];
    return p;
  }
};

// Everything after the sum.
struct Epilogue {
  const void *scale, *bias, *residual; // NULL where the layer has none
  void *saved;
  int32_t scale_type, bias_type, residual_type, saved_type, result_type, activation;
  int32_t save, residual_zero_point, out_zero_point, stays_integer;
  float alpha, residual_scale, out_scale;
};

inline Epilogue make_epilogue(const polyconv_layer &l, const polyconv_arguments &a) {
  const polyconv_epilogue &rules = l.epilogue;
  Epilogue e = {};
  if (rules.has_scale) e.scale = a.scale[0];
  if (rules.has_bias) e.bias = a.bias[0];
  if (rules.residual_from != POLYCONV_RESIDUAL_NONE) e.residual = a.residual[0];
  if (l.save != POLYCONV_SAVE_NONE) e.saved = a.saved[0];
  e.scale_type = l.sum_type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
  e.bias_type = l.bias_type;
  e.residual_type = l.residual.type;
  e.saved_type = l.saved.type;
  e.result_type = l.result.type;
  e.activation = rules.activation;
  e.save = l.save;
  e.residual_zero_point = rules.residual_zero_point;
  e.out_zero_point = rules.out_zero_point;
  e.stays_integer = sdk::stays_integer(l) ? 1 : 0;
  e.alpha = rules.activation_alpha;
  e.residual_scale = rules.residual_scale;
  e.out_scale = rules.out_scale;
  return e;
}

// polyconv_pool; without pooling the window of an element is the element.
template <class Index>
struct Pool {
  Index window[3], stride[3], pad[3];
  int32_t kind, count_include_pad;

  explicit Pool(const polyconv_pool &p) : kind(p.kind), count_include_pad(p.count_include_pad) {
    const bool none = p.kind == POLYCONV_POOL_NONE;
    for (int axis = 0; axis < 3; ++axis) {
      window[axis] = none ? 1 : static_cast<Index>(p.window[axis]);
      stride[axis] = none ? 1 : static_cast<Index>(p.stride[axis]);
      pad[axis] = none ? 0 : static_cast<Index>(p.pad_begin[axis]);
    }
  }
};

template <class Index>
struct Conv {
  View<Index> input, weights, output, result, residual, saved; // as polyconv_layer has them
  Index groups;
  Index stride[3], dilation[3], pad[3];
  int32_t pad_mode, input_zero_point, weights_zero_point;
  int32_t channels_inner; // 1: the result's channels are neighbours in memory, and so are neighbouring threads
  double pad_value;
  Pool<Index> pool;
  Epilogue epilogue;

  Conv(const polyconv_layer &l, const polyconv_arguments &a)
      : input(l.input),
        weights(l.weights),
        output(l.output),
        result(l.result),
        residual(l.residual),
        saved(l.saved),
        groups(static_cast<Index>(l.groups)),
        pad_mode(l.pad_mode),
        input_zero_point(l.input_zero_point),
        weights_zero_point(l.weights_zero_point),
        channels_inner(l.result.stride[1] == 1 && l.result.size[1] > 1 && l.result.stride[4] != 1),
        pad_value(l.pad_value),
        pool(l.epilogue.pool),
        epilogue(make_epilogue(l, a)) {
    for (int axis = 0; axis < 3; ++axis) {
      stride[axis] = static_cast<Index>(l.stride[axis]);
      dilation[axis] = static_cast<Index>(l.dilation[axis]);
      pad[axis] = static_cast<Index>(l.pad_begin[axis]);
    }
  }

  // Result element i, in the order in which neighbours lie in memory.
  __device__ Place<Index> result_place(int64_t i) const {
    return channels_inner ? result.along_c(i) : result.along_w(i);
  }

  // What a coordinate in the padding is worth in products: zeros mean zero after the zero point.
  template <class Sum>
  __device__ Sum padding() const {
    if (pad_mode != POLYCONV_PAD_CONSTANT) return Sum(0);
    if constexpr (kInteger<Sum>)
      return static_cast<Sum>(static_cast<int32_t>(pad_value) - input_zero_point);
    else
      return static_cast<Sum>(pad_value);
  }

  // The input element that output o reads through tap r of an axis, or -1 for the padding value.
  __device__ Index source(int axis, Index o, Index r) const {
    const Index i = o * stride[axis] + r * dilation[axis] - pad[axis], size = input.size[2 + axis];
    if (i >= 0 && i < size) return i;
    return static_cast<Index>(sdk::padded_index(i, size, pad_mode));
  }

  // The first output after `o` (-1 to begin) that reads input element i through tap r of an axis; output.size[2 + axis]
  // beyond the last. With padding that mirrors or repeats there are several: those in the padding are tried one by one.
  __device__ Index next_reader(int axis, Index i, Index r, Index o) const {
    const Index outputs = output.size[2 + axis], size = input.size[2 + axis], step = stride[axis];
    const Index base = r * dilation[axis] - pad[axis];
    const bool folds = pad_mode != POLYCONV_PAD_ZERO && pad_mode != POLYCONV_PAD_CONSTANT;
    ++o;
    if (folds)
      for (; o < outputs && base + o * step < 0; ++o)
        if (source(axis, o, r) == i) return o;
    const Index distance = i - base;
    if (distance >= o * step && distance % step == 0 && distance / step < outputs) return distance / step;
    if (!folds) return outputs;
    const Index behind = size > base ? (size - base + step - 1) / step : 0; // the first whose coordinate is >= size
    for (o = max(o, behind); o < outputs; ++o)
      if (source(axis, o, r) == i) return o;
    return outputs;
  }
};

// Whether every element offset of a tensor fits in 31 bits.
inline bool fits_int32(const polyconv_tensor &t) {
  int64_t low = t.offset, high = t.offset;
  for (int axis = 0; axis < 5; ++axis) {
    if (t.size[axis] < 1) return true; // nothing is addressed
    const int64_t reach = (t.size[axis] - 1) * t.stride[axis];
    (reach < 0 ? low : high) += reach;
  }
  return low >= 0 && high < INT32_MAX && sdk::elements(t) < INT32_MAX;
}

// Whether every offset and every coordinate of a layer, padding included, fits in 31 bits: then Conv<int32_t> serves.
inline bool fits_int32(const polyconv_layer &l) {
  for (const polyconv_tensor *t : {&l.input, &l.weights, &l.output, &l.result, &l.residual, &l.saved})
    if (!fits_int32(*t)) return false;
  constexpr double kLimit = 1 << 30; // sums of two such stay below 2^31
  for (int axis = 0; axis < 3; ++axis) {
    const auto real = [](int64_t v) { return static_cast<double>(v); };
    const polyconv_pool &pool = l.epilogue.pool;
    const double reach = real(l.output.size[2 + axis]) * real(l.stride[axis]) +
                         real(l.weights.size[2 + axis]) * real(l.dilation[axis]) + real(l.pad_begin[axis]) +
                         real(l.input.size[2 + axis]);
    const double pooled = pool.kind == POLYCONV_POOL_NONE ? 0
                                                          : real(l.result.size[2 + axis]) * real(pool.stride[axis]) +
                                                                real(pool.window[axis]) + real(pool.pad_begin[axis]);
    if (!(reach < kLimit && pooled < kLimit)) return false;
  }
  return true;
}

} // namespace polyconv::cuda
