// task.hpp - one task of a filter over planes: strips of result rows, groups of rows in them, chunks along W. Source
// lines are read where they lie when nothing has to be done to them; edges, other types and strides go through lines in
// scratch that stay in the cache, each made once for all the groups of a strip that read it. No copy of a plane is
// made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/load.hpp"
#include "cpu/plane/any.hpp"
#include "cpu/plane/slide.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

template <class T>
struct PlaneScratch {
  T *lines, *padding, *vertical, *weights, *sums;
  const T **line; // where each source line of a group lies

  POLYCONV_MEMBER PlaneScratch(const PlanePlan &p, char *scratch)
      : lines(reinterpret_cast<T *>(scratch)),
        padding(lines + p.lines * p.line_elements),
        vertical(reinterpret_cast<T *>(scratch + p.vertical_at)),
        weights(reinterpret_cast<T *>(scratch + p.weights_at)),
        sums(reinterpret_cast<T *>(scratch + p.sums_at)),
        line(reinterpret_cast<const T **>(scratch + p.pointers_at)) {}
};

// One plane, a group of its result rows, and a chunk of columns (pixels).
struct PlaneChunk {
  int64_t image, channel, d, row, rows, column, columns;
  int64_t fresh;        // the first line below those that scratch holds, counted from the first that result row 0 reads
  bool in_place, ahead; // read where it lies; the rows of the group below are worth fetching early
};

// The part of a row of the input that a chunk reads, as numbers. `in` is the row's first element.
template <class From, class T>
POLYCONV_NOINLINE void load_line(const PlanePlan &p, const From *in, const PlaneChunk &chunk, T *out) {
  const Load<From, T> convert(0);
  const Axis &axis = p.axis[2];
  const T pad = static_cast<T>(p.pad_value);
  const int64_t stride = p.input.stride[4], pixel = p.pixel, step = axis.step;
  const int64_t wanted = chunk.columns + p.reach;
  for (int64_t i = 0; i < p.remainders; ++i, out += p.plane_elements) {
    const int64_t first = chunk.column * step - axis.before + p.remainder[i];
    const auto [a, b, last] = axis_run(first, step, axis.in, axis.in + axis.after, wanted);
    if (pixel == 1)
      load_run(convert, in + (first + a * step) * stride, stride * step, b - a, out + a);
    else
      load_run(convert, in + (first + a) * pixel, 1, (b - a) * pixel, out + a * pixel);
    for (int64_t x = a > 0 ? 0 : b; x < last; x = x + 1 == a ? b : x + 1) { // [0, a) and [b, last)
      const int64_t from = inside(axis, first + x * step);
      for (int64_t c = 0; c < pixel; ++c) out[x * pixel + c] = from < 0 ? pad : convert.one(in + from * stride + c);
    }
  }
}

// Whether some row of a group, or one that fills its last group up, reads lines above or below the plane.
POLYCONV_INLINE bool reads_padding(const PlanePlan &p) {
  const Axis &h = p.axis[1];
  const int64_t rows = (h.out + p.group_rows - 1) / p.group_rows * p.group_rows;
  return h.before > 0 || (rows - 1) * h.step - h.before + (h.taps - 1) * h.dilation >= h.in;
}

// How far the next chunk from `column` reaches, and whether it can be read where it lies.
POLYCONV_INLINE void next_chunk(const PlanePlan &p, int64_t tile, PlaneChunk &chunk) {
  const Axis &axis = p.axis[2];
  const int64_t rest = axis.out - chunk.column;
  chunk.columns = rest < p.chunk ? rest : p.chunk;
  chunk.in_place = p.masks;
  if (!p.in_place || p.masks) return;
  // Elements of the row from the chunk's first on, whole tiles of which may be read.
  const int64_t first = chunk.column - axis.before, reach = (axis.taps - 1) * axis.dilation;
  const int64_t readable = (axis.in - first - reach) * p.pixel / tile * tile;
  if (first < 0) {
    chunk.columns = rest < p.unit ? rest : p.unit; // the edge, and no more
  } else if (readable > 0) {
    const int64_t pixels = readable / p.pixel / p.unit * p.unit;
    if (rest * p.pixel <= readable && rest <= p.chunk)
      chunk.in_place = true;
    else if (pixels > 0)
      chunk.in_place = true, chunk.columns = pixels < chunk.columns ? pixels : chunk.columns;
  }
}

