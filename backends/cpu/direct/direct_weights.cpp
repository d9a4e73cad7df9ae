// direct_weights.cpp - weight and bias gradients without a matrix: every float type, layout, stride, group and padding
// mode. Input and gradient rows come into scratch; register tiles of weights run over their pixels.
//
// Floor: the multiply-adds at the FMA rate. Each input row is loaded once for each block of output channels, each
// gradient row once for each block of input channels.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/bias/types.hpp"
#include "cpu/common/finish.hpp"
#include "cpu/direct/rows.hpp"
#include "cpu/direct/weights_plan.hpp"
#include "cpu/direct/weights_tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// What a piece owns.
struct WeightsPiece {
  int64_t group, k, k_count, c, c_count; // channels counted inside the group
};

POLYCONV_INLINE WeightsPiece weights_piece(const WeightsPlan &p, int64_t index) {
  const int64_t c = index % p.c_blocks * p.c_block, k = index / p.c_blocks % p.k_blocks * p.k_block;
  const int64_t c_rest = p.group_in - c, k_rest = p.group_out - k;
  return {index / p.c_blocks / p.k_blocks, k, k_rest < p.k_block ? k_rest : p.k_block, c,
          c_rest < p.c_block ? c_rest : p.c_block};
}

// Rows and columns of the output that a unit covers.
struct WeightsUnit {
  SourceBlock source;
  int64_t column, columns;
};

POLYCONV_INLINE WeightsUnit weights_unit(const WeightsPlan &p, const WeightsPiece &piece, int64_t index) {
  const DirectPlan &r = p.rows;
  WeightsUnit unit;
  SourceBlock &source = unit.source;
  source.chunk = index % r.chunks;
  index /= r.chunks;
  source.first_row = index % r.row_blocks * r.block_rows;
  index /= r.row_blocks;
  source.d = index % r.rows[0];
  source.image = index / r.rows[0];
  const int64_t rows = r.rows[1] - source.first_row;
  source.rows = rows < r.block_rows ? rows : r.block_rows;
  source.first_channel = piece.group * p.group_in + piece.c;
  source.channels = piece.c_count;
  source.depth_count = 0;
  unit.column = source.chunk * r.chunk;
  const int64_t columns = r.width - unit.column;
  unit.columns = columns < r.chunk ? columns : r.chunk;
  return unit;
}

