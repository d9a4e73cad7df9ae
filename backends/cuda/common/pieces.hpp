// pieces.hpp - whether the channels of a tensor can be moved several at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

namespace polyconv::cuda {

// Whether channels lie side by side, in pieces of `many` elements that all begin at multiples of so many, were the
// pointer aligned to them. `channels`: of a group, which are whole pieces; 0 where that is no matter.
inline bool in_pieces(const polyconv_tensor &t, int64_t many, int64_t channels) {
  if (t.stride[1] != 1 || channels % many != 0 || t.offset % many != 0) return false;
  for (const int axis : {0, 2, 3, 4})
    if (t.size[axis] > 1 && t.stride[axis] % many != 0) return false;
  return true;
}

} // namespace polyconv::cuda