// The source of the group below, of a chunk that is not read where it lies: its lines wait for memory otherwise.
template <class From>
POLYCONV_INLINE void fetch_lines_below(const PlanePlan &p, const From *plane, const PlaneChunk &chunk) {
  const Axis &h = p.axis[1], &w = p.axis[2];
  const int64_t pixel = p.pixel > 1 ? p.pixel : p.input.stride[4];
  const int64_t first = chunk.column * w.step - w.before, last = first + (chunk.columns + p.reach) * w.step;
  const From *row = plane + (chunk.row * h.step - h.before + p.lines) * p.input.stride[3];
  const char *begin = reinterpret_cast<const char *>(row + (first > 0 ? first : 0) * pixel);
  const char *end = reinterpret_cast<const char *>(row + (last < w.in ? last : w.in) * pixel);
  for (int64_t r = 0; r < p.group_rows * h.step; ++r) {
    for (const char *at = begin; at < end; at += 64) __builtin_prefetch(at, 0, 3);
    begin += p.input.stride[3] * static_cast<int64_t>(sizeof(From));
    end += p.input.stride[3] * static_cast<int64_t>(sizeof(From));
  }
}

// Finds every source line of the chunk's group, or makes it.
template <class From, class T>
POLYCONV_INLINE void find_lines(const PlanePlan &p, const From *plane, PlaneChunk &chunk,
                                const PlaneScratch<T> &scratch) {
  const Axis &axis = p.axis[1];
  const int64_t used = p.lines - (p.group_rows - chunk.rows) * axis.step;
  const int64_t first = chunk.row * axis.step, ring = p.ring ? first % p.lines : 0;
  for (int64_t i = 0; i < p.lines; ++i) {
    if (i >= used) { // read by rows that do not exist
      scratch.line[i] = scratch.padding;
      continue;
    }
    const int64_t y = inside(axis, first - axis.before + i * axis.dilation);
    const From *in = plane + y * p.input.stride[3];
    scratch.line[i] = scratch.padding;
    if (y < 0) continue;
    if constexpr (sizeof(From) == sizeof(T)) {
      if (chunk.in_place) {
        scratch.line[i] = in + (chunk.column - p.axis[2].before) * p.pixel;
        continue;
      }
    }
    const int64_t slot = ring + i < p.lines ? ring + i : ring + i - p.lines;
    T *line = scratch.lines + slot * p.line_elements;
    scratch.line[i] = line;
    if (!p.ring || first + i >= chunk.fresh) load_line<From, T>(p, in, chunk, line);
  }
  chunk.fresh = first + used;
}

// Where the sums of a chunk lie that no tile has stored: every row from element `first` on.
template <class T>
POLYCONV_NOINLINE void finish_chunk_rows(const PlanePlan &p, const Epilogue &e, const PlaneChunk &chunk, int64_t k,
                                         int64_t first, const PlaneScratch<T> &scratch) {
  const int64_t elements = chunk.columns * p.pixel;
  if (first >= elements) return;
  Row at = {chunk.image, k, chunk.d, chunk.row, chunk.column * p.pixel + first, 4};
  for (int64_t r = 0; r < chunk.rows; ++r, ++at.h)
    finish_row(e, scratch.sums + r * p.sums_stride + first, elements - first, at);
}

// Where a chunk's results go from their registers; or its sums, which are finished later.
template <class T>
POLYCONV_INLINE PlaneStore<T> store_of(const PlanePlan &p, const PlaneRun &run, const PlaneChunk &chunk, int64_t k,
                                       bool direct, const PlaneScratch<T> &scratch) {
  const Epilogue &e = run.epilogue;
  PlaneStore<T> to = {};
  to.to = scratch.sums, to.stride = p.sums_stride, to.rows = chunk.rows, to.lanes = kLanes<T>;
  to.ahead = chunk.ahead && chunk.in_place ? scratch.line[p.lines - 1] + p.input.stride[3] : nullptr,
  to.ahead_stride = p.input.stride[3];
  if (!direct) return to;
  to.to = static_cast<T *>(e.output) +
          row_offset(e.result, {chunk.image, k, chunk.d, chunk.row, chunk.column * p.pixel, 4});
  to.stride = e.result.stride[3], to.stream = run.stream, to.finish = true;
  to.bias = e.bias ? static_cast<const T *>(e.bias)[k] : T(0);
  to.alpha = static_cast<T>(e.rules.activation_alpha), to.activation = e.rules.activation;
  to.highest = static_cast<T>(run.highest);
  return to;
}

