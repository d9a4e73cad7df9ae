// shifted.cpp - many channels, channels first, stride 1: results along the vectors, numbered through the padded source
// rows, so that a tap is those rows shifted by a constant. Forward; floats, any kernel, dilation, group and border.
//
// Floor: the multiply-adds at the FMA rate, and of each row as many more as its padding is wide. Bringing in a source
// element costs 1 / (filters x taps) of the multiply-adds it takes part in, some ten times that in time.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/load.hpp"
#include "cpu/shifted/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

struct ShiftedBlock {
  int64_t image, d, group, row, rows, column, columns;
};

POLYCONV_INLINE ShiftedBlock shifted_block(const ShiftedPlan &p, int64_t item) {
  const int64_t part = item % p.column_blocks, strip = item / p.column_blocks % p.row_blocks;
  const int64_t plane = item / p.column_blocks / p.row_blocks;
  ShiftedBlock b = {plane / p.groups / p.depth, plane / p.groups % p.depth, plane % p.groups, 0, 0, 0, 0};
  b.row = piece(p.height, p.row_blocks, strip);
  b.rows = piece(p.height, p.row_blocks, strip + 1) - b.row;
  b.column = piece(p.width, p.column_blocks, part);
  b.columns = piece(p.width, p.column_blocks, part + 1) - b.column;
  return b;
}

// The first channel that a block reads.
template <class From>
POLYCONV_INLINE const From *source_of(const ShiftedPlan &p, const void *input, const ShiftedBlock &b) {
  const polyconv_tensor &t = p.input;
  return static_cast<const From *>(input) + t.offset + b.image * t.stride[0] + b.group * p.channels * t.stride[1] +
         b.d * t.stride[2];
}

// One source row of one channel, from column `first` on; `in` is its column 0, NULL for a row of padding. What is
// written beyond its end, the next row or the channel's slack takes.
template <class From>
POLYCONV_INLINE void fill_row(const ShiftedPlan &p, const From *in, int64_t first, int64_t count, float *out) {
  constexpr int kL = kF32Lanes;
  const float pad = static_cast<float>(p.pad_value);
  if (!in) {
    for (int64_t i = 0; i < count; ++i) out[i] = pad;
    return;
  }
  const Load<From, float> convert(0);
  const Axis &axis = p.axis[2];
  const AxisRun run = axis_run(first, 1, axis.in, axis.in + axis.after, count);
  const From *from = in + first, *ahead = from + p.input.stride[1];
  int64_t i = run.a;
  for (; i + kL <= run.b; i += kL) {
    __builtin_prefetch(ahead + i); // of the next channel: more lines than a core follows by itself
    store(out + i, convert.full(from + i));
  }
  if (i < run.b) store(out + i, convert.partial(from + i, static_cast<int>(run.b - i)));
  for (i = run.a > 0 ? 0 : run.b; i < run.last; i = i + 1 == run.a ? run.b : i + 1) { // [0, a) and [b, last)
    const int64_t x = inside(axis, first + i);
    out[i] = x < 0 ? pad : convert.one(in + x);
  }
}

template <class From>
POLYCONV_NOINLINE void fill_strip(const ShiftedPlan &p, const void *input, const ShiftedBlock &b, float *strip) {
  const Axis &h = p.axis[1];
  const From *channel = source_of<From>(p, input, b);
  const int64_t first = b.row - h.before, rows = b.rows + (h.taps - 1) * h.dilation;
  const int64_t column = b.column - p.axis[2].before, columns = b.columns + p.reach;
  for (int64_t c = 0; c < p.channels; ++c, channel += p.input.stride[1], strip += p.channel_elements) {
    float *out = strip;
    for (int64_t y = 0; y < rows; ++y, out += p.pitch) {
      const int64_t row = inside(h, first + y);
      fill_row(p, row < 0 ? nullptr : channel + row * p.input.stride[3], column, columns, out);
    }
  }
}

