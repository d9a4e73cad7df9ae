// activations.hpp - the nodes behind a convolution that are its activation, in the forms in which exporters write it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_ACTIVATIONS_HPP
#define POLYCONV_ORT_ACTIVATIONS_HPP

#include "claim/neighbours.hpp"
#include "claim/recipe.hpp"

namespace polyconv_ort {

// Joins the activation of the recipe's output: one node; a gate, which is Sigmoid or HardSigmoid and the product of
// what goes in with what comes out; or HardSwish written out. False where there is none.
bool read_activation(const Neighbours &, Recipe &);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_ACTIVATIONS_HPP
