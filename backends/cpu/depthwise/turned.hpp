// turned.hpp - one task of depthwise convolution with channels first by way of pixels: turns, filters, turns back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/transpose.hpp"
#include "cpu/depthwise/task.hpp"
#include "cpu/depthwise/turned_plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int64_t kTurnedRun = 64;    // pixels that are turned back at once
constexpr int64_t kTurnedAhead = 128; // pixels: how far ahead of itself each plane is fetched

// `count` neighbouring pixels of `channels` planes `stride` apart, into pixels `pixel` elements apart; channels beyond
// the last, up to whole vectors of any instruction set, are 0.
template <class From>
POLYCONV_NOINLINE void turn_in(const From *in, int64_t stride, int64_t count, int64_t channels, int64_t pixel,
                               float *out) {
  constexpr int kL = kF32Lanes;
  const Load<From, float> convert(0);
  const int64_t whole = (channels + kDepthwiseUnit - 1) / kDepthwiseUnit * kDepthwiseUnit;
  for (int64_t i = 0; i < count; i += kL) {
    const int pixels = count - i < kL ? static_cast<int>(count - i) : kL;
    for (int64_t c = 0; c < whole; c += kL) {
      F32 square[kL];
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane) {
        const From *p = in + (c + lane) * stride + i;
        if (c + lane >= channels) {
          square[lane] = F32{};
          continue;
        }
        __builtin_prefetch(p + kTurnedAhead);
        square[lane] = pixels == kL ? convert.full(p) : convert.partial(p, pixels);
      }
      transpose<float>(square);
      float *to = out + i * pixel + c;
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane, to += pixel) {
        if (lane >= pixels) break;
        store(to, square[lane]);
      }
    }
  }
}

// A square of results: pixels i to i + lanes of channels c to c + lanes, those beyond the last being 0.
POLYCONV_INLINE void turn_square(const float *in, int64_t pixel, int64_t count, F32 (&square)[kF32Lanes]) {
#pragma GCC unroll 16
  for (int lane = 0; lane < kF32Lanes; ++lane) square[lane] = lane < count ? load(in + lane * pixel) : F32{};
  transpose<float>(square);
}

// As turn_out, where results are f32 along W, with at most a bias and a quick activation: from registers.
POLYCONV_INLINE void turn_out_simply(const Epilogue &e, const float *in, int64_t pixel, int64_t count, int64_t channels,
                                     const Row &row) {
  constexpr int kL = kF32Lanes;
  float *const out = static_cast<float *>(e.output) + row_offset(e.result, row);
  const float *bias = e.bias ? static_cast<const float *>(e.bias) + row.k : nullptr;
  const F32 alpha = splat(e.rules.activation_alpha);
  const int32_t activation = e.rules.activation;
  for (int64_t i = 0; i < count; i += kL)
    for (int64_t c = 0; c < channels; c += kL) {
      const int pixels = count - i < kL ? static_cast<int>(count - i) : kL;
      F32 square[kL];
      turn_square(in + i * pixel + c, pixel, pixels, square);
      float *p = out + c * e.result.stride[1] + i;
#pragma GCC unroll 16
      for (int lane = 0; lane < kL; ++lane, p += e.result.stride[1]) {
        if (c + lane >= channels) break;
        F32 v = square[lane];
        if (bias) v += splat(bias[c + lane]);
        v = activate(v, activation, alpha);
        if (pixels == kL)
          store(p, v);
        else
          store_partial(p, v, pixels);
      }
    }
}

// Finishes `count` pixels in scratch as results along W, from `row` on.
POLYCONV_NOINLINE void turn_out(const Epilogue &e, const float *in, int64_t pixel, int64_t count, int64_t channels,
                                Row row) {
  constexpr int kL = kF32Lanes;
  if (e.simple && e.result.stride[4] == 1) return turn_out_simply(e, in, pixel, count, channels, row);
  alignas(64) float turned[kDepthwiseBlock * kTurnedRun];
  for (; count > 0; count -= kTurnedRun, in += kTurnedRun * pixel, row.w += kTurnedRun) {
    const int64_t pixels = count < kTurnedRun ? count : kTurnedRun;
    for (int64_t i = 0; i < pixels; i += kL)
      for (int64_t c = 0; c < channels; c += kL) {
        F32 square[kL];
        turn_square(in + i * pixel + c, pixel, pixels - i, square);
#pragma GCC unroll 16
        for (int lane = 0; lane < kL; ++lane) store(turned + (c + lane) * kTurnedRun + i, square[lane]);
      }
    finish_rows(e, turned, kTurnedRun, channels, pixels, row);
  }
}

