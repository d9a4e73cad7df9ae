// gradient.cpp - the gradient of activation, pooling and scale: from the gradient of what a layer stored to that of its
// sums, with that of a residual on the way; where sums are scaled, that of the bias is summed from what is not.
//
// Floor: one read of gradient and saved values and one write of the result. Rows of the result, along channels or W,
// gather what the windows that hold them pass on, one after the other in order of D, H, W. Where no argmax is saved, a
// window is searched for its maximum, along W once for all rows that it holds.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/pooling.hpp"

namespace polyconv::cpu {

struct GradientPlan {
  polyconv_tensor given, saved, result; // the gradient that is read, what the forward run saved, what is written
  polyconv_tensor residual;             // the gradient of the residual
  PoolSource source;                    // the tensor before pooling: saved, or the result in shape
  polyconv_epilogue rules;
  int32_t axis;      // that rows follow: 1 or 4
  int32_t argmax;    // saved holds the places of the maxima
  int32_t slow;      // slopes are more than a few instructions
  int32_t evaluates; // maxima are not those of the pre-activations
  int64_t rows;      // of the result
};

struct GradientPointers {
  const void *given, *saved;
  const void *slope, *scale; // by channel; NULL where there are none
  void *result, *residual;   // residual may be NULL
};

POLYCONV_ISA_FUNCTION(void, gradient_task, const GradientPlan &plan, const GradientPointers &pointers, int64_t first,
                      int64_t last)

namespace POLYCONV_ISA {

// The slopes of the activations that activate() of finish.hpp knows; NaN where v is NaN.
template <class V>
POLYCONV_INLINE V slope(V v, int32_t activation, V alpha) {
  const V zero = {}, one = zero + 1;
  V result = one;
  switch (activation) {
    case POLYCONV_ACT_RELU: result = v > zero ? one : zero; break;
    case POLYCONV_ACT_CLIPPED_RELU: result = ((v > zero) & (v < alpha)) ? one : zero; break;
    case POLYCONV_ACT_LEAKY_RELU: result = v > zero ? one : alpha; break;
    case POLYCONV_ACT_HARD_SWISH: {
      const V inner = (v + v + 3) / 6, upper = v >= zero + 3 ? one : inner;
      result = v <= zero - 3 ? zero : upper;
      break;
    }
    default: break;
  }
  return v == v ? result : v;
}

// A PRelu's slopes, or scales, from the channel on at which a row begins.
template <class T>
POLYCONV_INLINE const T *from_channel(const void *by_channel, const Row &at) {
  return by_channel ? static_cast<const T *>(by_channel) + at.k : nullptr;
}

template <class T>
POLYCONV_INLINE void apply_slopes(const GradientPlan &p, const GradientPointers &pointers, const Row &at, T *sum,
                                  T *pre_activation, int64_t n) {
  if (p.slow) {
    slope_run(pre_activation, n, p.rules, from_channel<T>(pointers.slope, at), at.axis == 1);
    for (int64_t i = 0; i < n; ++i) sum[i] *= pre_activation[i];
    return;
  }
  const Vector<T> alpha = splat(static_cast<T>(p.rules.activation_alpha));
  for (int64_t i = 0; i < n; i += kLanes<T>)
    store(sum + i, load(sum + i) * slope(load(pre_activation + i), p.rules.activation, alpha));
}

// What pooled results [0, n) from `at` on pass to an element each of their windows: the gradient, or its share of an
// average; and where that goes.
template <class T>
struct Passed {
  Row at;
  int64_t n; // 0: nothing yet
  alignas(64) T given[kPoolChunk];
  alignas(64) int32_t place[kPoolChunk]; // in the window; of maxima
};

// The last few of them: the rows of one window, one after the other, ask for the same.
template <class T>
struct Recent {
  Passed<T> passed[4];
};

template <class T>
POLYCONV_INLINE void find_places(const GradientPlan &p, const GradientPointers &pointers, Passed<T> &to) {
  if (p.argmax) {
    const int32_t *place = static_cast<const int32_t *>(pointers.saved) + row_offset(p.saved, to.at);
    for (int64_t i = 0; i < to.n; ++i) to.place[i] = place[i * p.saved.stride[to.at.axis]];
    return;
  }
  PoolRow<T> row;
  const Vector<T> alpha = splat(static_cast<T>(p.rules.activation_alpha));
  combine_row<T, T, false, true>(
      p.source, static_cast<const T *>(pointers.saved), to.at, to.n, row, [&](T *values, int64_t count) {
        if (!p.evaluates) return;
        if (p.slow)
          return activate_run(values, count, p.rules, from_channel<T>(pointers.slope, to.at), to.at.axis == 1);
        for (int64_t i = 0; i < count; i += kLanes<T>)
          store(values + i, activate(load(values + i), p.rules.activation, alpha));
      });
  for (int64_t i = 0; i < to.n; ++i) to.place[i] = row.place[i];
}

template <class Stored, class T>
POLYCONV_NOINLINE const Passed<T> &passed_on(const GradientPlan &p, const GradientPointers &pointers, const Row &at,
                                             int64_t n, Recent<T> &recent) {
  Passed<T> &to = recent.passed[(at.h + at.w) & 3];
  const bool same_row = to.at.n == at.n && to.at.k == at.k && to.at.d == at.d && to.at.h == at.h;
  if (to.n == n && same_row && to.at.w == at.w) return to;
  to.at = at;
  to.n = n;
  if (p.source.rules.kind == POLYCONV_POOL_MAX) find_places(p, pointers, to);
  load_run(Load<Stored, T>(0), static_cast<const Stored *>(pointers.given) + row_offset(p.given, at),
           p.given.stride[at.axis], n, to.given);
  if (p.source.rules.kind == POLYCONV_POOL_AVERAGE)
    for (int64_t i = 0; i < n; ++i) to.given[i] /= static_cast<T>(pool_count(p.source, at, i));
  return to;
}

// The results whose windows hold coordinate i.
struct Readers {
  int64_t begin, end;
};
POLYCONV_INLINE Readers readers_of(const GradientPlan &p, int axis, int64_t i) {
  const polyconv_pool &pool = p.source.rules;
  const int64_t from = i + pool.pad_begin[axis], behind = from - pool.window[axis] + 1, step = pool.stride[axis];
  const int64_t end = from / step + 1, results = p.given.size[2 + axis];
  return {behind > 0 ? (behind + step - 1) / step : 0, end < results ? end : results};
}

// Adds what one row of pooled results passes to the elements [at.w, at.w + n) of a row along W. `line` is that row's
// place in the windows.
template <class Stored, class T>
POLYCONV_INLINE void gather_along_w(const GradientPlan &p, const GradientPointers &pointers, const Row &at, int64_t n,
                                    Row from, int64_t line, Recent<T> &recent, T *sum) {
  const polyconv_pool &pool = p.source.rules;
  const int64_t step = pool.stride[2], last = readers_of(p, 2, at.w + n - 1).end;
  const bool average = pool.kind == POLYCONV_POOL_AVERAGE;
  from.w = readers_of(p, 2, at.w).begin;
  const int64_t most = step > n ? 1 : kPoolChunk; // results so far apart meet the row one by one, with few taps each
  for (int64_t count = 0; from.w < last; from.w += count) {
    count = last - from.w < most ? last - from.w : most;
    const Passed<T> &passed = passed_on<Stored>(p, pointers, from, count, recent);
    const int64_t reach = at.w + pool.pad_begin[2] - from.w * step; // of the row's first element, in the first window
    const int64_t begin = reach - (count - 1) * step, end = reach + n < pool.window[2] ? reach + n : pool.window[2];
    for (int64_t x = begin > 0 ? begin : 0; x < end; ++x) {
      const int64_t first = from.w * step - pool.pad_begin[2] + x - at.w; // where result from.w passes to, in the row
      const int32_t place = static_cast<int32_t>(line * pool.window[2] + x);
      const int64_t a = first < 0 ? (-first + step - 1) / step : 0;
      const int64_t fits = n > first ? (n - first + step - 1) / step : 0, b = fits < count ? fits : count;
      T *to = sum + first;
      for (int64_t i = a; i < b; ++i) to[i * step] += average || passed.place[i] == place ? passed.given[i] : T(0);
    }
  }
}

// Likewise along channels: what the channels of the pooled result at `from` pass to those at `at`.
template <class Stored, class T>
POLYCONV_INLINE void gather_along_c(const GradientPlan &p, const GradientPointers &pointers, const Row &at, int64_t n,
                                    Row from, int64_t line, Recent<T> &recent, T *sum) {
  const polyconv_pool &pool = p.source.rules;
  const bool average = pool.kind == POLYCONV_POOL_AVERAGE;
  const Readers columns = readers_of(p, 2, at.w);
  for (from.w = columns.begin; from.w < columns.end; ++from.w) {
    const Passed<T> &passed = passed_on<Stored>(p, pointers, from, n, recent);
    const int64_t x = at.w - (from.w * pool.stride[2] - pool.pad_begin[2]);
    const int32_t place = static_cast<int32_t>(line * pool.window[2] + x);
    for (int64_t i = 0; i < n; ++i) sum[i] += average || passed.place[i] == place ? passed.given[i] : T(0);
  }
}

template <class T>
POLYCONV_INLINE void store_row(const polyconv_tensor &t, void *base, const Row &at, int64_t n, const T *values) {
  const int64_t offset = row_offset(t, at), stride = t.stride[at.axis];
  for (int64_t i = 0; i < n; i += kRowChunk) { // what scatter takes at a time
    const int part = n - i < kRowChunk ? static_cast<int>(n - i) : kRowChunk;
    scatter_typed(t.type, base, offset + i * stride, stride, part, values + i);
  }
}

// n elements of the result from `at` on, at most kPoolChunk.
template <class Stored, class T>
POLYCONV_NOINLINE void gradient_row(const GradientPlan &p, const GradientPointers &pointers, const Row &at, int64_t n,
                                    Recent<T> &recent) {
  alignas(64) T sum[kPoolChunk], pre_activation[kPoolChunk];
  const polyconv_pool &pool = p.source.rules;
  if (pool.kind == POLYCONV_POOL_NONE) {
    const Stored *given = static_cast<const Stored *>(pointers.given) + row_offset(p.given, at);
    load_run(Load<Stored, T>(0), given, p.given.stride[at.axis], n, sum);
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] = 0;
    const Readers planes = readers_of(p, 0, at.d), lines = readers_of(p, 1, at.h);
    for (int64_t d = planes.begin; d < planes.end; ++d)
      for (int64_t h = lines.begin; h < lines.end; ++h) {
        const Row from = {at.n, at.k, d, h, 0, at.axis};
        const int64_t plane = at.d - (d * pool.stride[0] - pool.pad_begin[0]);
        const int64_t line = plane * pool.window[1] + at.h - (h * pool.stride[1] - pool.pad_begin[1]);
        if (at.axis == 4)
          gather_along_w<Stored>(p, pointers, at, n, from, line, recent, sum);
        else
          gather_along_c<Stored>(p, pointers, at, n, from, line, recent, sum);
      }
  }
  if (p.rules.activation != POLYCONV_ACT_NONE) {
    const T *saved = static_cast<const T *>(pointers.saved) + row_offset(p.saved, at);
    load_run(Load<T, T>(0), saved, p.saved.stride[at.axis], n, pre_activation);
    apply_slopes(p, pointers, at, sum, pre_activation, n);
  }
  if (pointers.residual) {
    const T scale = static_cast<T>(p.rules.residual_scale);
    for (int64_t i = 0; i < n; ++i) pre_activation[i] = sum[i] * scale;
    store_row(p.residual, pointers.residual, at, n, pre_activation);
  }
  if (pointers.scale)
    change_by_channel(sum, n, from_channel<T>(pointers.scale, at), at.axis == 1,
                      [](Vector<T> v, Vector<T> scale) { return v * scale; });
  store_row(p.result, pointers.result, at, n, sum);
}

template <class Stored, class T>
POLYCONV_NOINLINE void gradient_rows(const GradientPlan &p, const GradientPointers &pointers, int64_t first,
                                     int64_t last) {
  Recent<T> recent;
  for (Passed<T> &passed : recent.passed) passed.at = Row{}, passed.n = 0;
  for_each_row(p.result, p.axis, first, last,
               [&](const Row &at, int64_t n) { gradient_row<Stored, T>(p, pointers, at, n, recent); });
}

void gradient_task(const GradientPlan &plan, const GradientPointers &pointers, int64_t first, int64_t last) {
  switch (plan.given.type) {
    case POLYCONV_F64: return gradient_rows<double, double>(plan, pointers, first, last);
    case POLYCONV_F16: return gradient_rows<f16, float>(plan, pointers, first, last);
    case POLYCONV_BF16: return gradient_rows<bf16, float>(plan, pointers, first, last);
    default: return gradient_rows<float, float>(plan, pointers, first, last);
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/bias/driver.hpp"
#include "cpu/common/accepts.hpp"
#include "cpu/isa.hpp"
#include "cpu/kernels.hpp"
#include "cpu/steps/tasks.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

// Where activations rise with their argument the maximum of what goes in is one of what comes out, and equals at their
// flat ends have slope 0 whichever is taken.
bool rises(const polyconv_epilogue &e) {
  return e.activation != POLYCONV_ACT_GELU && e.activation != POLYCONV_ACT_SILU &&
         e.activation != POLYCONV_ACT_HARD_SWISH && e.activation != POLYCONV_ACT_GELU_TANH &&
         e.activation != POLYCONV_ACT_PRELU &&
         ((e.activation != POLYCONV_ACT_LEAKY_RELU && e.activation != POLYCONV_ACT_ELU) || e.activation_alpha >= 0);
}

GradientPlan make_plan(const polyconv_layer &layer) {
  GradientPlan p{};
  p.given = layer.input;
  p.saved = layer.saved;
  p.result = layer.result;
  p.residual = layer.residual;
  p.argmax = layer.save == POLYCONV_SAVE_ARGMAX;
  p.source.input = layer.save == POLYCONV_SAVE_PRE_ACTIVATION ? layer.saved : layer.result;
  set_rules(layer, p.source);
  p.rules = layer.epilogue;
  p.slow = is_slow(layer.epilogue.activation);
  p.evaluates = !rises(layer.epilogue);
  const ResultRows rows = rows_of(layer.result);
  p.axis = rows.axis, p.rows = rows.count;
  return p;
}

// Fitted roughly to one core of an EPYC at relu and 2x2 and 4x4 maxima.
double serial_us(const GradientPlan &p) {
  const bool pools = p.source.rules.kind != POLYCONV_POOL_NONE;
  const double pooling = !pools ? 0 : p.argmax ? 2e-3 : 4e-3;
  const bool library = p.slow && p.rules.activation < POLYCONV_ACT_HARD_SWISH;
  const double activation = library ? 10e-3 : p.slow ? 0.6e-3 : 0.2e-3;
  return static_cast<double>(sdk::elements(p.result)) *
         (0.4e-3 + pooling + activation * (pools && p.evaluates ? 2 : 1));
}

class GradientInstance final : public sdk::Instance {
 public:
  GradientInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(make_plan(layer_)),
        bias_(make_bias(layer_)),
        isa_(isa),
        tasks_(*request.policy, serial_us(plan_), plan_.rows) {}

  void run(const polyconv_arguments &a, void *) const override {
    const polyconv_epilogue &e = plan_.rules;
    GradientPointers pointers = {a.input, a.saved[0], nullptr, nullptr, a.output, nullptr};
    if (e.activation == POLYCONV_ACT_PRELU) pointers.slope = a.slope[0];
    if (e.residual_from != POLYCONV_RESIDUAL_NONE) pointers.residual = a.residual_gradient[0];
    if (bias_.wanted) { // which is summed before the scale
      run_rows(pointers);
      run_bias(bias_, layer_, isa_, tasks_.parallel(), a, static_cast<char *>(a.workspace));
      pointers.residual = nullptr;
    }
    if (e.has_scale) pointers.scale = a.scale[0];
    run_rows(pointers);
  }

 private:
  void run_rows(const GradientPointers &pointers) const {
    tasks_.run([&](int64_t first, int64_t last) { gradient_task_by_isa[isa_](plan_, pointers, first, last); });
  }

  polyconv_layer layer_;
  GradientPlan plan_;
  BiasPlan bias_;
  Isa isa_;
  StepTasks tasks_;
};

bool gradient_offer(const polyconv_request &request, Isa, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_GRADIENT) return offer.reject("only goes back through activation and pooling");
  const polyconv_layer &layer = *request.layers[0];
  if (!fits_workspace(request, 1, bias_bytes(make_bias(layer)), offer)) return false;
  const double us = serial_us(make_plan(layer)) * (layer.epilogue.has_bias ? 2 : 1);
  const double bytes = 8.0 * static_cast<double>(sdk::elements(layer.result));
  offer.estimate_us = estimate_us(tasks_for(*request.policy, us), us, bytes);
  return true;
}

} // namespace

const sdk::Kernel kernel_gradient =
    kernel_by_isa("gradient", supports_by_isa<gradient_offer>, create_by_isa<GradientInstance>,
                  sdk::kActivationTraits | POLYCONV_TRAIT_GRADIENT_SCALE | POLYCONV_TRAIT_GRADIENT_RESIDUAL);

} // namespace polyconv::cpu
#endif
