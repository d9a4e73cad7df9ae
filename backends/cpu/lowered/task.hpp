// task.hpp - one task of the lowered kernel: strips of result rows of one image and group; each is lowered once, then
// every block of filters runs over it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/direct/rows.hpp"
#include "cpu/lowered/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

struct LoweredStrip {
  int64_t image, d, group, first_row, rows;
};

POLYCONV_INLINE LoweredStrip strip_of(const LoweredPlan &p, int64_t item) {
  const int64_t first = item % p.strips * p.strip_rows, rest = p.height - first, plane = item / p.strips;
  return {plane / p.groups / p.depth, plane / p.groups % p.depth, plane % p.groups, first,
          rest < p.strip_rows ? rest : p.strip_rows};
}

// The first channel that a strip reads.
template <class From>
POLYCONV_INLINE const From *source_of(const LoweredPlan &p, const void *input, const LoweredStrip &strip) {
  const polyconv_tensor &t = p.rows.source;
  return static_cast<const From *>(input) + t.offset + strip.image * t.stride[0] +
         strip.group * p.channels * t.stride[1] + strip.d * t.stride[2];
}

// The input of the strip that comes next, brought into the cache a few rows at a time while this one's tiles compute.
template <class From>
struct LoweredAhead {
  const LoweredPlan &plan;
  const From *source;
  int64_t first_row, row, channel = 0; // of the input; the next one to fetch

  POLYCONV_MEMBER LoweredAhead(const LoweredPlan &p, const void *input, const LoweredStrip &strip)
      : plan(p), source(source_of<From>(p, input, strip)) {
    const Axis &axis = p.rows.axis[1];
    first_row = row = strip.first_row * axis.step - axis.before;
  }

  POLYCONV_MEMBER void fetch() {
    constexpr int64_t kStep = 64 / static_cast<int64_t>(sizeof(From));
    const polyconv_tensor &t = plan.rows.source;
    for (int64_t i = 0; i < plan.rows_ahead && channel < plan.channels; ++i) {
      const From *p = source + channel * t.stride[1] + row * t.stride[3];
      for (int64_t x = 0; row >= 0 && row < t.size[3] && x < t.size[4]; x += kStep) __builtin_prefetch(p + x, 0, 2);
      if (++row == first_row + plan.source_rows) row = first_row, ++channel;
    }
  }
};

// Copies a row of n results' width; may write a vector beyond it, which the next row or the plane's slack takes.
POLYCONV_INLINE void shift_row(const float *from, int64_t n, float *to) {
  constexpr int kL = kF32Lanes;
  int64_t i = 0;
  for (; i + kL <= n; i += kL) store(to + i, load(from + i));
  if (i < n) store(to + i, load_partial(from + i, static_cast<int>(n - i)));
}

// One source row of every channel (`in` is channel 0's, NULL in padding) to row `line` of the planes of a remainder.
template <class From>
POLYCONV_INLINE void lower_row(const LoweredPlan &p, const From *in, float *row, float *planes) {
  const DirectPlan &r = p.rows;
  const float *source = row;
  int64_t channel = r.row_elements;
  bool here = false;
  if constexpr (sizeof(From) == sizeof(float)) {
    here = p.in_place && in;
    if (here) source = in, channel = r.source.stride[1];
  }
  if (!here) load_rows<From, float>(r, in, p.channels, r.first_source, row);
  for (int64_t c = 0; c < p.channels; ++c, source += channel, planes += p.channel_elements) {
    float *to = planes;
    for (int64_t t = 0; t < r.axis[2].taps; ++t, to += p.plane_elements)
      shift_row(source + r.taps[t].source, p.width, to);
  }
}

template <class From>
POLYCONV_INLINE void lower_strip(const LoweredPlan &p, const void *input, const LoweredStrip &strip, char *scratch) {
  const DirectPlan &r = p.rows;
  const Axis &axis = r.axis[1];
  const From *image = source_of<From>(p, input, strip);
  float *row = reinterpret_cast<float *>(scratch), *planes = reinterpret_cast<float *>(scratch + p.lowered_at);
  const int64_t used = (strip.rows - 1) * axis.step + (axis.taps - 1) * axis.dilation; // the last row that is read
  for (int64_t i = 0; i < p.remainders; ++i, planes += r.axis[2].taps * p.plane_elements) {
    for (int64_t line = 0, y = p.remainder[i]; y <= used; ++line, y += axis.step) {
      const int64_t h = inside(axis, strip.first_row * axis.step - axis.before + y);
      lower_row<From>(p, h < 0 ? nullptr : image + h * r.source.stride[3], row, planes + line * p.width);
    }
  }
}

