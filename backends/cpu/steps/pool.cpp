// pool.cpp - maximum and average pooling of a stored tensor, then quantisation: the step after a kernel that does not
// pool itself. f32, f64 or s32 in, any result; argmax saved on request.
//
// Floor: one read of the input and one write of the result. A row of results, along channels or W, is combined tap by
// tap of the window in order of D, H, W, so each input element is read once for every window that holds it, mostly from
// the L1 cache. Channels that lie side by side stay in registers meanwhile.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/pooling.hpp"

namespace polyconv::cpu {

struct PoolPlan {
  PoolSource source;
  polyconv_tensor saved;
  Epilogue epilogue; // result and quantisation only
  int32_t axis;      // that rows follow: 1 or 4
  int32_t save;
  int64_t rows; // of the result
};

POLYCONV_ISA_FUNCTION(void, pool_task, const PoolPlan &plan, const Epilogue &epilogue, const void *input,
                      int32_t *saved, int64_t first, int64_t last)

namespace POLYCONV_ISA {

// Vectors of results that stay in registers while their windows are walked.
constexpr int kPoolVectors = 4;

// N vectors of results whose channels lie side by side, `lanes` of the last; averages are still sums. Windows are
// combined in the order and with the comparisons of combine_row.
template <bool Average, int N>
POLYCONV_INLINE void pool_vectors(const PoolSource &p, const float *image, const PoolWindow (&window)[3], int lanes,
                                  float *value) {
  F32 best[N];
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) best[v] = splat(Average ? 0.0f : -static_cast<float>(__builtin_inf()));
  const int64_t *stride = p.input.stride + 2;
  for (int64_t i = window[0].first; i < window[0].last; ++i)
    for (int64_t j = window[1].first; j < window[1].last; ++j)
      for (int64_t x = window[2].first; x < window[2].last; ++x) {
        const float *from = image + (window[0].from + i * window[0].step) * stride[0] +
                            (window[1].from + j * window[1].step) * stride[1] +
                            (window[2].from + x * window[2].step) * stride[2];
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) {
          const F32 next =
              v + 1 < N || lanes == kF32Lanes ? load(from + v * kF32Lanes) : load_partial(from + v * kF32Lanes, lanes);
          if (Average)
            best[v] = best[v] + next;
          else
            best[v] = (next > best[v]) | ((next != next) & (best[v] == best[v])) ? next : best[v];
        }
      }
#pragma GCC unroll 4
  for (int v = 0; v < N; ++v) store(value + v * kF32Lanes, best[v]);
}

// As combine_row, for f32 channels side by side: each result is written once.
template <bool Average>
POLYCONV_INLINE void combine_beside(const PoolSource &p, const float *input, const Row &at, int64_t n, float *value) {
  const polyconv_tensor &t = p.input;
  const float *image = input + t.offset + at.n * t.stride[0] + at.k;
  const PoolWindow window[3] = {window_of(p, 0, at.d), window_of(p, 1, at.h), window_of(p, 2, at.w)};
  int64_t i = 0;
  for (; i + kPoolVectors * kF32Lanes <= n; i += kPoolVectors * kF32Lanes)
    pool_vectors<Average, kPoolVectors>(p, image + i, window, kF32Lanes, value + i);
  for (; i < n; i += kF32Lanes)
    pool_vectors<Average, 1>(p, image + i, window, static_cast<int>(n - i < kF32Lanes ? n - i : kF32Lanes), value + i);
}

// One row of `n` results from (image, c, d, h, w) on.
template <class From, class T, bool Average, bool Save>
POLYCONV_NOINLINE void pool_row(const PoolPlan &p, const Epilogue &e, const From *input, int32_t *saved, const Row &at,
                                int64_t n) {
  PoolRow<T> row;
  constexpr bool kFloats = __is_same(From, float) && __is_same(T, float);
  bool combined = false;
  if constexpr (kFloats && !Save)
    if (at.axis == 1 && p.source.input.stride[1] == 1)
      combine_beside<Average>(p.source, input, at, n, row.value), combined = true;
  if (!combined) combine_row<From, T, Average, Save>(p.source, input, at, n, row, [](T *, int64_t) {});
  if (Average)
    for (int64_t i = 0; i < n; ++i) row.value[i] /= static_cast<T>(pool_count(p.source, at, i));
  if (Save)
    for (int64_t i = 0; i < n; ++i) saved[row_offset(p.saved, at) + i * p.saved.stride[at.axis]] = row.place[i];
  finish_row(e, row.value, n, at);
}

template <class From, class T, bool Average, bool Save>
POLYCONV_NOINLINE void pool_rows(const PoolPlan &p, const Epilogue &e, const void *input, int32_t *saved, int64_t first,
                                 int64_t last) {
  // Windows that begin further apart than the input is wide share no taps worth walking together.
  const bool apart = p.axis == 4 && p.source.rules.stride[2] > p.source.input.size[4];
  for_each_row(e.result, p.axis, first, last, [&](Row at, int64_t n) {
    const int64_t most = apart ? 1 : n;
    for (int64_t i = 0; i < n; i += most, at.w += most)
      pool_row<From, T, Average, Save>(p, e, static_cast<const From *>(input), saved, at, most);
  });
}

