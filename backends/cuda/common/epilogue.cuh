// epilogue.cuh - from a sum to the value before pooling, and from there into memory: polyconv_epilogue in its order.
//
//   finish_and_store(p, result, sum, place)             a kernel that rejects pooling; place in the result
//   pool_and_store(p, result, place, before, sum_at)    pooled or not: sum_at(place before pooling) gives each sum
//
// Both take as a last argument which activations there are: UsualActivations unless a kernel says EveryActivation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"

namespace polyconv::cuda {

// What follows an s32 sum is f32; f64 stays f64.
template <class Sum>
using Arithmetic = std::conditional_t<std::is_same_v<Sum, double>, double, float>;

// The s32 sum of a quantised row, with its bias: wraps.
template <class Index>
__device__ inline int32_t biased(const Epilogue &e, uint32_t sum, Index c) {
  const uint32_t bias = e.bias ? static_cast<uint32_t>(static_cast<const int32_t *>(e.bias)[c]) : 0u;
  return static_cast<int32_t>(sum + bias);
}

// The activation of a value of channel c. What every kernel takes:
struct UsualActivations {
  template <class T, class Index>
  __device__ T operator()(const Epilogue &e, T v, Index) const {
    return activate(v, e.activation, static_cast<T>(e.alpha));
  }
};

// And what kernels take that name sdk::kActivationTraits.
struct EveryActivation {
  const void *slopes = nullptr; // of a PRelu, one a channel

  EveryActivation() = default;
  explicit EveryActivation(const polyconv_layer &l, const polyconv_arguments &a)
      : slopes(l.epilogue.activation == POLYCONV_ACT_PRELU ? a.slope[0] : nullptr) {}

