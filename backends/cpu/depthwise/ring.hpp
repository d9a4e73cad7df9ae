// ring.hpp - one task of depthwise convolution by rings of source rows: rows come in, tiles, rows of results leave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/depthwise/ring_plan.hpp"
#include "cpu/depthwise/turned.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Neighbouring rows of the ring, and the rows of taps that they meet.
struct RingRows {
  const float *source, *weights;
  int64_t count;
};

// A band of a unit's results, and a chunk of its columns.
struct RingBand {
  const RingPlan &plan;
  const LayerRun &run;
  const Axis &rows, &columns;
  float *ring, *sums;
  RingRows *listed;
  const float *in = nullptr, *weights = nullptr; // the unit's: its first channel in the image; [tap][kDepthwiseUnit]
  int64_t channels = 0;                          // of the unit
  Row at = {};                                   // the first result of the band and chunk
  int64_t count = 0, width = 0;                  // rows and columns of results
  int64_t first = 0, pixels = 0;                 // of the source: the chunk's first coordinate, and how many
  AxisRun inner = {};                            // of these, those inside the input
  int64_t tiles = 0, wide = 0; // of a row, and those of them, the first, that are one column wider than the rest
};

// `count` pixels of up to kDepthwiseUnit channels side by side, `stride` elements apart. The row below comes soon.
template <bool Whole>
POLYCONV_INLINE void copy_pixels(const float *in, int64_t stride, int64_t below, int64_t count, int64_t channels,
                                 float *out) {
  constexpr int kL = kF32Lanes;
  for (int64_t i = 0; i < count; ++i, in += stride, out += kDepthwiseUnit) {
    __builtin_prefetch(in + below);
#pragma GCC unroll 4
    for (int64_t c = 0; c < kDepthwiseUnit; c += kL) {
      const int64_t rest = channels - c;
      store(out + c, Whole || rest >= kL ? load(in + c) : load_partial(in + c, rest > 0 ? static_cast<int>(rest) : 0));
    }
  }
}

// Pixels [first, first + count) of source row `row` into a row of the ring.
POLYCONV_INLINE void bring_pixels(const RingBand &b, const float *row, int64_t first, int64_t count, float *out) {
  const int64_t *stride = b.plan.input.stride;
  const float *in = row + first * stride[4];
  if (b.plan.turned) return turn_in(in, stride[1], count, b.channels, kDepthwiseUnit, out);
  if (b.channels == kDepthwiseUnit) return copy_pixels<true>(in, stride[4], stride[3], count, b.channels, out);
  copy_pixels<false>(in, stride[4], stride[3], count, b.channels, out);
}

POLYCONV_INLINE void fill_pixels(float value, int64_t count, float *out) {
  const F32 v = splat(value);
  for (int64_t i = 0; i < count * kDepthwiseUnit; i += kF32Lanes) store(out + i, v);
}

// The pixels of a row of the ring that are padding, of source row `in`; NULL: of the padding value.
POLYCONV_INLINE void bring_padding(const RingBand &b, const float *in, float *out) {
  for (int64_t i = 0; i < b.pixels; ++i) {
    if (i == b.inner.a) i = b.inner.b;
    if (i == b.pixels) break;
    const int64_t from = in ? inside(b.columns, b.first + i) : -1;
    if (from < 0)
      fill_pixels(b.plan.pad_value, 1, out + i * kDepthwiseUnit);
    else
      bring_pixels(b, in, from, 1, out + i * kDepthwiseUnit);
  }
}

// Source row y of tap t of D into a row of the ring; nothing where it is left out. Padding of a value is there already.
POLYCONV_INLINE void bring_row(const RingBand &b, int64_t t, int64_t y, float *out) {
  const RingPlan &p = b.plan;
  const Axis &depths = p.axis[0];
  const int64_t depth = inside(depths, b.at.d * depths.step + t * depths.dilation - depths.before);
  const int64_t row = inside(b.rows, y);
  if (depth < 0 || row < 0) {
    if (!p.skips) fill_pixels(p.pad_value, b.pixels, out);
    return;
  }
  const float *in = b.in + depth * p.input.stride[2] + row * p.input.stride[3];
  if (!p.value) bring_padding(b, in, out);
  bring_pixels(b, in, b.first + b.inner.a, b.inner.b - b.inner.a, out + b.inner.a * kDepthwiseUnit);
}

// What the tiles of a row of results read.
struct RingTile {
  const RingRows *listed;
  int64_t lists, line; // elements of a row of the ring
  int64_t taps;        // of W
  int64_t channels;
};

// sum += p[...] b as add_product has it, of a vector in memory, which stays there: gcc would load what the next steps
// read too, and spill it.
POLYCONV_INLINE void add_product_at(const float *p, F32 b, F32 &sum) {
#if defined(__FMA__) && !defined(__AVX512F__)
  typedef float Unaligned __attribute__((vector_size(kVectorBytes), aligned(4), may_alias));
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(b), "m"(*reinterpret_cast<const Unaligned *>(p)));
#else
  sum = multiply_add(load(p), b, sum);
