// lowered.cpp - few channels, channels first: rows lowered along W, vectors of results that run on over row ends,
// several filters a tile. Forward; float and image types, any kernel, stride, dilation, group and border.
//
// Floor: the multiply-adds at the FMA rate, without a lane wasted but in the last vector of a strip. Lowering copies
// each source element once for each tap of W: 1 / (filters x taps of H) of the multiply-adds, twice that in time.
//
// A task: strips of result rows of one image and group; each is lowered once, then every block of filters runs over it.
// SPDX-License-Identifier: Apache-2.0
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

// How sources of one stored type come in: all that a task knows of that type.
struct LoweredSource {
  // Brings in what a strip reads; returns where its rows begin: in place, or in scratch.
  const float *(*read)(const LoweredPlan &p, const void *input, const LoweredStrip &strip, char *scratch);
  int64_t bytes; // of an element
};

// The element, counted from the tensor's beginning, of the first channel that a strip reads.
POLYCONV_INLINE int64_t source_at(const LoweredPlan &p, const LoweredStrip &strip) {
  const polyconv_tensor &t = p.rows.source;
  return t.offset + strip.image * t.stride[0] + strip.group * p.channels * t.stride[1] + strip.d * t.stride[2];
}

// The input of the strip that comes next, brought into the cache a few rows at a time while this one's tiles compute.
struct LoweredAhead {
  const LoweredPlan &plan;
  int64_t bytes; // of an element
  const char *source;
  int64_t first_row, row, channel = 0; // of the input; the next one to fetch

  POLYCONV_MEMBER LoweredAhead(const LoweredPlan &p, const void *input, const LoweredStrip &strip, int64_t element)
      : plan(p), bytes(element), source(static_cast<const char *>(input) + source_at(p, strip) * element) {
    const Axis &axis = p.rows.axis[1];
    first_row = row = strip.first_row * axis.step - axis.before;
  }

