// tail.cpp - see tail.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "tail.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/pooling.hpp>

#include <algorithm>
#include <cmath>

namespace polyconv::check {
namespace {

// The steepest slope of an activation with this alpha.
double steepest(int32_t activation, double alpha) {
  switch (activation) {
    case POLYCONV_ACT_LEAKY_RELU:
    case POLYCONV_ACT_ELU:
    case POLYCONV_ACT_PRELU: return std::max(1.0, std::fabs(alpha));
    case POLYCONV_ACT_SIGMOID: return 0.25;
    case POLYCONV_ACT_GELU:
    case POLYCONV_ACT_GELU_TANH: return 1.13;
    case POLYCONV_ACT_SILU: return 1.1;
    case POLYCONV_ACT_HARD_SWISH: return 1.5;
    default: return 1;
  }
}

bool computes(int32_t activation) { // more than a choice between two values
  return activation != POLYCONV_ACT_NONE && activation != POLYCONV_ACT_RELU && activation != POLYCONV_ACT_CLIPPED_RELU;
}

// The pooling of a problem, in three axes. What a last window has beyond the padding is cut off by the padding itself.
polyconv_layer three_axes(const polyconv_problem &p) {
  polyconv_layer layer = {};
  polyconv_pool &pool = layer.epilogue.pool;
  pool = p.epilogue.pool;
  for (int axis = 0; axis < 3; ++axis) {
    const int entry = axis - (3 - p.spatial_dims);
    pool.window[axis] = entry < 0 ? 1 : p.epilogue.pool.window[entry];
    pool.stride[axis] = entry < 0 ? 1 : p.epilogue.pool.stride[entry];
    pool.pad_begin[axis] = entry < 0 ? 0 : p.epilogue.pool.pad_begin[entry];
    pool.pad_end[axis] = entry < 0 ? 0 : p.epilogue.pool.pad_end[entry];
    layer.pool_dilation[axis] = entry < 0 ? 1 : p.pool_dilation[entry];
  }
  return layer;
}

// Calls visit(dense index before pooling, index in the window) for a result's window.
template <class Visit>
void for_window(const polyconv_layer &l, const polyconv_tensor &before, const int64_t (&place)[5], const Visit &visit) {
  const polyconv_pool &pool = l.epilogue.pool;
  const sdk::PoolSpan d = sdk::pool_span(l, 0, place[2], before.size[2]);
  const sdk::PoolSpan h = sdk::pool_span(l, 1, place[3], before.size[3]);
  const sdk::PoolSpan w = sdk::pool_span(l, 2, place[4], before.size[4]);
  const int64_t image = place[0] * before.size[1] + place[1];
  for (int64_t z = d.begin, i = d.first; z < d.end; z += d.step, ++i)
    for (int64_t y = h.begin, j = h.first; y < h.end; y += h.step, ++j)
      for (int64_t x = w.begin, k = w.first; x < w.end; x += w.step, ++k)
        visit(((image * before.size[2] + z) * before.size[3] + y) * before.size[4] + x,
              (i * pool.window[1] + j) * pool.window[2] + k);
}

struct Pooled {
  double value = 0, bound = 0, argmax = 0;
};

Pooled maximum(const polyconv_layer &pool, const Interval &v, const int64_t (&place)[5]) {
  Pooled result;
  bool first = true, unknown = false;
  for_window(pool, v.shape, place, [&](int64_t i, int64_t index) {
    const double value = v.value[static_cast<size_t>(i)];
    const double bound = v.bound.empty() ? 0 : v.bound[static_cast<size_t>(i)];
    unknown = unknown || bound == kUnknown;
    result.bound = std::max(result.bound, bound);
    if (!first && !sdk::pool_better(value, result.value)) return;
    result.value = value;
    result.argmax = static_cast<double>(index);
    first = false;
  });
  if (unknown) result.bound = kUnknown;
  return result;
}

Pooled average(const polyconv_layer &pool, const Interval &v, const Tolerance &tolerance, const int64_t (&place)[5]) {
  Pooled result;
  double count = 1, magnitude = 0;
  bool unknown = false;
  for_window(pool, v.shape, place, [&](int64_t i, int64_t) {
    const double value = v.value[static_cast<size_t>(i)];
    result.value += value;
    const double bound = v.bound.empty() ? 0 : v.bound[static_cast<size_t>(i)];
    unknown = unknown || bound == kUnknown;
    result.bound += bound;
    magnitude += std::fabs(value);
  });
  for (int axis = 0; axis < 3; ++axis)
    count *= static_cast<double>(sdk::pool_divisor(pool, axis, place[2 + axis], v.shape.size[2 + axis]));
  const double rounding = tolerance.exact() ? 0 : 2 * std::sqrt(count + 1) * tolerance.unit * magnitude;
  return {result.value / count, unknown ? kUnknown : (result.bound + rounding) / count, 0};
}

} // namespace

void apply_activation(const polyconv_epilogue &e, const Values &slopes, const Tolerance &tolerance, Interval &v) {
  if (e.activation == POLYCONV_ACT_NONE) return;
  const int64_t *size = v.shape.size;
  const size_t pixels = static_cast<size_t>(size[2] * size[3] * size[4]), channels = static_cast<size_t>(size[1]);
  for (size_t i = 0; i < v.value.size(); ++i) {
    const double alpha = slopes.empty() ? static_cast<double>(e.activation_alpha) : slopes[i / pixels % channels];
    const double slope = steepest(e.activation, alpha);
    const double before = v.value[i], after = sdk::activate(before, e, alpha);
    v.value[i] = after;
    if (v.bound.empty() || v.bound[i] == kUnknown) continue;
    // What is surely below 0 a relu makes 0, by whatever order it was summed.
    constexpr double kSurely = 2;
    const bool cut = e.activation == POLYCONV_ACT_RELU || e.activation == POLYCONV_ACT_CLIPPED_RELU;
    if (cut && before + kSurely * v.bound[i] < 0) {
      v.bound[i] = 0;
      continue;
    }
    // Evaluating the function costs a few roundings of its argument and of its result.
    const double own = computes(e.activation) ? 4 * tolerance.unit * (std::fabs(before) + std::fabs(after)) : 0;
    v.bound[i] = slope * v.bound[i] + own;
  }
}

Interval apply_pool(const polyconv_problem &problem, const Tolerance &tolerance, const Interval &v, Values *argmax) {
  const polyconv_layer pool = three_axes(problem);
  Interval result{dense(shape_of(problem, POLYCONV_TENSOR_OUTPUT), POLYCONV_F64), {}, {}};
  const auto count = static_cast<size_t>(element_count(result.shape));
  result.value.resize(count);
  if (!v.bound.empty()) result.bound.resize(count);
  if (argmax) argmax->resize(count);
  for (size_t i = 0; i < count; ++i) {
    int64_t place[5];
    indices_of(result.shape, static_cast<int64_t>(i), place);
    const Pooled pooled =
        problem.epilogue.pool.kind == POLYCONV_POOL_MAX ? maximum(pool, v, place) : average(pool, v, tolerance, place);
    result.value[i] = pooled.value;
    if (!v.bound.empty()) result.bound[i] = pooled.bound;
    if (argmax) (*argmax)[i] = pooled.argmax;
  }
  return result;
}

bool plausible_argmax(const polyconv_problem &problem, const Interval &before, int64_t dense_index, double found) {
  const polyconv_layer pool = three_axes(problem);
  int64_t place[5];
  indices_of(shape_of(problem, POLYCONV_TENSOR_OUTPUT), dense_index, place);
  double best = -INFINITY, chosen = -INFINITY;
  bool inside = false, unknown = false;
  for_window(pool, before.shape, place, [&](int64_t i, int64_t index) {
    const double value = before.value[static_cast<size_t>(i)];
    const double bound = before.bound.empty() ? 0 : before.bound[static_cast<size_t>(i)];
    unknown = unknown || bound == kUnknown;
    best = std::max(best, value - bound);
    if (static_cast<double>(index) != found) return;
    chosen = value + bound;
    inside = true;
  });
  return inside && (unknown || chosen >= best);
}

void apply_output(const polyconv_problem &problem, const Tolerance &tolerance, Interval &v) {
  const polyconv_epilogue &e = problem.epilogue;
  const int32_t type = problem.output_type;
  for (size_t i = 0; i < v.value.size(); ++i) {
    const double value = v.value[i], bound = v.bound.empty() ? 0 : v.bound[i];
    if (bound == kUnknown) continue;
    if (value == 0 && bound == 0 && !is_integer(type)) continue; // 0 is stored as it is
    if (is_integer(type)) {
      const double low = stored_as(type, sdk::quantise(value - bound, e, type));
      const double high = stored_as(type, sdk::quantise(value + bound, e, type));
      v.value[i] = stored_as(type, sdk::quantise(value, e, type));
      if (!v.bound.empty()) v.bound[i] = std::max(high - v.value[i], v.value[i] - low);
    } else if (tolerance.exact()) {
      v.value[i] = stored_as(type, value);
    } else {
      v.bound[i] = bound + unit_roundoff(type) * (std::fabs(value) + bound) + smallest(type);
    }
  }
}

} // namespace polyconv::check
