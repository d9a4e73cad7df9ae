// plan.hpp - the gradient of the bias: the sums of a tensor by channel, in parts of its lines whose number depends on
// the tensor alone. The parts' sums are double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/pass.hpp"

#include <polyconv/backend.h>

namespace polyconv::cpu {

struct BiasPlan {
  polyconv_tensor biased; // whose channels are summed
  int32_t wanted;
  int64_t splits;
};

// Sums every channel over one split of the lines, into totals.
POLYCONV_ISA_FUNCTION(void, bias_task, const BiasPlan &plan, const void *biased, int64_t split, double *totals)

} // namespace polyconv::cpu
