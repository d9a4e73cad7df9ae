// compare.cpp - see compare.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "compare.hpp"

#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>

namespace polyconv::check {
namespace {

bool has_images(const Tensor &t) {
  return t.which == POLYCONV_TENSOR_INPUT || t.which == POLYCONV_TENSOR_OUTPUT ||
         t.which == POLYCONV_TENSOR_PRE_ACTIVATION;
}

// The images and filters in which what is read is not finite: a transform's tiles hold no other. Not those in which
// results are not: a clipped relu makes numbers of infinities.
class Reached {
 public:
  explicit Reached(const std::vector<Tensor> &tensors) {
    for (const Tensor &t : tensors)
      for (size_t i = 0; !t.written && i < t.values.size(); ++i)
        if (!std::isfinite(t.values[i])) note(t, static_cast<int64_t>(i));
  }
  // A gradient of weights sums over all images.
  bool operator()(const Tensor &t, int64_t i) const {
    if (!has_images(t)) return !images_.empty();
    int64_t index[5];
    indices_of(t.shape, i, index);
    return images_.count(index[0]) != 0 || filters_.count(index[1]) != 0;
  }

 private:
  void note(const Tensor &t, int64_t i) {
    int64_t index[5];
    indices_of(t.shape, i, index);
    if (has_images(t)) images_.insert(index[0]);
    if (t.which == POLYCONV_TENSOR_WEIGHTS) filters_.insert(index[0]);
  }

  std::set<int64_t> images_, filters_;
};

// How far outside its bound an element is: 0 where it equals, up to 1 inside, more outside. Where `spreads`, NaN and
// Inf may reach an element that does not depend on them and turn into each other, but none that depends on them may be
// finite.
double excess(double found, double expected, double bound, bool spreads) {
  if (bound == kUnknown) return 0;
  if (spreads && !std::isfinite(found)) return 0;
  if (spreads && !std::isfinite(expected)) return std::numeric_limits<double>::infinity();
  if (std::isnan(expected)) return std::isnan(found) ? 0 : std::numeric_limits<double>::infinity();
  if (found == expected) return 0;
  const double error = std::fabs(found - expected);
  if (!std::isfinite(error)) return std::numeric_limits<double>::infinity();
  return bound > 0 ? error / bound : std::numeric_limits<double>::infinity();
}

struct Totals {
  double squared_error = 0, squared_norm = 0;
  double worst = -1;
  int64_t wrong = 0, count = 0;
};

void note(const Tensor &t, int64_t i, double found, double bound, double how_far, Totals &totals, Result &result) {
  const double expected = t.values[static_cast<size_t>(i)];
  ++totals.count;
  if (how_far > 1) ++totals.wrong;
  if (std::isfinite(expected) && std::isfinite(found)) {
    const double error = found - expected;
    totals.squared_error += error * error;
    totals.squared_norm += expected * expected;
    result.max_abs_err = std::max(result.max_abs_err, std::fabs(error));
  }
  if (how_far <= totals.worst) return;
  totals.worst = how_far;
  result.worst.tensor = tensor_name(t.which);
  result.worst.got = found;
  result.worst.expected = expected;
  result.worst.bound = bound;
  indices_of(t.shape, i, result.worst.index);
}

std::string describe(const Worst &w, const Totals &totals) {
  char text[400];
  std::snprintf(text, sizeof text,
                "%s[%lld, %lld, %lld, %lld, %lld] is %.9g; expected %.9g within %.3g; %lld of %lld elements are wrong",
                w.tensor.c_str(), static_cast<long long>(w.index[0]), static_cast<long long>(w.index[1]),
                static_cast<long long>(w.index[2]), static_cast<long long>(w.index[3]),
                static_cast<long long>(w.index[4]), w.got, w.expected, w.bound, static_cast<long long>(totals.wrong),
                static_cast<long long>(totals.count));
  return text;
}

} // namespace

void compare(const std::vector<polyconv_problem> &problems, const Expected &expected, const std::vector<Tensor> &found,
             bool spreads, Result &result) {
  Totals totals;
  std::optional<Reached> reached;
  if (spreads) reached.emplace(found);
  for (const Tensor &t : expected.tensors) {
    const Values &values = find(found, t.which, t.layer)->values;
    const auto layer = static_cast<size_t>(t.layer);
    const Interval &window = expected.windows[layer];
    if (spreads && t.which == POLYCONV_TENSOR_ARGMAX) continue; // of windows with NaN that the reference has not
    const bool any_maximum = t.which == POLYCONV_TENSOR_ARGMAX && !window.value.empty();
    for (size_t i = 0; i < values.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      const double bound = t.bound.empty() ? 0 : t.bound[i];
      double how_far = excess(values[i], t.values[i], bound, spreads && (*reached)(t, index));
      if (any_maximum && how_far > 0 && plausible_argmax(problems[layer], window, index, values[i])) how_far = 1;
      note(t, index, values[i], bound, how_far, totals, result);
    }
  }
  if (totals.squared_norm > 0) result.rel_l2_err = std::sqrt(totals.squared_error / totals.squared_norm);
  result.verdict = totals.wrong == 0 ? Verdict::Good : Verdict::Wrong;
  if (totals.wrong != 0) result.sentence = describe(result.worst, totals);
}

} // namespace polyconv::check
