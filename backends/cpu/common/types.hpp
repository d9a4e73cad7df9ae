// types.hpp - from a source's type to that of the code: the rows of the type table that CPU kernels of every type take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include "cpu/common/simd.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

template <class FromT, class SumT>
struct TypeRow {
  using From = FromT; // in memory
  using Sum = SumT;
};

// body(TypeRow) for a source of `type`. u8 is a quantised activation, which sums integers, or an image's pixel.
template <class Body>
POLYCONV_INLINE void for_types(int32_t type, bool integers, const Body &body) {
  switch (type) {
    case POLYCONV_F64: return body(TypeRow<double, double>());
    case POLYCONV_F32: return body(TypeRow<float, float>());
    case POLYCONV_F16: return body(TypeRow<f16, float>());
    case POLYCONV_BF16: return body(TypeRow<bf16, float>());
    case POLYCONV_U16: return body(TypeRow<uint16_t, float>());
    case POLYCONV_S8: return body(TypeRow<int8_t, int32_t>());
    case POLYCONV_U8: return integers ? body(TypeRow<uint8_t, int32_t>()) : body(TypeRow<uint8_t, float>());
    default: return;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