// The same from element x on.
template <class T>
POLYCONV_INLINE PlaneStore<T> store_at(PlaneStore<T> to, int64_t x) {
  to.to += x;
  if (to.ahead) to.ahead += x;
  return to;
}

// One filter, a square whose taps slide, over the chunk. Zeros beside lines that are read in place are masked in.
template <int K>
POLYCONV_NOINLINE void filter_slid(const PlanePlan &p, const PlaneRun &run, const PlaneChunk &chunk, int64_t k,
                                   const float *weights, const PlaneScratch<float> &scratch) {
  constexpr int64_t kL = kF32Lanes, kTile = kPlaneVectors * kL;
  const int64_t elements = chunk.columns, before = p.axis[2].before - chunk.column;
  const int64_t first = p.masks && before > 0 ? before : 0; // what exists of the lines
  const int64_t last = p.masks ? p.axis[2].in + before : (elements + kL - 1) / kL * kL + K - 1;
  PlaneStore<float> to = store_of(p, run, chunk, k, p.direct, scratch);
  for (int64_t x = 0; x < elements;) {
    const int64_t rest = elements - x, readable = last - x - (K - 1);
    const int64_t tiles = x < first ? 0 : (rest < readable ? rest : readable) / kTile;
    if (tiles > 0) {
      slide_row<K>(scratch.line, weights, to, x, tiles);
      x += tiles * kTile;
      continue;
    }
    const int64_t vectors = (rest + kL - 1) / kL, n = vectors >= kPlaneVectors ? kPlaneVectors : vectors > 1 ? 2 : 1;
    to.lanes = rest < n * kL ? static_cast<int>(rest - (n - 1) * kL) : kL;
    slide_edge_of<K>(n, scratch.line, weights, to, slide_mask(first - x, last - x), x);
    x += n * kL;
  }
  if (!p.direct) finish_chunk_rows(p, run.epilogue, chunk, k, 0, scratch);
}

// One filter, an unrolled square, over the chunk.
template <class T, int K, int Step>
POLYCONV_NOINLINE void filter_square(const PlanePlan &p, const PlaneRun &run, const PlaneChunk &chunk, int64_t k,
                                     const T *weights, const PlaneScratch<T> &scratch) {
  constexpr int kL = kLanes<T>;
  const int64_t elements = chunk.columns * p.pixel;
  constexpr int kLines = (kPlaneRows - 1) * Step + K;
  const PlaneStore<T> direct = store_of(p, run, chunk, k, p.direct, scratch);
  const PlaneStore<T> later = store_of(p, run, chunk, k, false, scratch);
  const T *lines[kLines];
  int64_t stored = 0, x = 0;
  const int64_t tile = kPlaneVectors * kL, tiles = elements / tile;
  if constexpr (K == 3)
    if (!p.periodic)
      plane_row3<T, Step>(scratch.line, p.tap, weights, p.direct ? direct : later, tiles), x = tiles * tile;
  if (p.direct) stored = x;
  for (int64_t n; x < elements; x += n * kL) {
    const int64_t rest = elements - x, vectors = (rest + kL - 1) / kL;
    n = p.periodic || vectors >= p.tile_vectors ? p.tile_vectors : vectors > 1 ? 2 : 1;
    PlaneStore<T> to = store_at(p.direct && (rest >= n * kL || !p.periodic) ? direct : later, x);
    if (to.finish) stored = x + n * kL;
    to.lanes = rest < n * kL ? static_cast<int>(rest - (n - 1) * kL) : kL;
    for (int i = 0; i < kLines; ++i) lines[i] = scratch.line[i] + x;
    if (p.periodic) {
      plane_tile<T, K, Step, kPlanePeriod, true>(lines, p.tap, weights, to);
      continue;
    }
    plane_tile_of<T, K, Step>(static_cast<int>(n), lines, p.tap, weights, to);
  }
  finish_chunk_rows(p, run.epilogue, chunk, k, stored, scratch);
}

