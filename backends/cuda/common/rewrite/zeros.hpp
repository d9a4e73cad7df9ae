// zeros.hpp - gradients of data of which some inputs are read by no tap: zeros before the rest is written over them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/instance.hpp"

namespace polyconv::cuda {

// Whether zeros are all that the epilogue makes of sums of 0.
inline bool is_bare(const polyconv_layer &l) {
  return sdk::is_float(l.result.type) && bias_and_relu_at_most(l) && !l.epilogue.has_bias;
}

// And the whole result is one stretch of memory.
inline bool can_be_zeroed(const polyconv_layer &l) {
  const polyconv_tensor &t = l.result;
  int64_t last = 0;
  for (int axis = 0; axis < 5; ++axis) last += (t.size[axis] - 1) * t.stride[axis];
  return is_bare(l) && last + 1 == sdk::elements(t);
}

// Zeros in the whole result of a layer that can_be_zeroed.
inline void write_zeros(const polyconv_layer &l, void *result, cudaStream_t stream) {
  const int64_t size = sdk::type_bytes(l.result.type);
  check(cudaMemsetAsync(static_cast<char *>(result) + l.result.offset * size, 0,
                        static_cast<size_t>(sdk::elements(l.result) * size), stream),
        "writing zeros");
}

} // namespace polyconv::cuda
