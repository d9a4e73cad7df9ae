// driver.cpp - see driver.hpp. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/adjoint/driver.hpp"

#include "cpu/adjoint/interleave.hpp"
#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/isa.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/parallel.hpp>

#include <algorithm>
#include <cstring>

namespace polyconv::cpu {
namespace {

using namespace sdk;

// The weights of a part, densely: adjoint_part's view, but each group's channels lie where the problem has them.
void exchange_channels(const polyconv_layer &l, int64_t number, const void *raw, char *dense) {
  const polyconv_tensor view = adjoint_part(l, number).layer.weights;
  const int64_t channels = l.weights.size[kC], group_stride = l.weights.size[kK] / l.groups * l.weights.stride[kK];
  const int64_t bytes = type_bytes(view.type);
  for (int64_t k = 0; k < view.size[kK]; ++k)
    for (int64_t c = 0; c < view.size[kC]; ++c)
      for (int64_t tap = 0; tap < spatial(view); ++tap, dense += bytes) {
        const int64_t line = tap / view.size[kW];
        const int64_t from = at(view, k % channels, c, line / view.size[kH], line % view.size[kH], tap % view.size[kW]);
        std::memcpy(dense, static_cast<const char *>(raw) + (from + k / channels * group_stride) * bytes,
                    static_cast<size_t>(bytes));
      }
}

// Whether zeros are all that becomes of sums of 0. A scale may be negative, which makes them -0, or not finite.
bool is_bare(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  const bool zero_at_zero = e.activation != POLYCONV_ACT_SIGMOID;
  return is_float(l.result.type) && !e.has_scale && !e.has_bias && e.residual_from == POLYCONV_RESIDUAL_NONE &&
         zero_at_zero && l.save == POLYCONV_SAVE_NONE;
}

// What the end of a strided gradient costs: a copy of the result, or zeros.
double end_us(const polyconv_request &request, int64_t zeros) {
  const polyconv_layer &l = *request.layers[0];
  const double bytes = interleaves(l) ? 2 * real(elements(l.result) * type_bytes(l.result.type)) : real(zeros);
  return bytes > 0 ? cpu::estimate_us(request.policy->threads, 0, bytes) : 0;
}

constexpr AdjointSide kSide = {interleaves, {4, 3, 2, 1, 0}, is_bare, end_us};

} // namespace

bool adjoint_supports(const Kernel &forward, const polyconv_request &request, int32_t config, Offer &offer) {
  if (!adjoint_takes(request, offer)) return false;
  AdjointParts parts(kSide, *request.layers[0]);
  return adjoint_add(kSide, forward, request, config, parts, &offer);
}

// ---------------------------------------------------------------- plan and run

namespace {

class Adjoint final : public Instance {
 public:
  Adjoint(const Kernel &forward, const polyconv_request &request, int32_t config)
      : layer_(*request.layers[0]), tasks_(request.policy->threads), plan_(kSide, forward, request, config) {
    if (plan_.interleaves() || !plan_.has_taps_everywhere()) parallel_ = make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *stream) override {
    plan_.pack(raw, packed, stream,
               [&](const AdjointPlan::Part &part, char *dense) { exchange_channels(layer_, part.number, raw, dense); });
  }

  void run(const polyconv_arguments &a, void *stream) const override {
    for (const AdjointPlan::Part &part : plan_.parts()) {
      if (part.forward)
        part.forward->run(plan_.arguments_of(part, a), stream);
      else if (!plan_.interleaves())
        zero(part, a);
    }
    if (plan_.interleaves()) gather(a);
  }

 private:
  // body(first, last) for equal shares of so many lines.
  template <class Body>
  void share_out(int64_t lines, const Body &body) const {
    const int64_t tasks = std::clamp<int64_t>(lines, 1, tasks_);
    run_tasks(parallel_, tasks, [&](int64_t task) {
      const Share mine = share(lines, tasks, task);
      body(mine.begin, mine.end);
    });
  }

  void gather(const polyconv_arguments &a) const {
    PartResults results = {};
    for (const AdjointPlan::Part &part : plan_.parts())
      if (part.forward) results.of[part.number] = AdjointPlan::result_of(part, a);
    const polyconv_tensor &t = layer_.result;
    share_out(elements(t) / t.size[kW], [&](int64_t first, int64_t last) {
      interleave(layer_, results, static_cast<char *>(a.input), first, last);
    });
  }

  void zero(const AdjointPlan::Part &part, const polyconv_arguments &a) const {
    const polyconv_tensor &t = part.of.layer.result;
    char *const result = static_cast<char *>(plan_.arguments_of(part, a).output);
    share_out(t.size[kN] * t.size[kD] * t.size[kH],
              [&](int64_t first, int64_t last) { zero_lines(t, result, first, last); });
  }

  const polyconv_layer layer_;
  const int64_t tasks_;
  const AdjointPlan plan_;
  std::unique_ptr<Parallel> parallel_;
};

} // namespace

std::unique_ptr<Instance> adjoint_create(const Kernel &forward, const polyconv_request &request, int32_t config) {
  return std::make_unique<Adjoint>(forward, request, config);
}

} // namespace polyconv::cpu
