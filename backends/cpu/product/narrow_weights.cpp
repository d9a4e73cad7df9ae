// narrow_weights.cpp - weight gradients of groups of few channels or filters, f32, channels side by side: an outer
// product at each pixel, one tap at a time, nothing packed. Any kernel, stride and dilation; zero padding is left out.
//
// Floor: the multiply-adds. Each has a load of its own, or a pick where a vector is of several groups: 85 to 95 % of
// the rate, half to two thirds with picks.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/product/narrow_plan.hpp"
#include "cpu/product/store.hpp"
#include "cpu/tile/pick.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Channels across that meet a vector at once: their sums fill half of the registers.
// The plan cuts them into pieces by many_registers (isa.hpp), which is the same question.
constexpr int kNarrowMost = POLYCONV_VECTOR_REGISTERS / 2;

// One tap's rows of pixels, from the first channel of each side on.
struct NarrowTile {
  const float *along, *across;
  int64_t along_row, along_column, across_row, across_column, rows, columns;
  int along_count, across_count; // channels that exist, up to a vector
  const int32_t *picks;
  float *sums; // a vector for each channel across
};

// Sums of a few channels would wait for each multiply-add: pixels in turn have sums of their own, added at the end.
constexpr int narrow_chains(int channels) {
  return channels <= 2 ? 4 : channels <= 5 ? 2 : 1;
}

// Adds a pixel to the sums of J channels across.
template <int J, bool kPicks>
POLYCONV_INLINE void narrow_pixel(const NarrowTile &t, const float *along, const float *across, S32 picks,
                                  F32 (&sums)[J]) {
  const F32 vector = loaded(load_partial(along, t.along_count));
  const F32 channels = kPicks ? loaded(load_partial(across, t.across_count)) : F32{};
#pragma GCC unroll 16
  for (int j = 0; j < J; ++j)
    sums[j] = multiply_add(kPicks ? picked(channels, picks + j) : splat(across[j]), vector, sums[j]);
}

// Floor: J multiply-adds a pixel for J + 1 loads, or 2 and J picks.
template <int J, bool kPicks>
POLYCONV_NOINLINE void narrow_tile(const NarrowTile &t) {
  constexpr int kChains = narrow_chains(J);
  F32 sums[kChains][J] = {};
  S32 picks = {};
  if (kPicks) __builtin_memcpy(&picks, t.picks, sizeof picks);
#pragma GCC unroll 16
  for (int j = 0; j < J; ++j) sums[0][j] = load(t.sums + j * kF32Lanes);
  for (int64_t y = 0; y < t.rows; ++y) {
    const float *along = t.along + y * t.along_row, *across = t.across + y * t.across_row;
    int64_t x = t.columns;
    for (; x >= kChains; x -= kChains)
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain, along += t.along_column, across += t.across_column)
        narrow_pixel<J, kPicks>(t, along, across, picks, sums[chain]);
    if (kChains > 1)
      for (; x > 0; --x, along += t.along_column, across += t.across_column)
        narrow_pixel<J, kPicks>(t, along, across, picks, sums[0]);
  }
#pragma GCC unroll 16
  for (int j = 0; j < J; ++j) {
#pragma GCC unroll 4
    for (int chain = 1; chain < kChains; ++chain) sums[0][j] += sums[chain][j];
    store(t.sums + j * kF32Lanes, sums[0][j]);
  }
}

// The tile of 1 to J channels across; several groups of at least two fill a vector with half as many.
template <bool kPicks, int J = kPicks ? kF32Lanes / 2 : kNarrowMost>
POLYCONV_INLINE void narrow_tile_of(int64_t channels, const NarrowTile &tile) {
  if constexpr (J > 1)
    if (channels < J) return narrow_tile_of<kPicks, J - 1>(channels, tile);
  narrow_tile<J, kPicks>(tile);
}

// All channels across of one tap.
POLYCONV_INLINE void multiply_narrow(const NarrowPlan &p, NarrowTile tile) {
  if (p.vector_groups > 1) return narrow_tile_of<true>(p.across, tile);
  for (int64_t left = p.across; left > 0; left -= p.piece) {
    narrow_tile_of<false>(left < p.piece ? left : p.piece, tile);
    tile.across += p.piece, tile.sums += p.piece * kF32Lanes;
  }
}

// Which channels a vector has: of both sides the first and how many.
struct NarrowVector {
  int64_t group, along, across, along_count, across_count;
};
POLYCONV_INLINE NarrowVector narrow_vector(const NarrowPlan &p, int64_t vector) {
  const int64_t own = p.group_vectors, group = own > 1 ? vector / own : vector * p.vector_groups;
  const int64_t inside = own > 1 ? vector % own * kF32Lanes : 0, left = p.groups - group;
  const int64_t several = left < p.vector_groups ? left : p.vector_groups;
  const int64_t count = several > 1 ? several * p.along : p.along - inside;
  return {group, group * p.along + inside, group * p.across, count < kF32Lanes ? count : kF32Lanes, several * p.across};
}

