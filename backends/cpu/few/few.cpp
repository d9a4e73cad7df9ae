// few.cpp - few filters over many channels that lie side by side: the last layers of networks that make images, masks
// or coordinates. Input channels along the vectors, all filters of several results in registers, lanes added up at the
// end. Forward; f32, f16, bf16, any kernel, stride, dilation, group and border.
//
// Floor: reading the input once for 1 x 1; else the multiply-adds at the FMA rate. Adding up the lanes of 16 sums costs
// some 30 cycles, as much as 60 multiply-adds, where output channels along the vectors would leave most lanes idle.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/finish.hpp"
#include "cpu/common/pixels.hpp"
#include "cpu/few/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// The pixels that a chunk of results from `at` on reads, in order of the taps of D and H.
template <class From>
POLYCONV_INLINE void list_lines(const FewPlan &p, const void *input, const Row &at, const From **list) {
  const Axis &depth = p.axis[0], &height = p.axis[1], &width = p.axis[2];
  const From *image = static_cast<const From *>(input) + p.input.offset + at.n * p.input.stride[0];
  for (int64_t i = 0; i < depth.taps; ++i)
    for (int64_t j = 0; j < height.taps; ++j, list += p.line_pixels) {
      const int64_t d = inside(depth, at.d * depth.step + i * depth.dilation - depth.before);
      const int64_t h = inside(height, at.h * height.step + j * height.dilation - height.before);
      const bool padding = d < 0 || h < 0;
      list_pixels(width, padding ? nullptr : image + d * p.input.stride[2] + h * p.input.stride[3], p.input.stride[4],
                  static_cast<const From *>(p.padding), at.w * width.step - width.before, p.line_pixels, list);
    }
}

// A bias for each lane of a tile's sums, which repeats from pixel to pixel.
template <int K>
POLYCONV_INLINE void repeat_bias(const Epilogue &e, float *bias, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i) bias[i] = e.bias ? static_cast<const float *>(e.bias)[i % K] : 0.0f;
}

// Columns [at.w, at.w + columns) of one group's results.
template <class From, int K>
POLYCONV_INLINE void few_columns(const FewPlan &p, const LayerRun &run, FewTile<From> tile, int64_t columns,
                                 const Row &at, const float *bias, float *sums) {
  constexpr int kP = kFewTile<K>, kVectors = (kP * K + kF32Lanes - 1) / kF32Lanes;
  const Epilogue &e = run.epilogue;
  const F32 alpha = splat(e.rules.activation_alpha);
  float *to = p.direct ? static_cast<float *>(e.output) + row_offset(e.result, at) : sums;
  for (int64_t x = 0; x < columns; x += kP, tile.pixels += kP * tile.step, to += kP * K) {
    F32 result[kVectors];
    few_tile<From, K>(tile, result);
    const int64_t left = (columns - x < kP ? columns - x : kP) * K;
#pragma GCC unroll 6
    for (int v = 0; v < kVectors; ++v) {
      const int64_t lanes = left - v * kF32Lanes;
      if (lanes <= 0) break;
      if (p.direct) result[v] = activate(result[v] + load(bias + v * kF32Lanes), e.rules.activation, alpha);
      if (lanes >= kF32Lanes)
        store(to + v * kF32Lanes, result[v]);
      else
        store_partial(to + v * kF32Lanes, result[v], static_cast<int>(lanes));
    }
  }
  if (!p.direct) finish_rows(e, sums, K, columns, K, at);
}

template <class From, int K>
POLYCONV_NOINLINE void few_share(const FewPlan &p, const LayerRun &run, const ItemShare &share) {
  constexpr int kLanesOfTile = kFewTile<K> * K + kF32Lanes;
  const Axis &width = p.axis[2];
  const From **list = reinterpret_cast<const From **>(share.scratch);
  float *sums = reinterpret_cast<float *>(share.scratch + p.sums_at), bias[kLanesOfTile];
  repeat_bias<K>(run.epilogue, bias, p.direct ? kLanesOfTile : 0);
  for (int64_t item = share.first; item < share.last; ++item) {
    const int64_t row = item / p.chunks, plane = row / p.axis[1].out;
    Row at = {plane / p.axis[0].out, 0, plane % p.axis[0].out, row % p.axis[1].out, item % p.chunks * kFewChunk, 1};
    const int64_t rest = width.out - at.w, columns = rest < kFewChunk ? rest : kFewChunk;
    list_lines(p, run.input, at, list);
    FewTile<From> tile = {list,       p.line_pixels, p.lines,
                          width.taps, width.step,    width.dilation,
                          0,          p.channels,    static_cast<const float *>(run.weights)};
    for (int64_t group = 0; group < p.groups; ++group, at.k += K) {
      few_columns<From, K>(p, run, tile, columns, at, bias, sums);
      tile.channel += p.channels, tile.weights += p.group_weights;
    }
  }
}

template <class From>
POLYCONV_INLINE void few_filters(const FewPlan &p, const LayerRun &run, const ItemShare &share) {
  with_size<kFewFilters>(p.filters, [&](auto k) { few_share<From, k.value>(p, run, share); });
}

void few_task(const FewPlan &plan, const LayerRun &run, const ItemShare &share) {
  switch (plan.input.type) {
    case POLYCONV_F32: return few_filters<float>(plan, run, share);
    case POLYCONV_F16: return few_filters<f16>(plan, run, share);
    case POLYCONV_BF16: return few_filters<bf16>(plan, run, share);
    default: return;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
