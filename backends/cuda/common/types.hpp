// types.hpp - the C++ types of elements, by the names that the API has for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::cuda {

using f32 = float;
using f64 = double;
using f16 = __half;
using bf16 = __nv_bfloat16;

// What `make` gives for an element of `type`: f32, f16 or bf16.
template <class Make>
auto of_type(int32_t type, const Make &make) {
  return type == POLYCONV_F32 ? make(f32()) : type == POLYCONV_F16 ? make(f16()) : make(bf16());
}

// Likewise, of the types of 16 bits.
template <class Make>
auto of_half(int32_t type, const Make &make) {
  return type == POLYCONV_F16 ? make(f16()) : make(bf16());
}

} // namespace polyconv::cuda
