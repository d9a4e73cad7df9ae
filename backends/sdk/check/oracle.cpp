// oracle.cpp - see oracle.hpp. Float and image rows: the reference's f64 row gives the sums, and a second convolution,
// of absolute values, how far off they may be; the check itself does the rest of the epilogue (tail.hpp). Quantised
// rows: the reference's own answer bit for bit, unless the activation needs a library function.
// SPDX-License-Identifier: Apache-2.0
#include "oracle.hpp"

#include <algorithm>
#include <cmath>

#include "execute.hpp"

namespace polyconv::check {
namespace {

// One run of the reference on a problem derived from a layer's.
class Run {
 public:
  Run(const polyconv_problem &problem, int32_t save)
      : problem_(problem), save_(save), tensors_(tensors_of({problem}, save)) {}

  void set(int32_t which, Values values) {
    if (Tensor *t = find(tensors_, which, 0)) t->values = std::move(values);
  }
  void run() { run_reference(problem_, save_, tensors_); }
  Values &operator[](int32_t which) { return find(tensors_, which, 0)->values; }

 private:
  const polyconv_problem problem_;
  const int32_t save_;
  std::vector<Tensor> tensors_;
};

const Values &values_in(const std::vector<Tensor> &data, int32_t which, int32_t layer) {
  static const Values none;
  const Tensor *tensor = find(data, which, layer);
  return tensor ? tensor->values : none;
}

// factor |v| + added; what is not finite counts as 0, for its neighbours' sake.
Values magnitudes(const Values &values, double factor = 1, const Values &added = {}) {
  Values result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) result[i] = factor * std::fabs(values[i]);
    if (!added.empty() && std::isfinite(added[i])) result[i] += added[i];
  }
  return result;
}

double largest(const Values &values) {
  double result = 0;
  for (double v : values) result = std::max(result, std::fabs(v));
  return result;
}

bool certain(const Interval &v) {
  return largest(v.bound) == 0;
}

// Adds what storing as a float type rounds away.
void round_bound(int32_t type, const Values &values, Values &bound) {
  for (size_t i = 0; i < values.size(); ++i)
    if (bound[i] != kUnknown) bound[i] += unit_roundoff(type) * (std::fabs(values[i]) + bound[i]) + smallest(type);
}

void fill(Tensor &t, const Tolerance &tolerance, Values values, Values bound) {
  t.values = std::move(values);
  t.bound = std::move(bound);
  if (tolerance.exact())
    for (double &v : t.values) v = stored_as(t.shape.type, v);
  else
    round_bound(t.shape.type, t.values, t.bound);
}

constexpr double kLoosened = 1.0001; // bounds are summed in f32

// The gradients of one layer, which has a scale and a residual at most.
Expected gradients(const polyconv_problem &p, const Tolerance &tolerance, const std::vector<Tensor> &data) {
  polyconv_problem absolute = bare(p, POLYCONV_F32);
  absolute.pad_value = std::fabs(absolute.pad_value); // else padding of -2 takes from the magnitudes what it should add
  Run value(bare(p, POLYCONV_F64), POLYCONV_SAVE_NONE), magnitude(absolute, POLYCONV_SAVE_NONE);
  for (int32_t which :
       {POLYCONV_TENSOR_INPUT, POLYCONV_TENSOR_OUTPUT, POLYCONV_TENSOR_WEIGHTS, POLYCONV_TENSOR_SCALE}) {
    value.set(which, values_in(data, which, 0));
    magnitude.set(which, magnitudes(values_in(data, which, 0)));
  }
  value.run();
  if (!tolerance.exact()) magnitude.run();
  Expected expected;
  for (const Tensor &t : data) {
    if (!t.written) continue;
    Tensor result = t;
    const polyconv_tensor output = shape_of(p, POLYCONV_TENSOR_OUTPUT);
    const double terms = t.which == POLYCONV_TENSOR_RESIDUAL_GRADIENT ? 1
                         : t.which != POLYCONV_TENSOR_BIAS
                             ? products(p)
                             : static_cast<double>(element_count(output)) / static_cast<double>(output.size[1]);
    double gamma = kLoosened * tolerance.factor * std::sqrt(terms) * tolerance.unit;
    if (p.epilogue.has_scale) gamma += kLoosened * unit_roundoff(p.output_type); // of the gradient of the sums
    Values bound;
    if (!tolerance.exact()) bound = magnitudes(magnitude[t.which], gamma);
    fill(result, tolerance, value[t.which], std::move(bound));
    expected.tensors.push_back(std::move(result));
  }
  expected.windows.resize(1);
  return expected;
}

