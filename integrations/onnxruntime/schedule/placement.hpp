// placement.hpp - where the tensors of a schedule lie in the memory of a run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_PLACEMENT_HPP
#define POLYCONV_ORT_PLACEMENT_HPP

#include "schedule/schedule.hpp"

namespace polyconv_ort {

// Sets the offsets of the tensors inside, and how much memory all take. Steps and tensors are whole otherwise.
void place_tensors(const Network &, Schedule &);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_PLACEMENT_HPP
