// overlap.hpp - do two tensors share an element? Exact where it can be decided at a glance; two views of one
// larger tensor (channel slices, say) interleave in memory and yet share nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

namespace polyconv {

// A tensor in memory, or plain bytes where `tensor` is NULL.
struct Extent {
  const char *begin;
  int64_t bytes;
  const polyconv_tensor *tensor;
};

// False where they certainly share nothing.
bool may_overlap(const Extent &a, const Extent &b);

} // namespace polyconv