// The forward layers of a chain, one after the other.
class Forward {
 public:
  Forward(const std::vector<polyconv_problem> &problems, int32_t save, const Tolerance &tolerance,
          const std::vector<Tensor> &data)
      : problems_(problems), save_(save), tolerance_(tolerance), data_(data) {
    expected_.windows.resize(problems.size());
  }

  Expected run() {
    Interval chain_input;
    chain_input.value = values_in(data_, POLYCONV_TENSOR_INPUT, 0);
    if (!tolerance_.exact()) chain_input.bound.assign(chain_input.value.size(), 0);
    chain_input_ = chain_input;
    for (size_t i = 0; i < problems_.size(); ++i) {
      const auto layer = static_cast<int32_t>(i);
      outputs_.push_back(one_layer(layer, i == 0 ? chain_input_ : outputs_.back()));
    }
    const auto last = static_cast<int32_t>(problems_.size()) - 1;
    Tensor output = *find(data_, POLYCONV_TENSOR_OUTPUT, last);
    output.values = outputs_.back().value;
    output.bound = outputs_.back().bound;
    expected_.tensors.insert(expected_.tensors.begin(), std::move(output));
    return std::move(expected_);
  }

 private:
  Interval one_layer(int32_t layer, const Interval &input) {
    const polyconv_problem &p = problems_[static_cast<size_t>(layer)];
    const int32_t act = p.epilogue.activation;
    const bool library = act == POLYCONV_ACT_TANH || act == POLYCONV_ACT_SIGMOID || act == POLYCONV_ACT_GELU ||
                         act == POLYCONV_ACT_SILU || act == POLYCONV_ACT_ELU || act == POLYCONV_ACT_GELU_TANH;
    const Interval residual = residual_of(p, layer);
    if (row_of(p) != Row::Quantised) return tail(layer, tolerance_, sums(layer, input, residual));
    if (!certain(input) || !certain(residual))
      throw NotApplicable{"a quantised layer reads what may be off by one, so its bits are not known"};
    if (!library) return quantised(layer, input, residual);
    // Nothing but the library function and what follows may differ between machines, by f32's roundings.
    Interval v = quantised_sums(p, layer, input, residual);
    v.bound.assign(v.value.size(), 0);
    return tail(layer, {1, 0x1p-24}, std::move(v));
  }

  // What is added, with a zero point still in it.
  Interval residual_of(const polyconv_problem &p, int32_t layer) const {
    const int32_t from = p.epilogue.residual_from;
    if (from == POLYCONV_RESIDUAL_NONE) return {};
    if (from == POLYCONV_RESIDUAL_INPUT) return chain_input_;
    if (from >= POLYCONV_RESIDUAL_LAYER) return outputs_[static_cast<size_t>(from - POLYCONV_RESIDUAL_LAYER)];
    Interval result;
    result.value = values_in(data_, POLYCONV_TENSOR_RESIDUAL, layer);
    return result;
  }

  static Values less(Values values, double zero_point) {
    for (double &v : values) v -= zero_point;
    return values;
  }

  // Float and image rows up to the activation.
  Interval sums(int32_t layer, const Interval &input, const Interval &residual) const {
    const polyconv_problem &p = problems_[static_cast<size_t>(layer)];
    const Values added = less(residual.value, p.epilogue.residual_zero_point);
    Run value(bare(p, POLYCONV_F64), POLYCONV_SAVE_NONE);
    value.set(POLYCONV_TENSOR_INPUT, input.value);
    for (int32_t which : {POLYCONV_TENSOR_WEIGHTS, POLYCONV_TENSOR_BIAS, POLYCONV_TENSOR_SCALE})
      value.set(which, values_in(data_, which, layer));
    value.set(POLYCONV_TENSOR_RESIDUAL, added);
    value.run();
    Interval result{dense(convolved_shape(p), POLYCONV_F64), std::move(value[POLYCONV_TENSOR_OUTPUT]), {}};
    if (tolerance_.exact()) {
      if (layer > 0 && largest(absolute_sums(layer, input, added)) > 0x1p24)
        throw NotApplicable{"the sums of layer " + std::to_string(layer) + " need more than 24 bits"};
      return result;
    }
    // Products, and the steps of the epilogue, each round once; errors of what is read are carried through.
    const double steps = p.epilogue.has_scale + p.epilogue.has_bias + 2 * !residual.value.empty();
    const double gamma = tolerance_.factor * std::sqrt(products(p) + steps) * tolerance_.unit;
    polyconv_problem q = bare(p, POLYCONV_F32);
    q.pad_value = static_cast<double>(static_cast<float>(gamma * std::fabs(q.pad_value)));
    q.epilogue.residual_scale = std::fabs(q.epilogue.residual_scale);
    Run error(q, POLYCONV_SAVE_NONE);
    error.set(POLYCONV_TENSOR_INPUT, magnitudes(input.value, gamma, input.bound));
    error.set(POLYCONV_TENSOR_WEIGHTS, magnitudes(values_in(data_, POLYCONV_TENSOR_WEIGHTS, layer)));
    error.set(POLYCONV_TENSOR_BIAS, magnitudes(values_in(data_, POLYCONV_TENSOR_BIAS, layer), gamma));
    error.set(POLYCONV_TENSOR_SCALE, magnitudes(values_in(data_, POLYCONV_TENSOR_SCALE, layer)));
    error.set(POLYCONV_TENSOR_RESIDUAL, magnitudes(added, gamma, residual.bound));
    error.run();
    result.bound = magnitudes(error[POLYCONV_TENSOR_OUTPUT], kLoosened);
    mark_unknown(layer, input, result);
    return result;
  }