  // What activate_any and activation_slope call alpha.
  template <class T, class Index>
  __device__ T alpha(const Epilogue &e, Index c) const {
    return slopes ? load<T>(slopes, e.scale_type, c) : static_cast<T>(e.alpha);
  }
  template <class T, class Index>
  __device__ T operator()(const Epilogue &e, T v, Index c) const {
    return activate_any(v, e.activation, alpha<T>(e, c));
  }
};

// What follows scale and bias: residual and activation of one element before pooling; saves the pre-activation where
// asked.
template <class T, class Index, class Activations = UsualActivations>
__device__ inline T finish_scaled(const Conv<Index> &p, T v, const Place<Index> &at,
                                  const Activations &activations = {}) {
  const Epilogue &e = p.epilogue;
  if (e.residual) {
    const T r = load<T>(e.residual, e.residual_type, p.residual.at(at));
    const T distance = add(r, -static_cast<T>(e.residual_zero_point));
    v = add(v, multiply(static_cast<T>(e.residual_scale), distance));
  }
  if (e.save == POLYCONV_SAVE_PRE_ACTIVATION) store(e.saved, e.saved_type, p.saved.at(at), v);
  return activations(e, v, at.c);
}

// Scale, bias, residual, activation of one element before pooling; saves the pre-activation where asked.
template <class Sum, class Index, class Activations = UsualActivations>
__device__ inline Arithmetic<Sum> finish(const Conv<Index> &p, Sum sum, const Place<Index> &at,
                                         const Activations &activations = {}) {
  using T = Arithmetic<Sum>;
  const Epilogue &e = p.epilogue;
  T v;
  if constexpr (kInteger<Sum>)
    v = static_cast<T>(biased(e, sum, at.c));
  else
    v = static_cast<T>(sum);
  if (e.scale) v = multiply(v, load<T>(e.scale, e.scale_type, at.c));
  if constexpr (!kInteger<Sum>) {
    if (e.bias) v = add(v, load<T>(e.bias, e.bias_type, at.c));
  }
  return finish_scaled(p, v, at, activations);
}

// Quantises (integer results) and stores one element of the result.
template <class T, class Index>
__device__ inline void put(const Conv<Index> &p, void *result, T v, const Place<Index> &at) {
  const Epilogue &e = p.epilogue;
  if (e.result_type >= POLYCONV_S32) {
    // Rounding comes before the zero point, so ties do not depend on it.
    v = add(rint(divide(v, static_cast<T>(e.out_scale))), static_cast<T>(e.out_zero_point));
  }
  store(result, e.result_type, p.result.at(at), v);
}

// A layer that never leaves the integers: s32 out, nothing but a bias.
template <class Index>
__device__ inline void store_integer(const Conv<Index> &p, void *result, uint32_t sum, const Place<Index> &at) {
  const int32_t v = biased(p.epilogue, sum, at.c);
  static_cast<int32_t *>(result)[p.result.at(at)] = v;
  if (p.epilogue.save == POLYCONV_SAVE_PRE_ACTIVATION)
    store(p.epilogue.saved, p.epilogue.saved_type, p.saved.at(at), static_cast<float>(v));
}

template <class Sum, class Index, class Activations = UsualActivations>
__device__ inline void finish_and_store(const Conv<Index> &p, void *result, Sum sum, const Place<Index> &at,
                                        const Activations &activations = {}) {
  if constexpr (kInteger<Sum>) {
    if (p.epilogue.stays_integer) return store_integer(p, result, sum, at);
  }
  put(p, result, finish(p, sum, at, activations), at);
}

// Whether `candidate` takes the maximum from `best`: greater, or NaN, which is greater than everything.
template <class T>
__device__ inline bool pool_better(T candidate, T best) {
  return candidate > best || (candidate != candidate && best == best);
}

// Pools the window of result `at` and stores it, with the argmax where asked. `before` is the tensor before pooling,
// value_at(place) an activated element of it.
template <class T, class Index, class ValueAt>
__device__ inline void pool_and_put(const Conv<Index> &p, void *result, const Place<Index> &at,
                                    const View<Index> &before, const ValueAt &value_at) {
  const Pool<Index> &pool = p.pool;
  const bool average = pool.kind == POLYCONV_POOL_AVERAGE;
  const Index from_d = at.d * pool.stride[0] - pool.pad[0];
  const Index from_h = at.h * pool.stride[1] - pool.pad[1];
  const Index from_w = at.w * pool.stride[2] - pool.pad[2];
  T best = 0;
  Index count = 0, argmax = 0;
  for (Index d = max(from_d, Index(0)); d < min(from_d + pool.window[0], before.size[2]); ++d)
    for (Index h = max(from_h, Index(0)); h < min(from_h + pool.window[1], before.size[3]); ++h)
      for (Index w = max(from_w, Index(0)); w < min(from_w + pool.window[2], before.size[4]); ++w) {
        const T v = value_at(Place<Index>{at.n, at.c, d, h, w});
        if (average) {
          best = add(best, v);
        } else if (count == 0 || pool_better(v, best)) {
          best = v;
          argmax = ((d - from_d) * pool.window[1] + (h - from_h)) * pool.window[2] + (w - from_w);
        }
        ++count;
      }
  if (average) {
    if (pool.count_include_pad) count = pool.window[0] * pool.window[1] * pool.window[2];
    best = divide(best, static_cast<T>(count));
  }
  if (p.epilogue.save == POLYCONV_SAVE_ARGMAX)
    static_cast<int32_t *>(p.epilogue.saved)[p.saved.at(at)] = static_cast<int32_t>(argmax);
  put(p, result, best, at);
}

// The same from the sums: the whole epilogue of every element under the window, or of the one element without pooling.
// Not with pooling and SAVE_PRE_ACTIVATION, as windows do not cover elements once each (fused_pooling_refused).
template <class Sum, class Index, class SumAt, class Activations = UsualActivations>
__device__ inline void pool_and_store(const Conv<Index> &p, void *result, const Place<Index> &at,
                                      const View<Index> &before, const SumAt &sum_at,
                                      const Activations &activations = {}) {
  if constexpr (kInteger<Sum>) {
    if (p.epilogue.stays_integer) return store_integer(p, result, sum_at(at), at);
  }
  pool_and_put<Arithmetic<Sum>>(
      p, result, at, before, [&](const Place<Index> &inner) { return finish(p, sum_at(inner), inner, activations); });
}

} // namespace polyconv::cuda
