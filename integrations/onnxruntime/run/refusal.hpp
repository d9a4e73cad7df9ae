// refusal.hpp - what no kernel takes, asked before a layer is claimed: a GPU's kernels have limits that no fallback
// makes up for, and so has the host where options keep the fallback out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_REFUSAL_HPP
#define POLYCONV_ORT_REFUSAL_HPP

#include <string>

#include "run/place.hpp"

namespace polyconv_ort {

// Why no kernel takes such a layer there, in polyconv's words; "" where one does.
std::string refusal_of(const Recipe &, const Place &);

// Throws Error where the options leave no kernel at all.
void require_kernels(const Place &);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_REFUSAL_HPP