  // Where a weight that is not finite meets a number that rounding may make 0, or of the other sign: Inf and NaN stand
  // close together there. What a chain reads is known, what its layers read of each other is not: of the zeros behind a
  // relu one in thousands is none to another kernel.
  void mark_unknown(int32_t layer, const Interval &input, Interval &result) const {
    Values infinite = values_in(data_, POLYCONV_TENSOR_WEIGHTS, layer), doubtful = input.value;
    bool any = false;
    for (double &w : infinite) {
      w = std::isfinite(w) ? 0 : 1;
      any = any || w != 0;
    }
    if (!any || input.bound.empty()) return;
    for (size_t i = 0; i < doubtful.size(); ++i) {
      const double bound = input.bound[i];
      doubtful[i] = bound == kUnknown || (bound > 0 && std::fabs(input.value[i]) <= bound) ? 1 : 0;
    }
    polyconv_problem q = bare(problems_[static_cast<size_t>(layer)], POLYCONV_F32);
    q.pad_value = 0;
    Run meetings(q, POLYCONV_SAVE_NONE);
    meetings.set(POLYCONV_TENSOR_INPUT, std::move(doubtful));
    meetings.set(POLYCONV_TENSOR_WEIGHTS, std::move(infinite));
    meetings.set(POLYCONV_TENSOR_SCALE, Values(values_in(data_, POLYCONV_TENSOR_SCALE, layer).size(), 1));
    meetings.set(POLYCONV_TENSOR_BIAS, Values(values_in(data_, POLYCONV_TENSOR_BIAS, layer).size(), 0));
    meetings.set(POLYCONV_TENSOR_RESIDUAL, Values(result.value.size(), 0));
    meetings.run();
    for (size_t i = 0; i < result.bound.size(); ++i)
      if (meetings[POLYCONV_TENSOR_OUTPUT][i] > 0) result.bound[i] = kUnknown;
  }

  // Sum |x||w| + |bias| + |residual|: no order of summing goes beyond it.
  Values absolute_sums(int32_t layer, const Interval &input, const Values &added) const {
    polyconv_problem q = bare(problems_[static_cast<size_t>(layer)], POLYCONV_F64);
    q.pad_value = std::fabs(q.pad_value);
    q.epilogue.residual_scale = std::fabs(q.epilogue.residual_scale);
    Run run(q, POLYCONV_SAVE_NONE);
    run.set(POLYCONV_TENSOR_INPUT, magnitudes(input.value));
    for (int32_t which : {POLYCONV_TENSOR_WEIGHTS, POLYCONV_TENSOR_BIAS, POLYCONV_TENSOR_SCALE})
      run.set(which, magnitudes(values_in(data_, which, layer)));
    run.set(POLYCONV_TENSOR_RESIDUAL, magnitudes(added));
    run.run();
    return std::move(run[POLYCONV_TENSOR_OUTPUT]);
  }

