// sizes.cpp - see sizes.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/sizes.hpp"

namespace polyconv_ort {

std::string read_sizes(const Node &node, Recipe &recipe) {
  const Shape weights = recipe.weights.shape();
  const std::string reason = polyconv_onnx::read_geometry(node, weights.ranked ? weights.sizes.size() : 0, recipe);
  if (!reason.empty()) return reason;
  const int64_t first = weights.sizes[0]; // -1 where it is not known
  if (first >= 0 && first % recipe.groups != 0) return "its channels are no multiple of its group";
  const std::vector<int64_t> told(weights.sizes.begin() + 2, weights.sizes.end());
  const std::vector<int64_t> kernel = node.attribute("kernel_shape", told);
  for (size_t i = 0; i < told.size(); ++i)
    if (kernel.size() != told.size() || (told[i] >= 0 && told[i] != kernel[i]))
      return "its kernel_shape is not that of its weights";
  return "";
}

} // namespace polyconv_ort
