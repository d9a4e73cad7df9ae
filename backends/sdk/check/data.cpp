// data.cpp - see data.hpp. Each tensor's numbers come from a distribution that suits the problem: exact data keep all
// sums inside 24 bits, random data spread the results over the output type instead of saturating it.
// SPDX-License-Identifier: Apache-2.0
#include "data.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace polyconv::check {
namespace {

// Counter-based random numbers (splitmix64's finaliser): element i never depends on element i - 1.
class Random {
 public:
  Random(uint64_t seed, const Tensor &t)
      : base_(seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(t.which * 64 + t.layer) * 0xd1b54a32d192ed03u) {}

  uint64_t bits(int64_t i) const {
    uint64_t x = base_ + static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  double uniform(int64_t i) const { return static_cast<double>(bits(i) >> 11) * 0x1p-53; } // [0, 1)

 private:
  uint64_t base_;
};

struct Distribution {
  double low, high;   // the interval, both ends included where whole
  bool whole;         // integers only
  double density = 1; // the share of elements that are not 0
};

// What one layer's data are drawn from.
class Distributions {
 public:
  Distributions(const polyconv_problem &problem, Mode mode, size_t layers)
      : p_(problem), row_(row_of(problem)), exact_(mode == Mode::Exact), layers_(layers), k_(products(problem)) {}

  Distribution of(const Tensor &t) const {
    if (row_ == Row::Quantised) return quantised(t);
    return exact_ ? small_integers(t) : spread(t);
  }

 private:
  // Sums of |x||w| must stay below 2^24: smaller factors first, then zeros among the data.
  Distribution small_integers(const Tensor &t) const {
    const bool chain = layers_ > 1;
    double x = chain ? 2 : 8, w = chain ? 1 : 8;
    const double share = layers_ > 2 ? std::min(1.0, 24 / k_) : 1; // of weights: what is summed again must stay small
    if (chain && (p_.output_type == POLYCONV_F16 || p_.output_type == POLYCONV_BF16))
      x = std::max(x, std::floor(reach_that_rounds(share)));
    x = std::max(x, std::fabs(p_.pad_value));
    while (k_ * x * w > 0x1p23 && x * w > 1) (x > w ? x : w) = std::floor((x > w ? x : w) / 2);
    const double density = std::min(1.0, 0x1p22 / (k_ * x * w));
    const bool image = row_ == Row::Image;
    switch (t.which) {
      case POLYCONV_TENSOR_INPUT:
      case POLYCONV_TENSOR_OUTPUT: return {image ? 0.0 : -x, x, true, density}; // output: a gradient that is read
      case POLYCONV_TENSOR_WEIGHTS: return {image ? -std::min(w, 2.0) : -w, image ? std::min(w, 2.0) : w, true, share};
      case POLYCONV_TENSOR_BIAS: return {image ? 0.0 : -8.0, is_integer(p_.output_type) ? 100.0 : 8.0, true, 1};
      default: return {is_integer(t.shape.type) ? 0.0 : -8.0, 8, true, 1};
    }
  }

  // How large what a chain reads must be, so that 16 bits between its layers have to round: about 2^12 in front of the
  // last layer, where each layer before makes numbers four times as large.
  double reach_that_rounds(double share) const {
    const double goal = std::ldexp(1, 12 - 2 * static_cast<int>(layers_ - 2));
    const double integers = p_.input_type == POLYCONV_F16 ? 0x1p11 : 0x1p8; // all below are representable
    return std::min(integers, 2 * goal / std::sqrt(k_ * share));
  }

  Distribution spread(const Tensor &t) const {
    const double range = is_integer(t.shape.type) ? highest(t.shape.type) : 1;
    switch (t.which) {
      case POLYCONV_TENSOR_INPUT:
      case POLYCONV_TENSOR_OUTPUT: return {row_ == Row::Image ? 0.0 : -1.0, range, is_integer(t.shape.type)};
      case POLYCONV_TENSOR_WEIGHTS: {
        double w = layers_ > 1 ? std::sqrt(3 / k_) : 1;
        if (row_ == Row::Image) w = output_spread() / (highest(p_.input_type) * std::sqrt(k_));
        return {-w, w, false};
      }
      case POLYCONV_TENSOR_SCALE: return {0.5, 1.5, false};
      case POLYCONV_TENSOR_BIAS:
        if (row_ == Row::Image) return {0, output_spread() / 2, false};
        return {-1, 1, false};
      default: return {row_ == Row::Image ? 0.0 : -1.0, range, is_integer(t.shape.type)};
    }
  }