// One filter of any shape over the chunk, R rows of it.
template <class T, int R>
POLYCONV_NOINLINE void filter_any(const PlanePlan &p, const PlaneRun &run, const PlaneChunk &chunk, int64_t k,
                                  const T *weights, const PlaneScratch<T> &scratch) {
  constexpr int kL = kLanes<T>;
  const int64_t elements = chunk.columns * p.pixel;
  const PlaneTaps<T> taps = {scratch.line, p.tap, weights, p.axis[1].taps, p.axis[2].taps};
  const PlaneStore<T> direct = store_of(p, run, chunk, k, p.direct, scratch);
  const PlaneStore<T> later = store_of(p, run, chunk, k, false, scratch);
  int64_t stored = 0;
  for (int64_t x = 0, n; x < elements; x += n * kL) {
    const int64_t rest = elements - x, vectors = (rest + kL - 1) / kL;
    n = p.periodic || vectors >= p.tile_vectors ? p.tile_vectors : vectors > 1 ? 2 : 1;
    PlaneStore<T> to = store_at(p.direct && (rest >= n * kL || !p.periodic) ? direct : later, x);
    if (to.finish) stored = x + n * kL;
    to.lanes = rest < n * kL ? static_cast<int>(rest - (n - 1) * kL) : kL;
    if (p.periodic)
      any_tile_of<Taps::kPeriodic, R>(n, taps, x, to);
    else
      any_tile_of<Taps::kPlain, R>(n, taps, x, to);
  }
  finish_chunk_rows(p, run.epilogue, chunk, k, stored, scratch);
}

template <class T>
POLYCONV_NOINLINE void filter_chunk(const PlanePlan &p, const PlaneRun &run, const PlaneChunk &chunk, int64_t k,
                                    const T *weights, const PlaneScratch<T> &scratch) {
  const bool two = p.axis[1].step == 2;
  if constexpr (kSlides<T>) {
    const bool slides = p.neighbours && !two;
    if (slides && p.square == 3) return filter_slid<3>(p, run, chunk, k, weights, scratch);
    if (slides && p.square == 5) return filter_slid<5>(p, run, chunk, k, weights, scratch);
    if (slides && p.square == 7) return filter_slid<7>(p, run, chunk, k, weights, scratch);
  }
  switch (p.square) {
    case 3:
      return two ? filter_square<T, 3, 2>(p, run, chunk, k, weights, scratch)
                 : filter_square<T, 3, 1>(p, run, chunk, k, weights, scratch);
    case 5:
      return two ? filter_square<T, 5, 2>(p, run, chunk, k, weights, scratch)
                 : filter_square<T, 5, 1>(p, run, chunk, k, weights, scratch);
    case 7:
      return two ? filter_square<T, 7, 2>(p, run, chunk, k, weights, scratch)
                 : filter_square<T, 7, 1>(p, run, chunk, k, weights, scratch);
    default: break;
  }
  switch (p.group_rows) {
    case 4: return filter_any<T, 4>(p, run, chunk, k, weights, scratch);
    case 2: return filter_any<T, 2>(p, run, chunk, k, weights, scratch);
    default: return filter_any<T, 1>(p, run, chunk, k, weights, scratch);
  }
}

// The weights of a plane's filters as numbers: [filter][tap], or, periodic, [tap][vector][lane].
template <class T>
POLYCONV_NOINLINE void load_weights(const PlanePlan &p, const void *raw, int64_t channel, T *out) {
  const polyconv_tensor &w = p.weights;
  const int64_t rows = p.axis[1].taps, columns = p.axis[2].taps, filters = p.periodic ? p.pixel : p.filters;
  const int64_t lanes = kPlanePeriod * kLanes<T>;
  for (int64_t f = 0; f < filters; ++f)
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t first = w.offset + (channel * p.filters + f) * w.stride[0] + r * w.stride[3];
      for (int64_t c = 0; c < columns; ++c) {
        T value;
        gather_typed(w.type, raw, first + c * w.stride[4], 1, 1, &value);
        if (!p.periodic) *out++ = value;
        for (int64_t lane = f; p.periodic && lane < lanes; lane += p.pixel)
          out[(r * columns + c) * lanes + lane] = value;
      }
    }
}