#endif
}

// P columns of one row of results, N vectors of channels from `c` of the unit on: every product has an operand in
// memory, which shares a register with no other. Floor: N * P multiply-adds against N more loads.
template <int P, int Step, int N>
POLYCONV_NOINLINE void ring_tile(const RingTile &t, int64_t at, int64_t c, const DepthwiseStore<float> &given) {
  constexpr int kL = kF32Lanes;
  F32 acc[N][P];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
    for (int j = 0; j < P; ++j) acc[n][j] = F32{};
  for (int64_t i = 0; i < t.lists; ++i) {
    const float *row = t.listed[i].source + at, *weights = t.listed[i].weights + c;
    for (int64_t r = t.listed[i].count; r > 0; --r, row += t.line) {
      const float *source = row;
      for (int64_t k = t.taps; k > 0; --k, source += kDepthwiseUnit, weights += kDepthwiseUnit) {
        F32 w[N];
        load_vectors(weights, w);
#pragma GCC unroll 8
        for (int j = 0; j < P; ++j)
#pragma GCC unroll 4
          for (int n = 0; n < N; ++n) add_product_at(source + j * Step * kDepthwiseUnit + n * kL, w[n], acc[n][j]);
      }
    }
  }
  const DepthwiseStore<float> to = given; // what a reference leads to would be loaded anew after every store
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
    const int64_t rest = t.channels - c - n * kL;
    store_vectors<float>(to, c + n * kL, to.column, P, c + n * kL, rest < kL ? static_cast<int>(rest) : kL, acc[n]);
  }
}

// `tiles` tiles of P columns, the unit's channels in as many vectors at once as registers hold.
template <int P, int Step>
POLYCONV_INLINE void ring_tiles(const RingTile &t, int64_t tiles, int64_t at, DepthwiseStore<float> to) {
  constexpr int kL = kF32Lanes, kN = kDepthwiseUnit / kL < 2 ? 1 : 2;
  for (; tiles > 0; --tiles, at += P * Step * kDepthwiseUnit, to.to += P * to.column)
    for (int64_t c = 0; c < t.channels; c += kN * kL)
      if (t.channels - c > kL)
        ring_tile<P, Step, kN>(t, at + c, c, to);
      else
        ring_tile<P, Step, 1>(t, at + c, c, to);
}
template <int Step>
POLYCONV_INLINE void ring_row(const RingBand &b, const RingTile &t, DepthwiseStore<float> to) {
  const int64_t columns = (b.width - b.wide) / b.tiles, at = b.wide * (columns + 1);
  if (b.wide) with_size<kRingColumns>(columns + 1, [&](auto p) { ring_tiles<p.value, Step>(t, b.wide, 0, to); });
  to.to += at * to.column;
  with_size<kRingColumns>(
      columns, [&](auto p) { ring_tiles<p.value, Step>(t, b.tiles - b.wide, at * Step * kDepthwiseUnit, to); });
}

// One row of results, from the rows of the ring that are listed.
POLYCONV_NOINLINE void filter_listed(const RingBand &b, int64_t lists, const DepthwiseStore<float> &to) {
  const RingTile t = {b.listed, lists, b.plan.line, b.columns.taps, b.channels};
  b.columns.step == 2 ? ring_row<2>(b, t, to) : ring_row<1>(b, t, to);
}

// Lists the rows that a row of results reads, from source row y on, which stands at `slot`; returns how many lists.
// Rows of taps that are dilated stand apart: a list each.
POLYCONV_INLINE int64_t list_rows(const RingBand &b, int64_t y, int64_t slot) {
  const RingPlan &p = b.plan;
  const Axis &depths = p.axis[0];
  const int64_t dilation = b.rows.dilation, at_once = dilation == 1 ? b.rows.taps : 1;
  int64_t lists = 0;
  for (int64_t t = 0; t < depths.taps; ++t) {
    if (p.skips && inside(depths, b.at.d * depths.step + t * depths.dilation - depths.before) < 0) continue;
    for (int64_t r = 0; r < b.rows.taps; r += at_once) {
      int64_t first = r, last = r + at_once;
      if (p.skips) {
        const int64_t above = -(y + r * dilation), below = y + (last - 1) * dilation + 1 - b.rows.in;
        first += above > 0 ? above : 0, last -= below > 0 ? below : 0;
        if (first >= last) continue;
      }
      b.listed[lists++] = {b.ring + (t * p.ring + slot + first * dilation) * p.line,
                           b.weights + (t * b.rows.taps + first) * b.columns.taps * kDepthwiseUnit, last - first};
    }
  }
  return lists;
}