// Source coordinates [begin, end) that results of an axis read, as padding is a value.
struct TurnedSpan {
  int64_t begin, end;
};
POLYCONV_INLINE TurnedSpan read_by(const Axis &axis) {
  const int64_t first = -axis.before, last = first + (axis.out - 1) * axis.step + (axis.taps - 1) * axis.dilation + 1;
  TurnedSpan span = {first > 0 ? first : 0, last < axis.in ? last : axis.in};
  if (span.begin > axis.in) span.begin = axis.in;
  if (span.end < span.begin) span.end = span.begin;
  return span;
}

// One strip of a unit of one image: results of the axes of `p`, which reads and writes scratch.
template <class From>
POLYCONV_INLINE void filter_strip(const TurnedPlan &t, const LayerRun &run, DepthwisePlan &p, const Row &at,
                                  char *scratch) {
  const TurnedSpan rows = read_by(p.axis[1]), columns = read_by(p.axis[2]);
  const int64_t height = rows.end - rows.begin, width = columns.end - columns.begin;
  const int64_t channels = t.channels - at.k < t.unit ? t.channels - at.k : t.unit, pixel = t.unit;
  const int64_t *stride = t.input.stride;
  float *source = reinterpret_cast<float *>(scratch + t.source_at);
  float *result = reinterpret_cast<float *>(scratch + t.result_at);
  const From *in = static_cast<const From *>(run.input) + t.input.offset + at.n * stride[0] + at.k * stride[1] +
                   rows.begin * stride[3] + columns.begin;
  const int64_t together = stride[3] == width ? height : 1; // rows without anything between them
  float *to = source;
  for (int64_t d = 0; d < p.axis[0].in; ++d)
    for (int64_t y = 0; y < height; y += together, to += together * width * pixel)
      turn_in(in + d * stride[2] + y * stride[3], stride[1], together * width, channels, pixel, to);

  p.channels = (channels + kDepthwiseUnit - 1) / kDepthwiseUnit * kDepthwiseUnit;
  p.input.offset = -(rows.begin * width + columns.begin) * pixel;
  p.input.stride[4] = pixel, p.input.stride[3] = width * pixel, p.input.stride[2] = height * width * pixel;
  polyconv_tensor &r = p.epilogue.result;
  const int64_t lines = p.axis[1].out, line = p.axis[2].out;
  r.offset = 0, r.stride[4] = pixel, r.stride[3] = line * pixel, r.stride[2] = lines * line * pixel;
  p.row_groups = (lines + p.tile_rows - 1) / p.tile_rows;
  p.items = p.axis[0].out * p.row_groups;
  LayerRun inner = {p.epilogue, source, static_cast<const float *>(run.weights) + at.k, 0};
  inner.epilogue.output = result;
  depthwise_share<DepthwiseFilter, float, float>(p, inner, {0, p.items, scratch});

  const Epilogue &e = run.epilogue;
  const int64_t joined = e.whole_images && line == e.result.size[4] ? lines : 1; // rows that are one run of results
  const float *from = result;
  for (int64_t d = 0; d < p.axis[0].out; ++d)
    for (int64_t h = 0; h < lines; h += joined, from += joined * line * pixel)
      turn_out(e, from, pixel, joined * line, channels, {at.n, at.k, d, at.h + h, 0, 4});
}

template <class From>
POLYCONV_NOINLINE void turned_share(const TurnedPlan &t, const LayerRun &run, const TurnedShare &share) {
  for (int64_t item = share.first; item < share.last; ++item) {
    const int64_t strip = item % share.strips, unit = item / share.strips;
    const int64_t first = strip * share.strip_rows, rest = share.rows.out - first;
    DepthwisePlan p = t.pixels;
    p.axis[1] = share.rows, p.axis[2] = share.columns;
    p.axis[1].before -= first * share.rows.step;
    p.axis[1].out = rest < share.strip_rows ? rest : share.strip_rows;
    filter_strip<From>(t, run, p, {unit / t.units, unit % t.units * t.unit, 0, first, 0, 4}, share.scratch);
  }
}

POLYCONV_INLINE void turned_typed(const TurnedPlan &t, const LayerRun &run, const TurnedShare &share) {
  switch (t.input.type) {
    case POLYCONV_F16: return turned_share<f16>(t, run, share);
    case POLYCONV_BF16: return turned_share<bf16>(t, run, share);
    case POLYCONV_U16: return turned_share<uint16_t>(t, run, share);
    case POLYCONV_U8: return turned_share<uint8_t>(t, run, share);
    default: return turned_share<float>(t, run, share);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
