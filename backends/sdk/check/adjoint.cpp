// adjoint.cpp - the three directions of one convolution tied together: three inner products that must be equal, in
// integers that every type on the way represents.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>

#include <cmath>

#include "data.hpp"
#include "settled.hpp"

namespace polyconv::check {
namespace {

double inner_product(const Values &a, const Values &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Small whole numbers, the same for every direction: x and y in -2..2, w in -1..1.
Values whole_numbers(size_t count, int64_t reach, uint64_t seed) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t x = (seed + i) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
    values[i] = static_cast<double>(static_cast<int64_t>((x >> 33) % static_cast<uint64_t>(2 * reach + 1)) - reach);
  }
  return values;
}

class Adjoint {
 public:
  Adjoint(const polyconv_problem &forward, const polyconv_device *device, const polyconv_options &options,
          uint64_t seed)
      : problem_(forward), device_(device), options_(options) {
    polyconv_problem defaults;
    polyconv_problem_init(&defaults);
    problem_.epilogue = defaults.epilogue;
    const auto count = [&](int32_t which) { return static_cast<size_t>(element_count(shape_of(problem_, which))); };
    input_ = whole_numbers(count(POLYCONV_TENSOR_INPUT), 2, seed);
    output_ = whole_numbers(count(POLYCONV_TENSOR_OUTPUT), 2, seed + (uint64_t{1} << 40));
    weights_ = whole_numbers(count(POLYCONV_TENSOR_WEIGHTS), 1, seed + (uint64_t{1} << 41));
  }

  // What a direction writes on these numbers.
  Values result(int32_t direction, Result &report) {
    polyconv_problem p = problem_;
    p.direction = direction;
    const Plan plan = make_plan(device_, {p}, options_);
    if (!report.kernel.empty()) report.kernel += ", ";
    const polyconv_plan_info info = info_of(plan.get());
    if (info.transform != 0) throw NotApplicable{"a transform is not exact"};
    report.kernel += info.kernel;
    report.math = info.math;
    std::vector<Tensor> tensors = tensors_of({p}, options_.save);
    for (Tensor &t : tensors) {
      if (t.which == POLYCONV_TENSOR_INPUT) t.values = input_;
      if (t.which == POLYCONV_TENSOR_OUTPUT) t.values = output_;
      if (t.which == POLYCONV_TENSOR_WEIGHTS) t.values = weights_;
    }
    execute(device_, plan.get(), 1, options_, tensors, {0xff}, false);
    for (const Tensor &t : tensors)
      if (t.written) return represented(t);
    return {};
  }

  void compare(Result &report) {
    const double forward = inner_product(result(POLYCONV_FORWARD, report), output_);
    const double data = inner_product(result(POLYCONV_BACKWARD_DATA, report), input_);
    const double weights = inner_product(result(POLYCONV_BACKWARD_WEIGHTS, report), weights_);
    report.verdict = forward == data && forward == weights ? Verdict::Good : Verdict::Wrong;
    report.max_abs_err = std::fmax(std::fabs(forward - data), std::fabs(forward - weights));
    if (!report.good())
      report.sentence = "<conv(x), y> is " + std::to_string(forward) + ", <x, backward_data(y)> " +
                        std::to_string(data) + ", <w, backward_weights(x, y)> " + std::to_string(weights) +
                        "; expected three equal numbers";
  }

 private:
  // A sum that its type had to round makes the identity say nothing.
  static Values represented(const Tensor &t) {
    const double limit = 1 / unit_roundoff(t.shape.type);
    for (double v : t.values)
      if (std::fabs(v) > limit) throw NotApplicable{"the results are not all representable in the type"};
    return t.values;
  }

  polyconv_problem problem_;
  const polyconv_device *device_;
  const polyconv_options &options_;
  Values input_, output_, weights_;
};

} // namespace

Result adjoint(const polyconv_problem &forward, const polyconv_device *device, const polyconv_options &options,
               uint64_t seed) noexcept {
  return settled([&](Result &result) {
    if (row_of(forward) != Row::Float || forward.direction != POLYCONV_FORWARD)
      throw NotApplicable{"the adjoint identity is about forward problems of the float rows"};
    if (forward.pad_mode == POLYCONV_PAD_CONSTANT && forward.pad_value != 0)
      throw NotApplicable{"a constant in the padding makes the convolution affine, which has no adjoint"};
    if (forward.has_weights_strides != 0 && forward.weights_strides[0] == 0)
      throw NotApplicable{"one filter for all channels has no gradient of its own"};
    Adjoint(forward, device, options, seed).compare(result);
  });
}

} // namespace polyconv::check