  POLYCONV_MEMBER void fetch() {
    const polyconv_tensor &t = plan.rows.source;
    for (int64_t i = 0; i < plan.rows_ahead && channel < plan.channels; ++i) {
      const char *p = source + (channel * t.stride[1] + row * t.stride[3]) * bytes;
      for (int64_t x = 0; row >= 0 && row < t.size[3] && x < t.size[4] * bytes; x += 64)
        __builtin_prefetch(p + x, 0, 2);
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

// Row y of those that a strip reads, to planes.
POLYCONV_INLINE void lower_row(const LoweredPlan &p, const float *row, int64_t y, float *planes) {
  const DirectPlan &r = p.rows;
  const int64_t step = r.axis[1].step, taps = r.axis[2].taps;
  for (int64_t i = 0; i < p.remainders; ++i, planes += taps * p.plane_elements) {
    if (y % step != p.remainder[i]) continue;
    const float *channel = row;
    float *to = planes + y / step * p.width;
    for (int64_t c = 0; c < p.channels; ++c, channel += p.source_channel, to += p.channel_elements)
      for (int64_t t = 0; t < taps; ++t) shift_row(channel + r.taps[t].source, p.width, to + t * p.plane_elements);
  }
}

template <class From>
POLYCONV_NOINLINE const float *read_strip(const LoweredPlan &p, const void *input, const LoweredStrip &strip,
                                          char *scratch) {
  const DirectPlan &r = p.rows;
  const Axis &axis = r.axis[1];
  const From *image = static_cast<const From *>(input) + source_at(p, strip);
  float *rows = reinterpret_cast<float *>(scratch), *planes = reinterpret_cast<float *>(scratch + p.lowered_at);
  const float *source = rows;
  const int64_t first = strip.first_row * axis.step - axis.before;
  const int64_t used = (strip.rows - 1) * axis.step + (axis.taps - 1) * axis.dilation; // the last row that is read
  if constexpr (sizeof(From) == sizeof(float))
    if (p.in_place) source = image + first * r.source.stride[3];
  for (int64_t y = 0; y <= used && (p.lowers || !p.in_place); ++y) {
    if (!p.in_place) {
      const int64_t h = inside(axis, first + y);
      load_rows<From, float>(r, h < 0 ? nullptr : image + h * r.source.stride[3], p.channels, r.first_source,
                             rows + y * p.source_row);
    }
    if (p.lowers) lower_row(p, source + y * p.source_row, y, planes);
  }
  return source;
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

// A block of filters over a strip.
struct LoweredBlock {
  const LoweredPlan &plan;
  const Epilogue &epilogue;
  Row at; // the strip's first result
  int64_t rows;
  int filters;
  float *place; // of the strip's first result, where tiles store themselves; else NULL
  LoweredSum sum;
  LoweredStore to; // to results, or to the task's sums
  LoweredAhead &ahead;
};

// Rows of whole vectors: a vector of columns of as many rows as a tile holds.
POLYCONV_INLINE void filter_rows(LoweredBlock &b, const float *source) {
  constexpr int kL = kF32Lanes;
  const LoweredPlan &p = b.plan;
  const int64_t most = lowered_vectors(b.filters), tiles = (b.rows + most - 1) / most;
  const int64_t row = b.epilogue.result.stride[3];
  b.sum.tap = p.source_tap;
  b.sum.channel_elements = p.source_channel;
  b.sum.vector = p.rows.axis[1].step * p.source_row;
  b.to.vector = b.place ? row : kL;
  for (int64_t y = 0, tile = 0, n; tile < tiles; y += n, ++tile) { // of nearly equal size
    n = b.rows / tiles + (tile < b.rows % tiles ? 1 : 0);
    for (int64_t x = 0; x < p.width; x += kL) {
      b.ahead.fetch();
      b.sum.source = source + y * b.sum.vector + x;
      if (b.place) b.to.to = b.place + y * row + x;
      lowered_tile_of(b.filters, static_cast<int>(n), b.sum, b.to);
      if (b.place) continue;
      Row at = b.at;
      at.h += y, at.w = x;
      for (int64_t i = 0; i < n; ++i, ++at.h) finish_rows(b.epilogue, b.to.to + i * kL, b.to.stride, b.filters, kL, at);
    }
  }
}

// Where n vectors from result q on lie in rows that are read in place, `rows` of which the strip has.
POLYCONV_INLINE void join_rows(LoweredBlock &b, int64_t q, int64_t n) {
  constexpr int kL = kF32Lanes;
  const LoweredPlan &p = b.plan;
  const int64_t row = p.rows.axis[1].step * p.source_row, results = b.rows * p.width;
  int64_t y = q / p.width, x = q % p.width;
  b.sum.gap = row - p.width;
  for (int64_t i = 0; i < n; ++i, q += kL) {
    const int64_t left = results - q, lanes = left < kL ? left : kL, in_row = p.width - x;
    const uint32_t all = (1u << lanes) - 1, first = in_row < kL ? (1u << in_row) - 1 : all;
    b.sum.place[i] = y * row + x;
    b.sum.first[i] = all & first, b.sum.next[i] = all & ~first;
    x += kL;
    if (x >= p.width) x -= p.width, ++y;
  }
  const bool last = b.at.h + b.rows == p.height && q > results - p.width; // vectors reach into the last row
  b.sum.lies = last ? Lies::kAtEnd : Lies::kJoined;
}

// Results side by side, over row ends: of lowered rows, or of rows where they lie.
POLYCONV_INLINE void filter_along(LoweredBlock &b, const float *source) {
  constexpr int kL = kF32Lanes;
  const LoweredPlan &p = b.plan;
  const int64_t results = b.rows * p.width, most = lowered_vectors(b.filters);
  const int64_t vectors = (results + kL - 1) / kL, tiles = (vectors + most - 1) / most;
  b.sum.tap = p.joins ? p.source_tap : p.tap;
  b.sum.channel_elements = p.joins ? p.source_channel : p.channel_elements;
  b.sum.source = source;
  b.sum.vector = b.to.vector = kL;
  for (int64_t q = 0, tile = 0, n; tile < tiles; q += n * kL, ++tile) { // of nearly equal size
    n = vectors / tiles + (tile < vectors % tiles ? 1 : 0);
    const int64_t left = results - q, count = left < n * kL ? left : n * kL;
    b.ahead.fetch();
    if (p.joins)
      join_rows(b, q, n);
    else
      b.sum.source = source + q;
    if (b.place) b.to.to = b.place + q, b.to.lanes = static_cast<int>(count - (n - 1) * kL);
    lowered_tile_of(b.filters, static_cast<int>(n), b.sum, b.to);
    if (!b.place) finish_tile(p, b.epilogue, b.to.to, b.to.stride, b.filters, q, count, b.at);
  }
}

POLYCONV_NOINLINE void lowered_share(const LoweredPlan &p, const LayerRun &run, const GridShare &share,
                                     const LoweredSource &input) {
  const int64_t group_weights = p.filters * p.channels * p.taps;
  const Epilogue &e = run.epilogue;
  const float *planes = reinterpret_cast<const float *>(share.scratch + p.lowered_at);
  float *sums = reinterpret_cast<float *>(share.scratch + p.sums_at);
  for (int64_t item = share.first_unit; item < share.last_unit; ++item) {
    const LoweredStrip strip = strip_of(p, item);
    LoweredAhead ahead(p, run.input, strip_of(p, item + 1 < share.last_unit ? item + 1 : item), input.bytes);
    const float *source = input.read(p, run.input, strip, share.scratch);
    for (int64_t block = 0; block < p.blocks; ++block) {
      const int64_t first = block * p.filters / p.blocks, last = (block + 1) * p.filters / p.blocks;
      const Row at = {strip.image, strip.group * p.filters + first, strip.d, strip.first_row, 0, 4};
      const int filters = static_cast<int>(last - first);
      const float *weights = static_cast<const float *>(run.weights) + strip.group * group_weights;
      float *place = p.direct ? static_cast<float *>(e.output) + row_offset(e.result, at) : nullptr;
      LoweredStore to = {sums, lowered_vectors(filters) * kF32Lanes, 0, kF32Lanes, false, false, nullptr, &e.rules};
      if (place)
        to = {place,
              e.result.stride[1],
              0,
              kF32Lanes,
              true,
              run.stream != 0,
              e.bias ? static_cast<const float *>(e.bias) + at.k : nullptr,
              &e.rules};
      LoweredBlock b = {p, e, at, strip.rows, filters, place, {}, to, ahead};
      b.sum.taps = p.taps, b.sum.channels = p.channels, b.sum.weights = weights + first * p.channels * p.taps;
      if (p.lowers || p.joins)
        filter_along(b, p.lowers ? planes : source);
      else
        filter_rows(b, source);
    }
  }
  if (run.stream) streamed_stores_done();
}

template <class From>
POLYCONV_INLINE void lowered_share_of(const LoweredPlan &p, const LayerRun &run, const GridShare &share) {
  lowered_share(p, run, share, {read_strip<From>, static_cast<int64_t>(sizeof(From))});
}

void lowered_task(const LoweredPlan &plan, const LayerRun &run, const GridShare &share) {
  switch (plan.rows.source.type) {
    case POLYCONV_F32: return lowered_share_of<float>(plan, run, share);
    case POLYCONV_F16: return lowered_share_of<f16>(plan, run, share);
    case POLYCONV_BF16: return lowered_share_of<bf16>(plan, run, share);
    case POLYCONV_U16: return lowered_share_of<uint16_t>(plan, run, share);
    case POLYCONV_U8: return lowered_share_of<uint8_t>(plan, run, share);
    default: return;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
