// sizes.hpp - what a convolution's constants must fit.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_SIZES_HPP
#define POLYCONV_ORT_SIZES_HPP

#include "claim/recipe.hpp"

namespace polyconv_ort {

// Reads the geometry of a recipe whose weights are known. Returns why there is none, "" where there is: what
// the runtime refuses with a sentence of its own is left to it, and whoever folds constants counts on the rest.
std::string read_sizes(const Node &, Recipe &);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_SIZES_HPP