// Finishes sums of results [q, q + n) of a strip, a tile's filters from `at.k` on; in whole rows unless results lie at
// one stride throughout.
POLYCONV_NOINLINE void finish_tile(const LoweredPlan &p, const Epilogue &e, const float *sums, int64_t stride,
                                   int64_t filters, int64_t q, int64_t n, Row at) {
  const int64_t first_row = at.h;
  for (int64_t end = q + n; q < end; q += n, sums += n) {
    at.h = first_row + q / p.width;
    at.w = q % p.width;
    n = e.whole_images || end - q < p.width - at.w ? end - q : p.width - at.w;
    finish_rows(e, sums, stride, filters, n, at);
  }
}

// A block of filters over a lowered strip.
template <class From>
POLYCONV_INLINE void filter_strip(const LoweredPlan &p, const LoweredRun &run, const LoweredStrip &strip,
                                  const LoweredSum &sum, int64_t k, int filters, float *sums,
                                  LoweredAhead<From> &ahead) {
  constexpr int kL = kF32Lanes;
  const Epilogue &e = run.epilogue;
  const Row at = {strip.image, k, strip.d, strip.first_row, 0, 4};
  const int64_t results = strip.rows * p.width, most = lowered_vectors(filters);
  const float *bias = e.bias ? static_cast<const float *>(e.bias) + k : nullptr;
  LoweredStore to = {sums, most * kL, kL, false, false, nullptr, &e.rules};
  float *place = nullptr;
  if (p.direct) {
    place = static_cast<float *>(e.output) + row_offset(e.result, at);
    to = {place, e.result.stride[1], kL, true, run.stream != 0, bias, &e.rules};
  }
  const int64_t vectors = (results + kL - 1) / kL, tiles = (vectors + most - 1) / most;
  for (int64_t q = 0, tile = 0, n; tile < tiles; q += n * kL, ++tile) { // of nearly equal size
    const int64_t rest = results - q;
    n = vectors / tiles + (tile < vectors % tiles ? 1 : 0);
    ahead.fetch();
    if (place) {
      to.to = place + q;
      to.lanes = rest < n * kL ? static_cast<int>(rest - (n - 1) * kL) : kL;
    }
    lowered_tile_of(filters, static_cast<int>(n), sum, q, to);
    if (!place) finish_tile(p, e, sums, to.stride, filters, q, rest < n * kL ? rest : n * kL, at);
  }
}

template <class From>
POLYCONV_NOINLINE void lowered_share(const LoweredPlan &p, const LoweredRun &run, const LoweredShare &share) {
  const int64_t group_weights = p.filters * p.channels * p.taps;
  float *sums = reinterpret_cast<float *>(share.scratch + p.sums_at);
  LoweredSum sum = {reinterpret_cast<const float *>(share.scratch + p.lowered_at),
                    p.tap,
                    p.taps,
                    p.channels,
                    p.channel_elements,
                    nullptr};
  for (int64_t item = share.first; item < share.last; ++item) {
    const LoweredStrip strip = strip_of(p, item);
    LoweredAhead<From> ahead(p, run.input, strip_of(p, item + 1 < share.last ? item + 1 : item));
    lower_strip<From>(p, run.input, strip, share.scratch);
    for (int64_t block = 0; block < p.blocks; ++block) {
      const int64_t first = block * p.filters / p.blocks, last = (block + 1) * p.filters / p.blocks;
      sum.weights = static_cast<const float *>(run.weights) + strip.group * group_weights + first * p.channels * p.taps;
      filter_strip(p, run, strip, sum, strip.group * p.filters + first, static_cast<int>(last - first), sums, ahead);
    }
  }
  if (run.stream) streamed_stores_done();
}

} // namespace polyconv::cpu::POLYCONV_ISA
