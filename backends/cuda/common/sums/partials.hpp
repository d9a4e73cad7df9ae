// partials.hpp - where the partial sums of a product lie whose k is split over blocks: planes, one a split, of channels
// x pixels: rows of channels of `partials_row` pixels. partials.cuh adds them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/implicit.hpp"

namespace polyconv::cuda {

inline int64_t partials_row(const polyconv_layer &l) {
  return (l.output.size[0] * sdk::spatial(l.output) + 31) / 32 * 32; // rows begin at whole lines
}

// Bytes of workspace for the partial sums, what lets a product write them, and the kernel that adds them.
inline int64_t partials_bytes(const polyconv_layer &l, int splits) {
  return splits == 1 ? 0 : splits * partials_row(l) * l.output.size[1] * (l.sum_type == POLYCONV_F64 ? 8 : 4);
}

inline void set_split(const polyconv_layer &l, int splits, void *workspace, ImplicitGemm *product) {
  product->splits = splits;
  product->partials = workspace;
  product->partials_row = partials_row(l);
}

} // namespace polyconv::cuda
