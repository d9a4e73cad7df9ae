// types.hpp - the stored types of the tensors that gradients of weights are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/types.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// body(TypeRow) for one of the two tensors that a gradient of weights is made of, whose sums are T: input or gradient
// may be f32 where the other is a half.
template <class T, class Body>
POLYCONV_INLINE void for_gradient_type(int32_t type, const Body &body) {
  if constexpr (sizeof(T) == 8) {
    body(TypeRow<T, T>());
  } else {
    switch (type) {
      case POLYCONV_F16: return body(TypeRow<f16, T>());
      case POLYCONV_BF16: return body(TypeRow<bf16, T>());
      default: return body(TypeRow<float, T>());
    }
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