  // How far results before out_scale should reach.
  double output_spread() const {
    const double range = is_integer(p_.output_type) ? std::min(highest(p_.output_type), 0x1p20) : 1;
    return range * static_cast<double>(p_.epilogue.out_scale);
  }

  Distribution quantised(const Tensor &t) const {
    const double root = std::sqrt(k_);
    const double zero = p_.input_zero_point, weights_zero = p_.weights_zero_point;
    const bool eight_bits = is_integer(p_.output_type) && p_.output_type != POLYCONV_S32;
    // Without a scale, 8 bits would saturate almost everywhere: then data stay near their zero points.
    const bool near = exact_ || (eight_bits && !p_.epilogue.has_scale);
    const double x = exact_ ? 2 : std::max(1.0, output_spread() / (2 * root));
    switch (t.which) {
      case POLYCONV_TENSOR_INPUT: return whole_in(t.shape.type, near ? zero - x : -1e9, near ? zero + x : 1e9);
      case POLYCONV_TENSOR_WEIGHTS:
        return whole_in(t.shape.type, near ? weights_zero - 1 : -1e9, near ? weights_zero + 1 : 1e9);
      case POLYCONV_TENSOR_WEIGHTS_ZERO_POINT: return whole_in(t.shape.type, exact_ ? -2 : -1e9, exact_ ? 2 : 1e9);
      case POLYCONV_TENSOR_SCALE: {
        const double centre = std::min(output_spread(), 1e4) / (near ? 2 * x * root : root * 74 * 74) / 2;
        return {centre / 2, centre * 2, false};
      }
      case POLYCONV_TENSOR_BIAS: {
        const double reach = std::ceil(near ? x * root : 74 * 74 * root);
        return {-reach, reach, true};
      }
      default: return is_integer(t.shape.type) ? whole_in(t.shape.type, -1e5, 1e5) : Distribution{-1, 1, false};
    }
  }

  static Distribution whole_in(int32_t type, double low, double high) {
    return {std::max(lowest(type), std::ceil(low)), std::min(highest(type), std::floor(high)), true};
  }