// The gradient rows of a unit: [pixel][k_stride] or [k][a whole number of vectors].
template <class From, class T>
POLYCONV_NOINLINE void load_gradient(const WeightsPlan &p, const void *base, const WeightsPiece &piece,
                                     const WeightsUnit &unit, T *out) {
  const polyconv_tensor &t = p.gradient;
  const Load<From, T> convert(0);
  const int64_t k = piece.group * p.group_out + piece.k, pixel = t.stride[4], channel = t.stride[1];
  const int64_t width = (unit.columns + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  for (int64_t i = 0; i < unit.source.rows; ++i, out += p.gradient_elements) {
    const From *in = static_cast<const From *>(base) + t.offset + unit.source.image * t.stride[0] + k * channel +
                     unit.source.d * t.stride[2] + (unit.source.first_row + i) * t.stride[3] + unit.column * pixel;
    if (!p.channels_along) {
      for (int64_t m = 0; m < piece.k_count; ++m) {
        load_run(convert, in + m * channel, pixel, unit.columns, out + m * width);
        fill(out + m * width + unit.columns, width - unit.columns, T(0));
      }
      continue;
    }
    if (piece.k_count < p.k_stride)
      __builtin_memset(out, 0, static_cast<size_t>(unit.columns * p.k_stride) * sizeof(T));
    if (channel != 1 && pixel == 1)
      load_transposed(convert, in, channel, piece.k_count, unit.columns, out, p.k_stride);
    else
      for (int64_t x = 0; x < unit.columns; ++x)
        load_run(convert, in + x * pixel, channel, piece.k_count, out + x * p.k_stride);
  }
}

// Adds one tap of D and H: every (input row, gradient row) pair of the unit, every column.
template <class T>
POLYCONV_INLINE void add_tap(const WeightsPlan &p, const WeightsPiece &piece, const WeightsUnit &unit,
                             const WeightsPair<T> *pairs, int64_t count, const int64_t *columns, T *sums) {
  const int64_t all = piece.c_count * p.rows.axis[2].taps;
  const int most = p.channels_along ? kWeightsColumns : kWeightsAcross;
  const int64_t width = (unit.columns + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
  for (int64_t column = 0; column < all; column += most) {
    const int u = all - column < most ? static_cast<int>(all - column) : most;
    T *to = sums + column * p.column_elements;
    if (p.channels_along) {
      weights_along_of(u, piece.k_count > kLanes<T> ? 2 : 1, pairs, count, columns + column, unit.columns, p.k_stride,
                       to);
      continue;
    }
    WeightsPair<T> shifted[kMostPairs];
    for (int64_t m = 0; m < piece.k_count; m += kWeightsChannels) {
      for (int64_t i = 0; i < count; ++i) shifted[i] = {pairs[i].input, pairs[i].gradient + m * width};
      const int64_t rest = piece.k_count - m;
      weights_across_of(rest < kWeightsChannels ? static_cast<int>(rest) : kWeightsChannels, u, shifted, count,
                        columns + column, unit.columns, width, p.k_block, to + m * kLanes<T>);
    }
  }
}

template <class T>
POLYCONV_INLINE void add_unit(const WeightsPlan &p, const WeightsRun &r, const WeightsPiece &piece, WeightsUnit &unit,
                              const SourceScratch<T> &source, char *scratch, T *sums) {
  for_gradient_type<T>(p.rows.source.type, [&](auto row) {
    load_block<typename decltype(row)::From, T>(p.rows, r.input, unit.source, source);
  });
  T *gradient = reinterpret_cast<T *>(scratch + p.gradient_at);
  for_gradient_type<T>(p.gradient.type, [&](auto row) {
    load_gradient<typename decltype(row)::From, T>(p, r.gradient, piece, unit, gradient);
  });
  const int64_t *columns = reinterpret_cast<const int64_t *>(scratch + p.columns_at);
  WeightsPair<T> pairs[kMostPairs];
  const DirectPlan &rows = p.rows;
  const int64_t tap_elements = p.c_block * rows.axis[2].taps * p.column_elements;
  for (int64_t d = 0; d < unit.source.depth_count; ++d)
    for (int64_t h = 0; h < rows.axis[1].taps; ++h) {
      int64_t count = 0;
      for (int64_t i = 0; i < unit.source.rows; ++i)
        for (int64_t j = 0; j < source.counts[i]; ++j) {
          const DirectEntry &entry = source.entries[i * rows.row_entries + j];
          if (entry.tap == h) pairs[count++] = {source.row(rows, d, entry.row), gradient + i * p.gradient_elements};
        }
      const int64_t tap = source.depth[d].tap * rows.axis[1].taps + h;
      add_tap(p, piece, unit, pairs, count, columns, sums + tap * tap_elements);
    }
}

// The sum of one weight: a lane, or all lanes of its vector.
template <class T>
POLYCONV_INLINE T weight_sum(const WeightsPlan &p, const T *sums, int64_t k) {
  if (p.channels_along) return sums[k];
  T value = 0;
  for (int lane = 0; lane < kLanes<T>; ++lane) value += sums[k * kLanes<T> + lane];
  return value;
}

// A few (channel, tap) of a piece on their way to memory, in its order: for each output channel they are stored in runs
// of one stride, while their sums stay in the L1 cache.
template <class T>
struct WeightsWriter {
  const WeightsPlan &plan;
  void *weights;
  int64_t offset, channels; // of the piece's first output channel; how many
  const T *sums[kRowChunk];
  int64_t at[kRowChunk]; // elements after the output channel's first
  int count;

  POLYCONV_MEMBER void put(const T *sum, int64_t to) {
    if (count == kRowChunk) flush();
    sums[count] = sum;
    at[count++] = to;
  }
  POLYCONV_MEMBER void flush() {
    T values[kRowChunk];
    const polyconv_tensor &w = plan.weights;
    for (int begin = 0, end; begin < count; begin = end) {
      const int64_t step = begin + 1 < count ? at[begin + 1] - at[begin] : 1;
      for (end = begin + 1; end < count && at[end] - at[end - 1] == step;) ++end;
      for (int64_t k = 0; k < channels; ++k) {
        for (int i = begin; i < end; ++i) values[i - begin] = weight_sum(plan, sums[i], k);
        scatter_typed(w.type, weights, offset + k * w.stride[0] + at[begin], step, end - begin, values);
      }
    }
    count = 0;
  }
};

// The sums of one piece as stored weights.
template <class T>
POLYCONV_NOINLINE void store_weights(const WeightsPlan &p, const WeightsRun &r, const WeightsPiece &piece,
                                     const T *sums) {
  const polyconv_tensor &w = p.weights;
  const int64_t columns = p.rows.axis[2].taps;
  const int64_t across = w.stride[4] < 0 ? -w.stride[4] : w.stride[4];
  const bool channels_inside = w.stride[1] < across;
  const int64_t outer = channels_inside ? 1 : piece.c_count, inner = channels_inside ? piece.c_count : 1;
  const int64_t first = w.offset + (piece.group * p.group_out + piece.k) * w.stride[0];
  WeightsWriter<T> writer = {p, r.weights, first, piece.k_count, {}, {}, 0};
  for (int64_t o = 0; o < outer; ++o) {
    const T *row = sums + o * columns * p.column_elements;
    for (int64_t d = 0; d < p.rows.axis[0].taps; ++d)
      for (int64_t h = 0; h < p.rows.axis[1].taps; ++h, row += p.c_block * columns * p.column_elements) {
        int64_t to = (piece.c + o) * w.stride[1] + d * w.stride[2] + h * w.stride[3];
        for (int64_t t = 0; t < columns; ++t, to += w.stride[4])
          for (int64_t i = 0; i < inner; ++i)
            writer.put(row + (i * columns + t) * p.column_elements, to + i * w.stride[1]);
      }
  }
  writer.flush();
}

template <class T>
POLYCONV_NOINLINE void weights_typed(const WeightsPlan &p, const WeightsRun &r, const WeightsShare &share) {
  const WeightsPiece piece = weights_piece(p, share.piece);
  const SourceScratch<T> source(p.rows, share.scratch);
  int64_t *columns = reinterpret_cast<int64_t *>(share.scratch + p.columns_at);
  for (int64_t c = 0, i = 0; c < piece.c_count; ++c)
    for (int64_t t = 0; t < p.rows.axis[2].taps; ++t) columns[i++] = c * p.rows.row_elements + p.rows.taps[t].source;
  T *sums = static_cast<T *>(share.sums);
  __builtin_memset(sums, 0, static_cast<size_t>(p.sums) * sizeof(T));
  const int64_t first = share.split * p.units / p.splits, last = (share.split + 1) * p.units / p.splits;
  for (int64_t i = first; i < last; ++i) {
    WeightsUnit unit = weights_unit(p, piece, i);
    add_unit(p, r, piece, unit, source, share.scratch, sums);
  }
  if (p.splits == 1) store_weights(p, r, piece, sums);
}

// Adds the splits of one piece in order, into the first, and stores.
template <class T>
POLYCONV_NOINLINE void join_typed(const WeightsPlan &p, const WeightsRun &r, int64_t piece, T *partial) {
  for (int64_t split = 1; split < p.splits; ++split)
    for (int64_t i = 0; i < p.sums; i += kLanes<T>)
      store(partial + i, load(partial + i) + load(partial + split * p.sums + i));
  store_weights(p, r, weights_piece(p, piece), partial);
}

void weights_sum(const WeightsPlan &plan, const WeightsRun &run, const WeightsShare &share) {
  if (plan.rows.source.type == POLYCONV_F64)
    weights_typed<double>(plan, run, share);
  else
    weights_typed<float>(plan, run, share);
}

void weights_join(const WeightsPlan &plan, const WeightsRun &run, int64_t piece, void *partial) {
  if (plan.weights.type == POLYCONV_F64)
    join_typed(plan, run, piece, static_cast<double *>(partial));
  else
    join_typed(plan, run, piece, static_cast<float *>(partial));
}

} // namespace polyconv::cpu::POLYCONV_ISA