// Where n vectors from result q on go: along the rows of a block's results.
POLYCONV_INLINE void place_vectors(const ShiftedPlan &p, const ShiftedBlock &b, int64_t q, int64_t n, ShiftedTile &t) {
  constexpr int kL = kF32Lanes;
  const int64_t row = p.epilogue.result.stride[3];
  int64_t y = q / p.pitch, x = q % p.pitch;
  for (int64_t i = 0; i < n; ++i, x += kL) {
    if (x >= p.pitch) x -= p.pitch, ++y;
    const int64_t here = b.columns > x ? b.columns - x : 0, there = p.pitch - x; // lanes of this row, of the next
    constexpr uint32_t kAll = (1u << kL) - 1;
    t.place[i] = y * row + x;
    t.first[i] = here >= kL ? kAll : (1u << here) - 1;
    t.next[i] = there >= kL || y + 1 >= b.rows ? 0 : kAll & ~((1u << there) - 1);
  }
}

// Finishes the sums of results [q, q + n) row by row.
POLYCONV_NOINLINE void finish_shifted(const ShiftedPlan &p, const Epilogue &e, const ShiftedBlock &b, const float *sums,
                                      int64_t stride, int64_t filters, int64_t q, int64_t n, Row at) {
  for (int64_t end = q + n, step; q < end; q += step, sums += step) {
    const int64_t y = q / p.pitch, x = q % p.pitch;
    step = end - q < p.pitch - x ? end - q : p.pitch - x;
    const int64_t results = x + step < b.columns ? step : b.columns - x;
    at.h = b.row + y, at.w = b.column + x;
    if (results > 0) finish_rows(e, sums, stride, filters, results, at);
  }
}

POLYCONV_INLINE void run_panel(const ShiftedPlan &p, const LayerRun &run, const ShiftedBlock &b, int64_t panel,
                               const float *strip, float *sums) {
  constexpr int kL = kF32Lanes;
  const Epilogue &e = run.epilogue;
  const int64_t first = piece(p.filters, p.panels, panel), filters = piece(p.filters, p.panels, panel + 1) - first;
  const Row at = {b.image, b.group * p.filters + first, b.d, b.row, b.column, 4};
  ShiftedTile t = {};
  t.tap = p.tap, t.taps = p.taps, t.channels = p.channels, t.channel_elements = p.channel_elements;
  t.weights = static_cast<const float *>(run.weights) + at.k * p.channels * p.taps;
  t.result = sums, t.result_stride = kShiftedVectors * kL;
  if (p.direct) {
    t.result = static_cast<float *>(e.output) + row_offset(e.result, at);
    t.result_stride = e.result.stride[1];
    t.gap = e.result.stride[3] - p.pitch;
    t.rules = &e.rules;
    t.bias = e.bias ? static_cast<const float *>(e.bias) + at.k : nullptr;
  }
  for (int n = 0; n < kShiftedVectors; ++n) t.place[n] = n * kL, t.first[n] = (1u << kL) - 1;
  const int64_t results = (b.rows - 1) * p.pitch + b.columns, vectors = (results + kL - 1) / kL;
  const int64_t tiles = (vectors + kShiftedVectors - 1) / kShiftedVectors;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t v = piece(vectors, tiles, tile), n = piece(vectors, tiles, tile + 1) - v, q = v * kL;
    t.source = strip + q;
    if (p.direct) place_vectors(p, b, q, n, t);
    shifted_tile_of(filters, n, t);
    if (!p.direct)
      finish_shifted(p, e, b, sums, t.result_stride, filters, q, n * kL < results - q ? n * kL : results - q, at);
  }
}

template <class From>
POLYCONV_NOINLINE void run_shifted(const ShiftedPlan &p, const LayerRun &run, const GridShare &share) {
  float *strip = reinterpret_cast<float *>(share.scratch), *sums = reinterpret_cast<float *>(share.scratch + p.sums_at);
  for (int64_t item = share.first_unit; item < share.last_unit; ++item) {
    const ShiftedBlock b = shifted_block(p, item);
    fill_strip<From>(p, run.input, b, strip);
    for (int64_t panel = 0; panel < p.panels; ++panel) run_panel(p, run, b, panel, strip, sums);
  }
}

void shifted_task(const ShiftedPlan &plan, const LayerRun &run, const GridShare &share) {
  switch (plan.input.type) {
    case POLYCONV_F32: return run_shifted<float>(plan, run, share);
    case POLYCONV_F16: return run_shifted<f16>(plan, run, share);
    case POLYCONV_BF16: return run_shifted<bf16>(plan, run, share);
    default: return;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
