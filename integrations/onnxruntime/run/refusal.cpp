// refusal.cpp - plans a sample of the layer.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/refusal.hpp"

#include <algorithm>
#include <stdexcept>

#include "run/layer.hpp"

namespace polyconv_ort {
namespace {

// A layer as it may come, for the question whether any kernel takes it. Sizes that the model leaves open are large
// enough for its window; what else changes in runs is no matter.
polyconv::Problem sample_of(const Recipe &recipe) {
  constexpr int64_t kOpen = 64;
  const std::vector<int64_t> weights = recipe.weights.shape().sizes;
  std::vector<int64_t> input = recipe.input.shape().sizes;
  if (input.size() != weights.size()) input.assign(weights.size(), -1);
  if (input[0] < 0) input[0] = 1;
  if (input[1] < 0) input[1] = recipe.transposed ? weights[0] : weights[1] * recipe.groups;
  for (size_t i = 2; i < input.size(); ++i)
    if (input[i] < 0) input[i] = std::max(kOpen, 2 * recipe.dilations[i - 2] * weights[i]);
  for (int64_t size : weights)
    if (size < 0) throw std::invalid_argument("the weights are of unknown shape");
  polyconv::Problem problem = polyconv_onnx::convolution(recipe, input, weights);
  problem.input_type = type_of(recipe.input.shape().type), problem.weights_type = type_of(recipe.weights.shape().type);
  problem.output_type = recipe.kind == Kind::kSums     ? int32_t{POLYCONV_S32}
                        : recipe.kind == Kind::kFloats ? problem.input_type
                                                       : type_of(recipe.output.shape().type);
  problem.epilogue.has_scale = recipe.kind == Kind::kQuantised;
  problem.epilogue.has_bias = static_cast<bool>(recipe.bias);
  problem.epilogue.residual_from = recipe.residual ? POLYCONV_RESIDUAL_BUFFER : POLYCONV_RESIDUAL_NONE;
  problem.epilogue.activation = recipe.activation, problem.epilogue.activation_alpha = recipe.alpha;
  polyconv_onnx::add_pool(recipe.pool, problem);
  return problem;
}

} // namespace

std::string refusal_of(const Recipe &recipe, const Place &place) {
  try {
    const polyconv::Plan plan(sample_of(recipe), place.options(), place.device());
    return "";
  } catch (const polyconv::Error &error) { // whatever else is wrong is told in the run
    return error.status() == POLYCONV_UNSUPPORTED ? error.what() : "";
  } catch (const std::invalid_argument &) { // of geometry.hpp, likewise
    return "";
  }
}

void require_kernels(const Place &place) {
  try {
    const polyconv::Plan smallest(polyconv::Problem("fwd:c1,k1,i1x1,f1x1"), place.options(), place.device());
  } catch (const polyconv::Error &error) {
    if (error.status() == POLYCONV_UNAVAILABLE) throw Error(kInvalidArgument, std::string("polyconv: ") + error.what());
  }
}

} // namespace polyconv_ort