  // A quantised layer's v before the activation: f32, in its own arithmetic.
  Interval quantised_sums(const polyconv_problem &p, int32_t layer, const Interval &input,
                          const Interval &residual) const {
    polyconv_problem q = densely(p);
    q.output_type = POLYCONV_F32;
    q.epilogue.activation = POLYCONV_ACT_NONE;
    q.epilogue.pool.kind = POLYCONV_POOL_NONE;
    q.epilogue.out_scale = 1;
    q.epilogue.out_zero_point = q.epilogue.residual_zero_point = 0;
    Run run(q, POLYCONV_SAVE_NONE);
    set_quantised(run, layer, input);
    run.set(POLYCONV_TENSOR_RESIDUAL, less(residual.value, p.epilogue.residual_zero_point));
    run.run();
    return {dense(convolved_shape(p), POLYCONV_F64), std::move(run[POLYCONV_TENSOR_OUTPUT]), {}};
  }

  Interval quantised(int32_t layer, const Interval &input, const Interval &residual) {
    const polyconv_problem &p = problems_[static_cast<size_t>(layer)];
    const bool saves = save_ == POLYCONV_SAVE_PRE_ACTIVATION ||
                       (save_ == POLYCONV_SAVE_ARGMAX && p.epilogue.pool.kind == POLYCONV_POOL_MAX);
    Run run(densely(p), saves ? save_ : POLYCONV_SAVE_NONE);
    set_quantised(run, layer, input);
    run.set(POLYCONV_TENSOR_RESIDUAL, residual.value);
    run.run();
    for (int32_t which : {POLYCONV_TENSOR_ARGMAX, POLYCONV_TENSOR_PRE_ACTIVATION})
      if (const Tensor *t = find(data_, which, layer)) {
        expected_.tensors.push_back(*t);
        expected_.tensors.back().values = run[which];
      }
    const polyconv_tensor shape = dense(shape_of(p, POLYCONV_TENSOR_OUTPUT), POLYCONV_F64);
    Interval result{shape, std::move(run[POLYCONV_TENSOR_OUTPUT]), {}};
    if (!tolerance_.exact()) result.bound.assign(result.value.size(), 0);
    return result;
  }

  void set_quantised(Run &run, int32_t layer, const Interval &input) const {
    run.set(POLYCONV_TENSOR_INPUT, input.value);
    for (int32_t which : {POLYCONV_TENSOR_WEIGHTS, POLYCONV_TENSOR_BIAS, POLYCONV_TENSOR_SCALE, POLYCONV_TENSOR_SLOPE,
                          POLYCONV_TENSOR_WEIGHTS_ZERO_POINT})
      run.set(which, values_in(data_, which, layer));
  }

  // From sums to the layer's output; expected saved values on the way.
  Interval tail(int32_t layer, const Tolerance &tolerance, Interval v) {
    const polyconv_problem &p = problems_[static_cast<size_t>(layer)];
    if (const Tensor *t = find(data_, POLYCONV_TENSOR_PRE_ACTIVATION, layer)) {
      expected_.tensors.push_back(*t);
      fill(expected_.tensors.back(), tolerance, v.value, v.bound);
    }
    apply_activation(p.epilogue, values_in(data_, POLYCONV_TENSOR_SLOPE, layer), tolerance, v);
    if (p.epilogue.pool.kind != POLYCONV_POOL_NONE) {
      Values argmax;
      Interval pooled = apply_pool(p, tolerance, v, &argmax);
      if (const Tensor *t = find(data_, POLYCONV_TENSOR_ARGMAX, layer)) {
        expected_.tensors.push_back(*t);
        expected_.tensors.back().values = std::move(argmax);
        if (!tolerance.exact()) expected_.windows[static_cast<size_t>(layer)] = std::move(v);
      }
      v = std::move(pooled);
    }
    apply_output(p, tolerance, v); // exact: what the next layer reads is this sum, rounded to its type once
    const bool last = static_cast<size_t>(layer) + 1 == problems_.size();
    if (tolerance.exact() && !last &&
        std::any_of(v.value.begin(), v.value.end(), [](double x) { return !std::isfinite(x); }))
      throw NotApplicable{"the output of layer " + std::to_string(layer) + " is beyond its type"};
    return v;
  }

  const std::vector<polyconv_problem> &problems_;
  const int32_t save_;
  const Tolerance tolerance_;
  const std::vector<Tensor> &data_;
  Interval chain_input_;
  std::vector<Interval> outputs_;
  Expected expected_;
};

} // namespace

Expected expect(const std::vector<polyconv_problem> &problems, int32_t save, const Tolerance &tolerance,
                const std::vector<Tensor> &data) {
  if (problems[0].direction != POLYCONV_FORWARD) return gradients(problems[0], tolerance, data);
  return Forward(problems, save, tolerance, data).run();
}

} // namespace polyconv::check