template <class From, class T>
POLYCONV_INLINE void pool_typed(const PoolPlan &p, const Epilogue &e, const void *input, int32_t *saved, int64_t first,
                                int64_t last) {
  if (p.source.rules.kind == POLYCONV_POOL_AVERAGE)
    return pool_rows<From, T, true, false>(p, e, input, saved, first, last);
  if (p.save) return pool_rows<From, T, false, true>(p, e, input, saved, first, last);
  pool_rows<From, T, false, false>(p, e, input, saved, first, last);
}

void pool_task(const PoolPlan &plan, const Epilogue &epilogue, const void *input, int32_t *saved, int64_t first,
               int64_t last) {
  switch (plan.source.input.type) {
    case POLYCONV_F64: return pool_typed<double, double>(plan, epilogue, input, saved, first, last);
    case POLYCONV_S32: return pool_typed<int32_t, float>(plan, epilogue, input, saved, first, last);
    default: return pool_typed<float, float>(plan, epilogue, input, saved, first, last);
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/common/rows.hpp"
#include "cpu/kernels.hpp"
#include "cpu/steps/tasks.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

PoolPlan make_plan(const polyconv_layer &layer) {
  PoolPlan p{};
  p.source.input = layer.input;
  p.saved = layer.saved;
  p.epilogue.result = layer.result;
  p.epilogue.sum_type = layer.input.type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
  p.epilogue.rules.out_scale = layer.epilogue.out_scale;
  p.epilogue.rules.out_zero_point = layer.epilogue.out_zero_point;
  p.epilogue.simple = p.epilogue.sum_type == POLYCONV_F32 && layer.result.type == POLYCONV_F32;
  set_rules(layer, p.source);
  p.save = layer.save == POLYCONV_SAVE_ARGMAX;
  const ResultRows rows = rows_of(layer.result);
  p.axis = rows.axis, p.rows = rows.count;
  return p;
}

double serial_us(const PoolPlan &p) {
  const double window =
      static_cast<double>(p.source.rules.window[0] * p.source.rules.window[1] * p.source.rules.window[2]);
  const bool dense = p.axis == sdk::kC ? p.source.input.stride[sdk::kC] == 1
                                       : p.source.input.stride[sdk::kW] == 1 && p.source.rules.stride[2] == 1;
  return static_cast<double>(sdk::elements(p.epilogue.result)) * (window * (dense ? 0.15e-3 : 0.4e-3) + 0.3e-3);
}

class PoolInstance final : public RowInstance {
 public:
  PoolInstance(const polyconv_request &request, Isa isa)
      : plan_(make_plan(*request.layers[0])), isa_(isa), tasks_(*request.policy, serial_us(plan_), plan_.rows) {}

  void run(const polyconv_arguments &a, void *) const override {
    Epilogue epilogue = plan_.epilogue;
    epilogue.output = a.output;
    auto *saved = static_cast<int32_t *>(a.saved[0]);
    tasks_.run(
        [&](int64_t first, int64_t last) { pool_task_by_isa[isa_](plan_, epilogue, a.input, saved, first, last); });
  }

  void run_rows(const polyconv_arguments &a, const RowWindow &window) const override {
    PoolPlan p = plan_;
    p.source.input.size[sdk::kH] = window.rows.axis->in;
    p.source.rules.pad_begin[1] -= window.rows.first * p.source.rules.stride[1];
    p.epilogue.result.size[sdk::kH] = window.rows.count;
    Epilogue epilogue = from_window(p.epilogue, window);
    epilogue.output = a.output;
    pool_task_by_isa[isa_](p, epilogue, a.input, nullptr, 0,
                           plan_.rows / plan_.epilogue.result.size[sdk::kH] * window.rows.count);
  }

 private:
  PoolPlan plan_;
  Isa isa_;
  StepTasks tasks_;
};

bool pool_offer(const polyconv_request &request, Isa, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_POOL) return offer.reject("only pools");
  const polyconv_layer &layer = *request.layers[0];
  const int32_t type = layer.input.type;
  if (type != POLYCONV_F32 && type != POLYCONV_F64 && type != POLYCONV_S32)
    return offer.reject("pools f32, f64 or s32 values");
  const PoolPlan plan = make_plan(layer);
  const double us = serial_us(plan);
  const double bytes = 4.0 * static_cast<double>(sdk::elements(layer.input) + sdk::elements(layer.result));
  offer.estimate_us = estimate_us(tasks_for(*request.policy, us), us, bytes);
  return true;
}

} // namespace

const sdk::Kernel kernel_pool = kernel_by_isa("pool", supports_by_isa<pool_offer>, create_by_isa<PoolInstance>,
                                              POLYCONV_TRAIT_DILATED_POOLING | POLYCONV_TRAIT_CLIPPED_POOLING);

} // namespace polyconv::cpu
#endif
