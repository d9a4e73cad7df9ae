// regions.hpp - which layers and operators become one fused node.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_REGIONS_HPP
#define POLYCONV_ORT_REGIONS_HPP

#include "claim/recipe.hpp"

namespace polyconv_ort {

// Groups layers and operators that read each other's results, as far as no way leads out of a group and back into it,
// which would be a cycle. Layers whose weights or numbers change from run to run stay alone; operators that no layer is
// with are in no group. `nodes` are the graph's, in topological order.
std::vector<Together> regions(const std::vector<Node> &nodes, const std::vector<Recipe> &recipes,
                              const std::vector<Operator> &operators);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_REGIONS_HPP
