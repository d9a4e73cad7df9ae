// layer.cpp - constants folded once, problems by sizes, and packed weights by format.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/layer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <polyconv/sdk/half.hpp>

namespace polyconv_ort {
namespace {

constexpr size_t kMostFormats = 8; // packed copies of one layer's weights; beyond it the oldest way is to pack anew

int32_t byte_at(const View &view, int64_t i) {
  return view.type == kUint8 ? static_cast<const uint8_t *>(view.data)[i] : static_cast<const int8_t *>(view.data)[i];
}

float float_of(const View &view, const char *what) {
  if (!view.data || view.type != kFloat || view.elements() != 1)
    throw Error(kInvalidArgument, std::string("polyconv: ") + what + " is no single float");
  return *static_cast<const float *>(view.data);
}

int32_t zero_of(const View &view, const char *what) {
  if (!view.data) return 0;
  if ((view.type != kUint8 && view.type != kInt8) || view.elements() != 1)
    throw Error(kInvalidArgument, std::string("polyconv: ") + what + " is no single int8 or uint8");
  return byte_at(view, 0);
}

void store(int type, void *data, int64_t i, float value) {
  if (type == kFloat)
    static_cast<float *>(data)[i] = value;
  else
    static_cast<polyconv::sdk::f16 *>(data)[i] = polyconv::sdk::to_f16(value);
}

std::vector<char> bytes(const View &view) {
  const auto *begin = static_cast<const char *>(view.data);
  return {begin, begin + static_cast<size_t>(view.elements()) * size_of(view.type)};
}

// A float in a key, exactly.
std::string bits(float value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

} // namespace

int32_t type_of(int type) {
  switch (type) {
    case kFloat: return POLYCONV_F32;
    case kHalf: return POLYCONV_F16;
    case kUint8: return POLYCONV_U8;
    case kInt8: return POLYCONV_S8;
    default: return POLYCONV_S32;
  }
}

std::string Layer::Numbers::key() const {
  return std::to_string(input_zero) + "," + std::to_string(weights_zero) + "," + std::to_string(zeros_differ) + "," +
         std::to_string(output_zero) + "," + bits(output_scale) + ";";
}

Layer::Layer(const Api &api, const Place &place, const Recipe &recipe, const Inputs &inputs, std::string name)
    : api_(api), place_(place), recipe_(recipe), name_(std::move(name)) {
  recipe_.nodes.clear(), recipe_.before.clear(), recipe_.steps.clear();
  auto operand = [&](Value Recipe::*value) { return Operand(api, recipe.*value, inputs); };
  weights_ = operand(&Recipe::weights), bias_ = operand(&Recipe::bias);
  input_scale_ = operand(&Recipe::input_scale), input_zero_ = operand(&Recipe::input_zero);
  weights_scale_ = operand(&Recipe::weights_scale), weights_zero_ = operand(&Recipe::weights_zero);
  output_scale_ = operand(&Recipe::output_scale), output_zero_ = operand(&Recipe::output_zero);
  has_residual_ = static_cast<bool>(recipe.residual);
  output_type_ = recipe.kind == Kind::kFloats ? recipe.weights.shape().type
                 : recipe.kind == Kind::kSums ? kInt32
                                              : recipe.output.shape().type;
  auto steps = [&](const std::vector<Recipe::Step> &read) {
    std::vector<Step> result;
    for (const Recipe::Step &step : read) {
      result.push_back({step.kind, {}, step.epsilon});
      for (const Value &constant : step.constants) result.back().constants.emplace_back(api, constant, inputs);
    }
    return result;
  };
  before_ = steps(recipe.before), steps_ = steps(recipe.steps);
  if (!before_.empty() || !steps_.empty()) fold();
  const View bias = bias_.constant() ? bias_.view(api, nullptr) : View();
  if (bias.type == kHalf && folded_bias_.empty())
    for (int64_t k = 0; k < bias.elements(); ++k) folded_bias_.push_back(float_at(kHalf, bias.data, k));
  if (!folded_bias_.empty()) {
    fixed_bias_ = place.constant(bytes_of(folded_bias_));
  } else if (bias.data) {
    fixed_bias_ = place.constant(bytes(bias));
  }
}

bool Layer::has_fixed_weights() const {
  return weights_.constant() && (!weights_zero_.exists() || weights_zero_.constant());
}

bool Layer::is_fixed() const {
  for (const Operand *operand : {&input_scale_, &input_zero_, &weights_scale_, &output_scale_, &output_zero_})
    if (operand->exists() && !operand->constant()) return false;
  return has_fixed_weights();
}

View Layer::weights(const OrtKernelContext *context) const {
  View view = weights_.view(api_, context);
  if (!folded_weights_.empty()) view.data = folded_weights_.data();
  return view;
}

std::vector<Layer::Line> Layer::lines(const std::vector<Step> &steps, int64_t channels) const {
  std::vector<Line> lines(static_cast<size_t>(channels));
  for (const Step &step : steps) {
    std::vector<View> views;
    for (const Operand &operand : step.constants) {
      views.push_back(operand.view(api_, nullptr));
      if (views.back().elements() != 1 && views.back().elements() != channels)
        throw Error(kInvalidArgument, "polyconv: a constant beside a convolution has " +
                                          std::to_string(views.back().elements()) + " elements, expected " +
                                          std::to_string(channels));
    }
    auto constant = [&](size_t which, int64_t channel) {
      const View &view = views[which];
      return static_cast<double>(float_at(view.type, view.data, view.elements() == 1 ? 0 : channel));
    };
    for (int64_t c = 0; c < channels; ++c) {
      Line &line = lines[static_cast<size_t>(c)];
      if (step.kind == Recipe::Step::Kind::kProduct) {
        line.scale *= constant(0, c), line.shift *= constant(0, c);
      } else if (step.kind == Recipe::Step::Kind::kSum) {
        line.shift += constant(0, c);
      } else {
        const double scale = constant(0, c) / std::sqrt(constant(3, c) + step.epsilon);
        line.scale *= scale, line.shift = (line.shift - constant(2, c)) * scale + constant(1, c);
      }
    }
  }
  return lines;
}

void Layer::require_bias(const View &bias, int64_t channels) {
  if (bias.elements() != channels)
    throw Error(kInvalidArgument, "polyconv: the bias has " + std::to_string(bias.elements()) + " elements, expected " +
                                      std::to_string(channels));
}

// With the input a·x + b and the result p·y + q, the weights w become p·w·a, and the bias p·(bias + Σ w·b) + q.
void Layer::fold() {
  const View weights = weights_.view(api_, nullptr), bias = bias_.view(api_, nullptr);
  const int64_t first = weights.sizes[0], second = weights.sizes[1];
  const int64_t channels = recipe_.transposed ? second * recipe_.groups : first;
  const int64_t filters_a_group = channels / std::max<int64_t>(1, recipe_.groups);
  const int64_t taps = weights.elements() / std::max<int64_t>(1, first * second);
  const std::vector<Line> after = lines(steps_, channels);
  const std::vector<Line> before = lines(before_, recipe_.transposed ? first : second * recipe_.groups);
  std::vector<double> shifts(static_cast<size_t>(channels), 0.0);
  if (bias.data) {
    require_bias(bias, channels);
    for (int64_t k = 0; k < channels; ++k) shifts[k] = float_at(bias.type, bias.data, k);
  }
  folded_weights_.resize(static_cast<size_t>(weights.elements()) * size_of(weights.type));
  for (int64_t i = 0; i < first; ++i)
    for (int64_t j = 0; j < second; ++j) {
      const int64_t k = recipe_.transposed ? i / (first / recipe_.groups) * second + j : i;
      const int64_t c = recipe_.transposed ? i : i / filters_a_group * second + j;
      for (int64_t t = (i * second + j) * taps; t < (i * second + j + 1) * taps; ++t) {
        const double raw = float_at(weights.type, weights.data, t);
        store(weights.type, folded_weights_.data(), t, static_cast<float>(after[k].scale * raw * before[c].scale));
        shifts[k] += raw * before[c].shift;
      }
    }
  for (int64_t k = 0; k < channels; ++k)
    folded_bias_.push_back(static_cast<float>(shifts[k] * after[k].scale + after[k].shift));
}

// An operand where the host can read it; `fetched` holds it where it had to be brought there.
View Layer::read(const Operand &operand, const OrtKernelContext *context, std::vector<char> &fetched) const {
  View view = operand.view(api_, context);
  if (place_.on_host() || operand.constant() || !view.data) return view;
  fetched.resize(static_cast<size_t>(view.elements()) * size_of(view.type));
  if (!fetched.empty()) place_.fetch(context, view.data, fetched.data(), fetched.size());
  view.data = fetched.data();
  return view;
}

Layer::Numbers Layer::numbers(const OrtKernelContext *context) const {
  Numbers numbers;
  if (recipe_.kind == Kind::kFloats) return numbers;
  std::vector<char> fetched[6];
  numbers.input_zero = zero_of(read(input_zero_, context, fetched[0]), "the input's zero point");
  const View zeros = read(weights_zero_, context, fetched[1]);
  const View weights = weights_.view(api_, context);
  const int64_t channels = weights.sizes.empty() ? 0 : weights.sizes[0];
  const auto *each = static_cast<const char *>(zeros.data);
  for (int64_t k = 1; zeros.data && k < zeros.elements(); ++k) numbers.zeros_differ |= each[k] != each[0];
  if (numbers.zeros_differ && zeros.elements() != channels)
    throw Error(kInvalidArgument, "polyconv: the weights' zero points are " + std::to_string(zeros.elements()) +
                                      ", expected one or " + std::to_string(channels));
  if (numbers.zeros_differ) numbers.weights_zeros = place_.constant({each, each + channels});
  if (zeros.data && !numbers.zeros_differ && zeros.elements() > 0) numbers.weights_zero = byte_at(zeros, 0);
  if (recipe_.kind == Kind::kSums) return numbers;
  const float input_scale = float_of(read(input_scale_, context, fetched[2]), "the input's scale");
  numbers.output_scale = float_of(read(output_scale_, context, fetched[3]), "the output's scale");
  numbers.output_zero = zero_of(read(output_zero_, context, fetched[4]), "the output's zero point");
  const View scales = read(weights_scale_, context, fetched[5]);
  if (!scales.data || scales.type != kFloat || (scales.elements() != 1 && scales.elements() != channels))
    throw Error(kInvalidArgument, "polyconv: the weights' scales are not one float or one a channel");
  std::vector<float> products;
  for (int64_t k = 0; k < channels; ++k)
    products.push_back(input_scale * float_at(kFloat, scales.data, scales.elements() == 1 ? 0 : k));
  numbers.scales = place_.constant(bytes_of(products));
  return numbers;
}

polyconv::Problem Layer::problem(int input_type, const std::vector<int64_t> &input, const View &weights,
                                 const Numbers &numbers) const {
  polyconv::Problem problem = polyconv_onnx::convolution(recipe_, input, weights.sizes);
  problem.input_type = type_of(input_type), problem.weights_type = type_of(weights.type),
  problem.output_type = type_of(output_type_);
  polyconv_epilogue &epilogue = problem.epilogue;
  epilogue.has_bias = bias_.exists() || !folded_bias_.empty();
  if (bias_.constant()) require_bias(bias_.view(api_, nullptr), problem.out_channels);
  if (recipe_.kind == Kind::kFloats) {
    if (has_residual_) epilogue.residual_from = POLYCONV_RESIDUAL_BUFFER;
    epilogue.activation = recipe_.activation, epilogue.activation_alpha = recipe_.alpha;
    polyconv_onnx::add_pool(recipe_.pool, problem);
    return problem;
  }
  problem.input_zero_point = numbers.input_zero;
  problem.has_weights_zero_points = numbers.zeros_differ;
  problem.weights_zero_point = numbers.zeros_differ ? 0 : numbers.weights_zero;
  if (recipe_.kind == Kind::kQuantised) {
    epilogue.has_scale = 1;
    epilogue.out_scale = numbers.output_scale, epilogue.out_zero_point = numbers.output_zero;
  }
  return problem;
}

std::shared_ptr<polyconv::Weights> Layer::packed(const polyconv::Plan &plan, int32_t index,
                                                 const polyconv::Problem &problem, const View &weights, void *stream) {
  const std::string format = plan.weights_format(index);
  if (format == "raw") return nullptr;
  if (!has_fixed_weights()) return std::make_shared<polyconv::Weights>(plan, index, raw(weights), nullptr, stream);
  // Packed weights serve every plan of the same format and weight problem; what shapes change of it is which axes have
  // one output.
  std::string key = format + "/" + std::to_string(problem.input_zero_point);
  const std::vector<int64_t> output = polyconv_onnx::output_sizes(problem);
  for (int32_t i = 0; i < problem.spatial_dims; ++i)
    key += problem.input_size[i] == 1 || output[i + 2] == 1 ? "1" : "n";
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<polyconv::Weights> &entry = packed_[key];
  if (!entry) {
    const std::shared_ptr<const void> there = place_.on_host()
                                                  ? std::shared_ptr<const void>(weights.data, [](const void *) {})
                                                  : place_.constant(bytes(weights));
    entry = std::make_shared<polyconv::Weights>(plan, index, there.get());
    place_.wait(nullptr);
  }
  std::shared_ptr<polyconv::Weights> result = entry;
  if (packed_.size() > kMostFormats) packed_.clear();
  return result;
}

// Constant weights are there once for all plans that take them raw.
const void *Layer::raw(const View &weights) {
  if (place_.on_host() || !weights_.constant()) return weights.data;
  std::lock_guard<std::mutex> lock(mutex_);
  if (!raw_) raw_ = place_.constant(bytes(weights));
  return raw_.get();
}

void Layer::fill(const OrtKernelContext *context, const polyconv::Problem &problem, const View &weights,
                 const Numbers &numbers, bool is_packed, int32_t index, polyconv::Buffers &buffers) {
  if (!is_packed) buffers.weights[index] = const_cast<void *>(raw(weights));
  if (fixed_bias_) {
    buffers.bias[index] = const_cast<void *>(fixed_bias_.get());
  } else if (bias_.exists()) {
    const View bias = bias_.view(api_, context);
    require_bias(bias, problem.out_channels);
    buffers.bias[index] = const_cast<void *>(bias.data);
  }
  buffers.scale[index] = numbers.scales.get(), buffers.weights_zero_point[index] = numbers.weights_zeros.get();
}

} // namespace polyconv_ort
