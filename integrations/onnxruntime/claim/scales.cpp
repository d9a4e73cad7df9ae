// scales.cpp - see scales.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/scales.hpp"

#include <algorithm>
#include <cmath>

namespace polyconv_ort {
namespace {

constexpr float kSame = 1e-5f; // of two scales, relatively: exporters round the product in their own ways

std::vector<float> floats(const Api &api, const Value &value) {
  const OrtValue *tensor = value.constant();
  const auto *data = static_cast<const float *>(data_of(api, tensor));
  return {data, data + elements_of(shape_of(api, tensor).sizes)};
}

bool is_zero(const Api &api, const Value &value) {
  const OrtValue *tensor = value.constant();
  if (!tensor) return false;
  const Shape shape = shape_of(api, tensor);
  if (shape.type != kInt32) return false;
  const auto *data = static_cast<const int32_t *>(data_of(api, tensor));
  return std::all_of(data, data + elements_of(shape.sizes), [](int32_t zero) { return zero == 0; });
}

} // namespace

bool are_scales(const Api &api, const Node &node, int64_t channels, int64_t axis) {
  const OrtValue *scale = node.input(1).constant(), *zero = node.input(2).constant();
  if (!scale || shape_of(api, scale).type != kFloat || (node.input(2) && !zero)) return false;
  const std::vector<int64_t> sizes = shape_of(api, scale).sizes;
  if (zero && elements_of(shape_of(api, zero).sizes) != elements_of(sizes)) return false;
  if (elements_of(sizes) == 1) return true;
  return channels > 0 && sizes == std::vector<int64_t>{channels} && node.attribute("axis", int64_t{1}) == axis;
}

bool is_bias_scale(const Api &api, const Node &bias, const Value &input_scale, const Value &weights_scale) {
  if (bias.input(2) && !is_zero(api, bias.input(2))) return false;
  const std::vector<float> ours = floats(api, bias.input(1)), weights = floats(api, weights_scale);
  const float input = floats(api, input_scale)[0];
  for (size_t k = 0; k < std::max(ours.size(), weights.size()); ++k) {
    const float expected = input * weights[weights.size() == 1 ? 0 : k], found = ours[ours.size() == 1 ? 0 : k];
    if (!(std::fabs(found - expected) <= kSame * std::fabs(expected))) return false;
  }
  return true;
}

} // namespace polyconv_ort