// A unit: some rows and columns of one image and depth.
struct NarrowUnit {
  int64_t image, depth;
  AxisOutputs rows, columns;
};
POLYCONV_INLINE AxisOutputs overlap(const AxisOutputs &a, const AxisOutputs &b) {
  return {a.first > b.first ? a.first : b.first, a.last < b.last ? a.last : b.last};
}
POLYCONV_INLINE NarrowUnit narrow_unit(const NarrowPlan &p, int64_t index) {
  const int64_t column = index % p.chunks * p.columns, row = index / p.chunks % p.row_groups * p.rows;
  const int64_t plane = index / p.chunks / p.row_groups;
  return {plane / p.axis[0].out, plane % p.axis[0].out, overlap({row, row + p.rows}, {0, p.axis[1].out}),
          overlap({column, column + p.columns}, {0, p.axis[2].out})};
}

// One unit, one vector: all taps that meet the input.
POLYCONV_NOINLINE void narrow_taps(const NarrowPlan &p, const NarrowRun &r, const NarrowUnit &u, const NarrowVector &v,
                                   float *sums) {
  const Axis &d = p.axis[0], &h = p.axis[1], &w = p.axis[2];
  const polyconv_tensor &in = p.input, &out = p.gradient;
  const float *input = static_cast<const float *>(r.input) + in.offset + u.image * in.stride[0];
  const float *gradient =
      static_cast<const float *>(r.gradient) + out.offset + u.image * out.stride[0] + u.depth * out.stride[2];
  const int64_t in_row = h.step * in.stride[3], in_column = w.step * in.stride[4];
  NarrowTile tile = {};
  tile.along_count = static_cast<int>(v.along_count), tile.across_count = static_cast<int>(v.across_count);
  tile.picks = p.picks;
  tile.along_row = p.turned ? in_row : out.stride[3], tile.along_column = p.turned ? in_column : out.stride[4];
  tile.across_row = p.turned ? out.stride[3] : in_row, tile.across_column = p.turned ? out.stride[4] : in_column;
  for (int64_t t = 0; t < d.taps; ++t) {
    if (u.depth < p.inside[0][t].first || u.depth >= p.inside[0][t].last) continue;
    const float *plane = input + (u.depth * d.step + t * d.dilation - d.before) * in.stride[2];
    for (int64_t y = 0; y < h.taps; ++y) {
      const AxisOutputs rows = overlap(p.inside[1][y], u.rows);
      if (rows.first >= rows.last) continue;
      tile.rows = rows.last - rows.first;
      for (int64_t x = 0; x < w.taps; ++x) {
        const AxisOutputs columns = overlap(p.inside[2][x], u.columns);
        if (columns.first >= columns.last) continue;
        tile.columns = columns.last - columns.first;
        const float *source = plane + (rows.first * h.step + y * h.dilation - h.before) * in.stride[3] +
                              (columns.first * w.step + x * w.dilation - w.before) * in.stride[4];
        const float *result = gradient + rows.first * out.stride[3] + columns.first * out.stride[4];
        tile.along = (p.turned ? source : result) + v.along;
        tile.across = (p.turned ? result : source) + v.across;
        tile.sums = sums + ((t * h.taps + y) * w.taps + x) * p.across * kF32Lanes;
        multiply_narrow(p, tile);
      }
    }
  }
}

void narrow_weights_sum(const NarrowPlan &p, const NarrowRun &r, const NarrowShare &share) {
  float *const sums = r.sums + share.split * p.split_elements;
  const int64_t first = share.part * p.vectors / p.parts, last = (share.part + 1) * p.vectors / p.parts;
  __builtin_memset(sums + first * p.vector_elements, 0,
                   static_cast<size_t>((last - first) * p.vector_elements) * sizeof(float));
  const int64_t end = (share.split + 1) * p.units / p.splits;
  for (int64_t i = share.split * p.units / p.splits; i < end; ++i) {
    const NarrowUnit unit = narrow_unit(p, i);
    for (int64_t vector = first; vector < last; ++vector)
      narrow_taps(p, r, unit, narrow_vector(p, vector), sums + vector * p.vector_elements);
  }
}

// Adds the splits' sums of a vector in order, and stores its weights.
void narrow_weights_end(const NarrowPlan &p, const NarrowRun &r, int64_t vector) {
  const polyconv_tensor &w = p.weights;
  const int64_t size = p.taps * p.across;
  float *const sums = r.sums + vector * p.vector_elements;
  add_splits(p.splits, p.split_elements, p.vector_elements, sums);
  const NarrowVector v = narrow_vector(p, vector);
  if (!p.turned)
    return store_lanes(w, p.table, size, sums, static_cast<int>(v.along_count), r.weights,
                       w.offset + v.along * w.stride[0]);
  const bool side_by_side = p.vector_groups == 1 && w.stride[1] == 1;
  for (int64_t lane = 0; lane < v.along_count; ++lane) {
    const int64_t channel = v.along + lane, group = channel / p.along;
    float *const to = static_cast<float *>(r.weights) + w.offset + group * p.group_out * w.stride[0] +
                      channel % p.along * w.stride[1];
    if (side_by_side) {
      for (int64_t i = 0; i < size; ++i)
        store_partial(to + p.table[i].weight, load(sums + p.table[i].sum), static_cast<int>(v.along_count));
      return;
    }
    for (int64_t i = 0; i < size; ++i) to[p.table[i].weight] = sums[p.table[i].sum + lane];
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
