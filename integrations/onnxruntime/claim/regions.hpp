// regions.hpp - which layers become one fused node.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_REGIONS_HPP
#define POLYCONV_ORT_REGIONS_HPP

#include "claim/recipe.hpp"

namespace polyconv_ort {

// Groups layers that read each other's results, as far as no way leads out of a group and back into it, which would be
// a cycle. Layers whose weights or numbers change from run to run stay alone. `nodes` are the graph's, in topological
// order; the result has indices of `recipes`.
std::vector<std::vector<size_t>> regions(const std::vector<Node> &nodes, const std::vector<Recipe> &recipes);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_REGIONS_HPP
