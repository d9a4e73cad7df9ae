// axes.hpp - how results of a depthwise layer, or of its gradient of data, meet taps along an axis, and what may follow
// their sums for them to be stored at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::shared {

// Which elements of what is read a result meets along an axis: through tap t the one at (result * scale + shift + t *
// apart) / by, where that is whole. Forward, `by` is 1; of the gradient of data it is the stride.
struct TapAxis {
  int32_t taps, size; // `size`: of what is read
  int32_t stride;     // of its elements in memory
  int32_t scale, shift, apart, by;
  int32_t tap_step, at_step; // from one tap that a result meets to the next
};

// The first tap that result `i` meets along an axis, and where.
struct FirstTap {
  int32_t tap, at;

  __device__ FirstTap(const TapAxis &axis, int32_t i) : tap(0), at(i * axis.scale + axis.shift) {
    if (axis.by == 1) return;
    while (tap < axis.tap_step && at % axis.by != 0) ++tap, at += axis.apart;
    at /= axis.by;
    if (tap == axis.tap_step) tap = axis.taps; // none
  }
};

__device__ inline bool is_there(const TapAxis &axis, int32_t at) {
  return static_cast<uint32_t>(at) < static_cast<uint32_t>(axis.size);
}

// How far apart results that meet the same taps, one after the other, read along an axis.
__host__ __device__ inline int32_t between_results(const TapAxis &axis) {
  return axis.by == 1 ? axis.scale : 1;
}

// Whether what such a result reads through one tap, its neighbour reads through the next.
inline bool close_taps(const TapAxis &axis) {
  return axis.taps > axis.tap_step && std::abs(axis.at_step) == between_results(axis);
}

// Of results that are stored at once.
struct Bounds {
  float low, high;

  __device__ float operator()(float v) const { return v < low ? low : v > high ? high : v; } // NaN stays
};

// What is read: the input, or the gradient of the output.
inline const polyconv_tensor &source_of(const polyconv_layer &l) {
  return l.direction == POLYCONV_FORWARD ? l.input : l.output;
}

// A bias and bounds at most between sum and result, of the type that is read.
inline bool only_bounds(const polyconv_layer &l) {
  const int32_t a = l.epilogue.activation;
  polyconv_layer without = l;
  without.epilogue.activation = POLYCONV_ACT_NONE;
  return (a == POLYCONV_ACT_NONE || a == POLYCONV_ACT_RELU || a == POLYCONV_ACT_CLIPPED_RELU) &&
         bias_and_relu_at_most(without) && l.result.type == source_of(l).type;
}

inline Bounds make_bounds(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {e.activation == POLYCONV_ACT_NONE ? -kInfinity : 0,
          e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.activation_alpha : kInfinity};
}

inline TapAxis axis_of(const polyconv_layer &l, int axis) {
  const bool forward = l.direction == POLYCONV_FORWARD;
  const int64_t stride = l.stride[axis], apart = l.dilation[axis], common = std::gcd(stride, apart);
  TapAxis a = {};
  a.taps = small(l.weights.size[2 + axis]), a.size = small(source_of(l).size[2 + axis]);
  a.stride = small(source_of(l).stride[2 + axis]);
  a.scale = forward ? small(stride) : 1, a.shift = small(forward ? -l.pad_begin[axis] : l.pad_begin[axis]);
  a.apart = small(forward ? apart : -apart), a.by = forward ? 1 : small(stride);
  a.tap_step = forward ? 1 : small(stride / common), a.at_step = small(forward ? apart : -apart / common);
  return a;
}

// Taps of an axis that a result meets on average, of `together` results at a time: those beside the image are left out,
// where they are for all of these.
inline double taps_met(const TapAxis &a, int64_t results, int64_t together) {
  int64_t met = 0;
  for (int64_t tap = 0; tap < a.taps; ++tap) {
    const int64_t base = a.shift + tap * a.apart, last = int64_t{a.size} * a.by - 1 - base;
    const int64_t first = base >= 0 ? 0 : ceil_div(-base, a.scale), end = last < 0 ? 0 : last / a.scale + 1;
    const int64_t inside = std::min(end, results) - first;
    if (inside > 0) met += std::min(results, inside + (together - 1) * a.by / 2);
  }
  return real(met) / real(results) / a.by;
}

// The part of an axis's elements that some tap meets.
inline double part_met(const TapAxis &a) {
  return std::min(1.0, real(a.taps) * a.by / a.scale);
}

} // namespace polyconv::cuda::shared