// Results of `rows` rows from `row` on, which wait in scratch, leave.
POLYCONV_INLINE void finish_band(const RingBand &b, int64_t row, int64_t rows) {
  Row at = b.at;
  at.h += row;
  const Epilogue &e = b.run.epilogue;
  at.axis = b.plan.turned ? 4 : 1;
  if (b.plan.turned) return turn_out(e, b.sums, kDepthwiseUnit, rows * b.width, b.channels, at);
  finish_rows(e, b.sums, kDepthwiseUnit, b.width, b.channels, at);
}

// The ring is at its end: the `count` rows from `slot` on that are read again move to its beginning.
POLYCONV_INLINE void begin_again(const RingBand &b, int64_t count, int64_t slot) {
  const RingPlan &p = b.plan;
  for (int64_t t = 0; t < p.axis[0].taps; ++t) {
    float *to = b.ring + t * p.ring * p.line;
    const float *from = to + slot * p.line;
    for (int64_t i = 0; i < count * p.line; i += kF32Lanes) store(to + i, load(from + i));
  }
}

POLYCONV_INLINE void filter_band(const RingBand &b) {
  const RingPlan &p = b.plan;
  const Epilogue &e = b.run.epilogue;
  const bool plain = !e.bias && e.rules.activation == POLYCONV_ACT_NONE;
  const int64_t joined = e.whole_images && b.width == e.result.size[4] ? p.joined : 1;
  const float *bias = e.bias ? static_cast<const float *>(e.bias) + b.at.k : nullptr;
  const int64_t base = b.at.h * b.rows.step - b.rows.before;
  const int64_t reach = (b.rows.taps - 1) * b.rows.dilation + 1;
  int64_t next = base, slot = 0, waiting = 0; // `slot` is where the first row that is read stands
  for (int64_t i = 0; i < b.count; ++i, slot += b.rows.step) {
    const int64_t y = base + i * b.rows.step;
    if (slot + reach > p.ring) begin_again(b, next - y, slot), slot = 0;
    if (next < y) next = y;
    for (; next < y + reach; ++next)
      for (int64_t t = 0; t < p.axis[0].taps; ++t)
        bring_row(b, t, next, b.ring + (t * p.ring + slot + next - y) * p.line);
    const int64_t listed = list_rows(b, y, slot);
    Row at = b.at;
    at.h += i;
    if (p.direct) {
      filter_listed(b, listed,
                    {static_cast<float *>(e.output) + row_offset(e.result, at), 0, e.result.stride[4], 1, 0, bias,
                     plain ? nullptr : &e.rules, b.run.stream != 0});
    } else {
      filter_listed(b, listed,
                    {b.sums + waiting * b.width * kDepthwiseUnit, 0, kDepthwiseUnit, 1, 0, nullptr, nullptr, false});
      if (++waiting == joined || i + 1 == b.count) finish_band(b, i + 1 - waiting, waiting), waiting = 0;
    }
  }
}

POLYCONV_NOINLINE void ring_share(const RingPlan &p, const LayerRun &run, const RingShare &share) {
  const int64_t *stride = p.input.stride;
  RingBand b = {p,
                run,
                share.rows,
                share.columns,
                reinterpret_cast<float *>(share.scratch),
                reinterpret_cast<float *>(share.scratch + p.sums_at),
                reinterpret_cast<RingRows *>(share.scratch + p.rows_at)};
  int64_t padded = -1; // the column whose chunk's padding stands in the ring
  for (int64_t item = share.first; item < share.last; ++item) {
    const int64_t band = item % share.bands, unit = item / share.bands % p.units, plane = item / share.bands / p.units;
    const int64_t k = unit * kDepthwiseUnit, h = band * p.band_rows, rest = share.rows.out - h;
    b.at = {plane / p.axis[0].out, k, plane % p.axis[0].out, h, 0, 1};
    b.count = rest < p.band_rows ? rest : p.band_rows;
    b.channels = p.channels - k < kDepthwiseUnit ? p.channels - k : kDepthwiseUnit;
    b.in = static_cast<const float *>(run.input) + p.input.offset + b.at.n * stride[0] + k * stride[1];
    b.weights = static_cast<const float *>(run.weights) + unit * p.taps * kDepthwiseUnit;
    for (; b.at.w < share.columns.out; b.at.w += p.chunk) {
      b.width = share.columns.out - b.at.w < p.chunk ? share.columns.out - b.at.w : p.chunk;
      b.first = b.at.w * b.columns.step - b.columns.before;
      b.pixels = (b.width - 1) * b.columns.step + (b.columns.taps - 1) * b.columns.dilation + 1;
      b.inner = axis_run(b.first, 1, b.columns.in, b.first + b.pixels, b.pixels);
      b.tiles = (b.width + kRingColumns - 1) / kRingColumns, b.wide = b.width % b.tiles;
      for (int64_t i = 0; p.value && padded != b.at.w && i < p.axis[0].taps * p.ring; ++i)
        bring_padding(b, nullptr, b.ring + i * p.line);
      padded = b.at.w;
      filter_band(b);
    }
  }
  if (run.stream) streamed_stores_done();
}

} // namespace polyconv::cpu::POLYCONV_ISA
