// rows.hpp - the rows of the type table as C++ types: storage of what is read, arithmetic of the sum.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::cuda {

template <class AT, class BT, class SumT>
struct Row {
  using A = AT;     // the activations that are read: input, or output for BACKWARD_DATA
  using B = BT;     // the weights; for BACKWARD_WEIGHTS the output's gradient
  using Sum = SumT; // uint32_t for s32 sums: they wrap modulo 2^32, and only unsigned overflow is defined
};

// Calls body(Row<...>{}) for a pair of float types; false where there is none. A gradient may be f32 beside f16 or bf16
// weights, where the forward layer's output is f32.
template <class Body>
bool dispatch_float(int32_t a, int32_t b, Body &&body) {
  const auto is = [&](int32_t first, int32_t second) { return a == first && b == second; };
  if (is(POLYCONV_F32, POLYCONV_F32)) return body(Row<float, float, float>{}), true;
  if (is(POLYCONV_F16, POLYCONV_F16)) return body(Row<__half, __half, float>{}), true;
  if (is(POLYCONV_BF16, POLYCONV_BF16)) return body(Row<__nv_bfloat16, __nv_bfloat16, float>{}), true;
  if (is(POLYCONV_F32, POLYCONV_F16)) return body(Row<float, __half, float>{}), true;
  if (is(POLYCONV_F32, POLYCONV_BF16)) return body(Row<float, __nv_bfloat16, float>{}), true;
  if (is(POLYCONV_F64, POLYCONV_F64)) return body(Row<double, double, double>{}), true;
  return false;
}

// Likewise for the gradient of weights, which reads two activations: either may be the f32 one.
template <class Body>
bool dispatch_gradients(int32_t a, int32_t b, Body &&body) {
  if (a == POLYCONV_F16 && b == POLYCONV_F32) return body(Row<__half, float, float>{}), true;
  if (a == POLYCONV_BF16 && b == POLYCONV_F32) return body(Row<__nv_bfloat16, float, float>{}), true;
  return dispatch_float(a, b, body);
}

// Likewise for every row of activations and weights.
template <class Body>
bool dispatch_row(int32_t a, int32_t b, Body &&body) {
  const auto is = [&](int32_t first, int32_t second) { return a == first && b == second; };
  if (is(POLYCONV_U8, POLYCONV_F32)) return body(Row<uint8_t, float, float>{}), true;
  if (is(POLYCONV_U16, POLYCONV_F32)) return body(Row<uint16_t, float, float>{}), true;
  if (is(POLYCONV_S8, POLYCONV_S8)) return body(Row<int8_t, int8_t, uint32_t>{}), true;
  if (is(POLYCONV_S8, POLYCONV_U8)) return body(Row<int8_t, uint8_t, uint32_t>{}), true;
  if (is(POLYCONV_U8, POLYCONV_S8)) return body(Row<uint8_t, int8_t, uint32_t>{}), true;
  if (is(POLYCONV_U8, POLYCONV_U8)) return body(Row<uint8_t, uint8_t, uint32_t>{}), true;
  return dispatch_float(a, b, body);
}

} // namespace polyconv::cuda