// The filters of a plane, each tap a multiply-add. What a task does to the chunks it walks over is such a struct.
template <class T>
struct DirectFilters {
  static POLYCONV_MEMBER void start_plane(const PlanePlan &p, const PlaneRun &run, int64_t channel,
                                          const PlaneScratch<T> &scratch) {
    load_weights(p, run.weights, channel, scratch.weights);
  }
  static POLYCONV_MEMBER void filter(const PlanePlan &p, const PlaneRun &run, const PlaneChunk &chunk,
                                     const PlaneScratch<T> &scratch) {
    const int64_t taps = p.axis[1].taps * p.axis[2].taps;
    for (int64_t f = 0; f < p.filters; ++f)
      filter_chunk(p, run, chunk, chunk.channel * p.filters + f, scratch.weights + f * taps, scratch);
  }
};

// Result rows [first, last) of a plane: chunk after chunk of a group of rows where lines are read in place, in the
// order of memory; else group after group of a chunk, whose lines stay.
template <class Filters, class From, class T>
POLYCONV_INLINE void filter_strip(const PlanePlan &p, const PlaneRun &run, const From *plane, int64_t first,
                                  int64_t last, PlaneChunk &chunk, const PlaneScratch<T> &scratch) {
  const int64_t tile = p.tile_vectors * kLanes<T>, width = p.axis[2].out;
  for (int64_t column = 0, row = first; column < width && row < last;) {
    chunk.row = row, chunk.column = column;
    chunk.rows = last - row < p.group_rows ? last - row : p.group_rows;
    next_chunk(p, tile, chunk);
    if (row == first) chunk.fresh = row * p.axis[1].step;
    // Whether the source rows of this group and of the one below all lie inside the plane.
    const int64_t end = (row + 2 * p.group_rows) * p.axis[1].step - p.axis[1].before + p.axis[1].taps;
    chunk.ahead =
        run.fetch && p.axis[1].dilation == 1 && row * p.axis[1].step >= p.axis[1].before && end <= p.axis[1].in;
    if (chunk.ahead && !chunk.in_place) fetch_lines_below(p, plane, chunk);
    find_lines(p, plane, chunk, scratch);
    Filters::filter(p, run, chunk, scratch);
    if (p.ring) {
      row += chunk.rows;
      if (row == last) row = first, column += chunk.columns;
    } else {
      column += chunk.columns;
      if (column == width) column = 0, row += chunk.rows;
    }
  }
}

template <template <class> class Filters, class From, class T>
POLYCONV_NOINLINE void plane_share(const PlanePlan &p, const PlaneRun &run, const ItemShare &share) {
  const PlaneScratch<T> scratch(p, share.scratch);
  for (int64_t i = 0; i < p.line_elements && reads_padding(p); ++i) scratch.padding[i] = static_cast<T>(p.pad_value);
  const int64_t depth = p.axis[0].out;
  int64_t loaded = -1;
  for (int64_t item = share.first; item < share.last; ++item) {
    const int64_t strip = item % p.strips, plane = item / p.strips;
    PlaneChunk chunk = {};
    chunk.d = plane % depth;
    chunk.channel = plane / depth % p.channels;
    chunk.image = plane / depth / p.channels;
    if (chunk.channel != loaded) Filters<T>::start_plane(p, run, loaded = chunk.channel, scratch);
    const From *in = static_cast<const From *>(run.input) + p.input.offset + chunk.image * p.input.stride[0] +
                     chunk.channel * p.input.stride[1] + chunk.d * p.input.stride[2];
    const int64_t end = (strip + 1) * p.strip_rows, last = end < p.axis[1].out ? end : p.axis[1].out;
    filter_strip<Filters<T>>(p, run, in, strip * p.strip_rows, last, chunk, scratch);
  }
  if (run.stream) streamed_stores_done();
}

template <template <class> class Filters>
POLYCONV_INLINE void plane_typed(const PlanePlan &p, const PlaneRun &run, const ItemShare &share) {
  switch (p.input.type) {
    case POLYCONV_F64: return plane_share<Filters, double, double>(p, run, share);
    case POLYCONV_F32: return plane_share<Filters, float, float>(p, run, share);
    case POLYCONV_F16: return plane_share<Filters, f16, float>(p, run, share);
    case POLYCONV_BF16: return plane_share<Filters, bf16, float>(p, run, share);
    case POLYCONV_U16: return plane_share<Filters, uint16_t, float>(p, run, share);
    case POLYCONV_U8: return plane_share<Filters, uint8_t, float>(p, run, share);
    default: return;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
