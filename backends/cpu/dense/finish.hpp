// finish.hpp - what becomes of a tile's sums beside the tile: bias, residual and limits; results along W, whose tiles
// are transposed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/finish.hpp"
#include "cpu/common/transpose.hpp"
#include "cpu/dense/plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// What a tile that becomes results in registers does to its sums: adds a bias and a residual, neither where they are
// NULL, and cuts off what is below 0 or above a limit, or is the hard swish.
struct DenseFinish {
  const float *bias, *residual;  // of the tile's first channel and pixel
  const float *lowest, *highest; // NULL: no limit
  bool hard_swish;
};

inline constexpr float kZero = 0;

POLYCONV_INLINE DenseFinish finish_of(const Epilogue &e, const Row &row) {
  const int32_t activation = e.rules.activation;
  return {e.bias ? static_cast<const float *>(e.bias) + row.k : nullptr,
          e.residual ? static_cast<const float *>(e.residual) + row_offset(e.residual_tensor, row) : nullptr,
          activation == POLYCONV_ACT_RELU || activation == POLYCONV_ACT_CLIPPED_RELU ? &kZero : nullptr,
          activation == POLYCONV_ACT_CLIPPED_RELU ? &e.rules.activation_alpha : nullptr,
          activation == POLYCONV_ACT_HARD_SWISH};
}

POLYCONV_INLINE F32 cut(F32 v, const DenseFinish &finish) {
  if (finish.lowest) v = v < splat(*finish.lowest) ? splat(*finish.lowest) : v; // NaN stays
  if (finish.highest) v = v > splat(*finish.highest) ? splat(*finish.highest) : v;
  if (finish.hard_swish) v = activate(v, POLYCONV_ACT_HARD_SWISH, F32{});
  return v;
}

// Stores m pixels of `channels` channels along W: at most a bias, a residual, and relu, clipped perhaps.
POLYCONV_INLINE void store_turned(const Epilogue &e, const float *sums, int64_t stride, int64_t m, int64_t channels,
                                  const Row &row) {
  const DenseFinish finish = finish_of(e, row);
  float *result = static_cast<float *>(e.output) + row_offset(e.result, row);
  for (int64_t c = 0; c < channels; c += kF32Lanes) {
    const int64_t rest = channels - c < kF32Lanes ? channels - c : kF32Lanes;
    F32 square[kF32Lanes];
    for (int64_t i = 0; i < m; i += kF32Lanes) {
      const int pixels = m - i < kF32Lanes ? static_cast<int>(m - i) : kF32Lanes;
#pragma GCC unroll 16
      for (int lane = 0; lane < kF32Lanes; ++lane)
        square[lane] = lane < pixels ? load(sums + (i + lane) * stride + c) : F32{};
      transpose<float>(square);
#pragma GCC unroll 16
      for (int lane = 0; lane < kF32Lanes; ++lane) {
        if (lane >= rest) break;
        F32 v = square[lane];
        if (finish.bias) v += splat(finish.bias[c + lane]);
        if (finish.residual) v += load_partial(finish.residual + (c + lane) * e.residual_tensor.stride[1] + i, pixels);
        store_partial(result + (c + lane) * e.result.stride[1] + i, cut(v, finish), pixels);
      }
    }
  }
}

// Fetches the lines that store_turned writes, which no core foresees: where each row of a tile ends, as it begins where
// the tile before ended.
POLYCONV_INLINE void fetch_turned(const Epilogue &e, int64_t m, int64_t channels, const Row &row) {
  const float *end = static_cast<const float *>(e.output) + row_offset(e.result, row) + m - 1;
  for (int64_t c = 0; c < channels; ++c, end += e.result.stride[1]) __builtin_prefetch(end, 1);
}

} // namespace polyconv::cpu::POLYCONV_ISA