  const polyconv_problem &p_;
  const Row row_;
  const bool exact_;
  const size_t layers_; // of the chain
  const double k_;
};

void draw(Tensor &t, const Distribution &d, const Random &random) {
  t.values.resize(static_cast<size_t>(element_count(t.shape)));
  for (size_t i = 0; i < t.values.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    double v = d.low + random.uniform(index) * (d.high - d.low);
    if (d.whole) v = d.low + std::floor(random.uniform(index) * (d.high - d.low + 1));
    if (d.density < 1 && random.uniform(~index) >= d.density) v = 0;
    t.values[i] = stored_as(t.shape.type, v);
  }
}

// One filter for all channels has one value for all channels.
void repeat_first_filter(Tensor &weights) {
  if (weights.shape.stride[0] != 0 || weights.shape.size[0] == 0) return;
  const size_t filter = weights.values.size() / static_cast<size_t>(weights.shape.size[0]);
  for (size_t i = filter; i < weights.values.size(); ++i) weights.values[i] = weights.values[i % filter];
}

// What a problem declares separable is: each filter becomes the outer product of its first lines along the axes, those
// after the first axis as signs, so that integers stay as small as they were drawn.
void make_separable(Tensor &weights, bool whole) {
  const int64_t filter = weights.shape.size[2] * weights.shape.size[3] * weights.shape.size[4];
  const Values drawn = weights.values;
  const auto drawn_at = [&](int64_t first, int64_t d, int64_t h, int64_t w) {
    const polyconv_tensor &t = weights.shape;
    return drawn[static_cast<size_t>(first + (d * t.size[3] + h) * t.size[4] + w)];
  };
  for (size_t i = 0; i < weights.values.size(); ++i) {
    int64_t index[5];
    indices_of(weights.shape, static_cast<int64_t>(i), index);
    const int64_t first = static_cast<int64_t>(i) / filter * filter;
    const double along = index[4] == 0 ? 1 : drawn_at(first, 0, 0, index[4]);
    const double between = index[2] == 0 ? 1 : drawn_at(first, index[2], 0, 0) < 0 ? -1 : 1;
    const double factor = whole ? (along < 0 ? -1 : 1) : along;
    weights.values[i] = stored_as(weights.shape.type, drawn_at(first, 0, index[3], 0) * factor * between);
  }
}

// A NaN a third of the way in and an Inf two thirds, in the data that a run reads.
void make_non_finite(Values &values) {
  if (values.empty()) return;
  values[values.size() / 3] = std::numeric_limits<double>::quiet_NaN();
  if (values.size() > 2) values[values.size() * 2 / 3] = std::numeric_limits<double>::infinity();
}

// Elements of a tensor that overlaps itself have one value where they have one place: the last that is written there.
void share_places(Tensor &t) {
  if (t.which != POLYCONV_TENSOR_INPUT && t.which != POLYCONV_TENSOR_OUTPUT) return;
  Values memory(static_cast<size_t>(t.bytes) / polyconv_type_size(t.shape.type));
  for_elements(t.shape,
               [&](int64_t i, int64_t at) { memory[static_cast<size_t>(at)] = t.values[static_cast<size_t>(i)]; });
  for_elements(t.shape,
               [&](int64_t i, int64_t at) { t.values[static_cast<size_t>(i)] = memory[static_cast<size_t>(at)]; });
}

// Whether 0 is multiplied that stands for nothing: there 0 x Inf may be a NaN or left out.
bool reads_padding(const polyconv_problem &p) {
  const auto any = [](const int64_t *pad) {
    return std::any_of(pad, pad + POLYCONV_MAX_SPATIAL, [](int64_t n) { return n != 0; });
  };
  return p.direction != POLYCONV_FORWARD || p.transposed != 0 || any(p.pad_begin) || any(p.pad_end);
}

// An Inf as the last weight of the last filter, which the results of the others must not see.
void make_filter_infinite(const polyconv_problem &last, Tensor &weights) {
  const bool one_for_all = weights.shape.stride[0] == 0;
  if (reads_padding(last) || one_for_all || last.separable != 0 || last.out_channels < 2) return;
  weights.values.back() = std::numeric_limits<double>::infinity();
}

} // namespace

std::vector<Tensor> make_data(const std::vector<polyconv_problem> &problems, int32_t save, Mode mode, uint64_t seed) {
  std::vector<Tensor> tensors = tensors_of(problems, save);
  for (Tensor &t : tensors) {
    if (t.written) continue;
    const Distributions distributions(problems[static_cast<size_t>(t.layer)], mode, problems.size());
    const polyconv_problem &problem = problems[static_cast<size_t>(t.layer)];
    const Distribution distribution = distributions.of(t);
    draw(t, distribution, Random(seed, t));
    if (t.which != POLYCONV_TENSOR_WEIGHTS) continue;
    repeat_first_filter(t);
    if (problem.separable != 0) make_separable(t, distribution.whole);
  }
  if (mode == Mode::NonFinite) {
    // In what is read; of a gradient of weights in what is padded, as 0 times what is not finite may be left out or
    // not.
    const polyconv_problem &first = problems[0];
    const bool from_output = first.direction == POLYCONV_BACKWARD_DATA ||
                             (first.direction == POLYCONV_BACKWARD_WEIGHTS && first.transposed != 0);
    make_non_finite(find(tensors, from_output ? POLYCONV_TENSOR_OUTPUT : POLYCONV_TENSOR_INPUT,
                         from_output ? static_cast<int32_t>(problems.size()) - 1 : 0)
                        ->values);
    if (Tensor *weights = find(tensors, POLYCONV_TENSOR_WEIGHTS, static_cast<int32_t>(problems.size()) - 1))
      make_filter_infinite(problems.back(), *weights);
  }
  for (Tensor &t : tensors)
    if (!t.written) share_places(t);
  return tensors;
}

} // namespace polyconv::check
