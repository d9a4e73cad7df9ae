// steps.hpp - arithmetic beside a convolution that can be folded into its constant weights.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_STEPS_HPP
#define POLYCONV_ORT_STEPS_HPP

#include "claim/recipe.hpp"

namespace polyconv_ort {

// A normalisation, a product or a sum of `value`, which has so many axes and channels, with constants that are one
// number, or one a channel: adds it to `steps`. False where the node is none.
bool read_step(const Api &, const Node &, const Value &value, size_t axes, int64_t channels,
               std::vector<Recipe::Step> &steps);

// False where `operand` may have one channel, of which constants of one number a channel make several.
bool keeps_channels(const Api &, const Value &operand, const Recipe::Step &);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_STEPS_HPP
