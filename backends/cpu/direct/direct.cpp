// direct.cpp - the general convolution without a matrix: forward and backward data (hence transposed), every type,
// layout, stride, group and padding mode. Rows of the source are brought into scratch once for a block of result rows;
// register tiles run over channels and taps.
//
// Floor: the multiply-adds at the FMA rate; each source element is loaded once for each tap of D and (1 + (taps of H) /
// (rows of a block)) times. It beats the matrix product where output channels are few, and serves what that rejects.
//
// A task: piece by piece, source rows are brought into scratch, then every block of result channels runs over the
// piece's rows.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/finish.hpp"
#include "cpu/common/types.hpp"
#include "cpu/direct/rows.hpp"
#include "cpu/direct/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// What one piece computes.
struct DirectPiece {
  SourceBlock source;
  int64_t group, first_block, last_block;
};

// The scratch of one task by type.
template <class T>
struct DirectScratch {
  SourceScratch<T> source;
  T *sums, *phase_sums;
  DirectTerm<T> *terms;

  POLYCONV_MEMBER DirectScratch(const DirectPlan &p, char *scratch)
      : source(p, scratch),
        sums(reinterpret_cast<T *>(scratch + p.sums_at)),
        phase_sums(reinterpret_cast<T *>(scratch + p.phase_sums_at)),
        terms(reinterpret_cast<DirectTerm<T> *>(scratch + p.terms_at)) {}
};

POLYCONV_INLINE DirectPiece piece_of(const DirectPlan &p, int64_t index) {
  DirectPiece piece;
  SourceBlock &source = piece.source;
  const int64_t part = index % p.block_parts;
  index /= p.block_parts;
  source.chunk = index % p.chunks;
  index /= p.chunks;
  source.first_row = index % p.row_blocks * p.block_rows;
  index /= p.row_blocks;
  source.d = index % p.rows[0];
  index /= p.rows[0];
  piece.group = index % p.groups;
  source.image = index / p.groups;
  source.first_channel = piece.group * p.reduce;
  source.channels = p.reduce;
  const int64_t rest = p.rows[1] - source.first_row;
  source.rows = rest < p.block_rows ? rest : p.block_rows;
  source.depth_count = 0;
  piece.first_block = part * p.blocks / p.block_parts;
  piece.last_block = (part + 1) * p.blocks / p.block_parts;
  return piece;
}

// The terms of row i of the piece against one block of weights.
template <class T>
POLYCONV_INLINE int64_t list_terms(const DirectPlan &p, const DirectPiece &piece, const DirectScratch<T> &scratch,
                                   int64_t i, const T *weights) {
  const SourceScratch<T> &source = scratch.source;
  const int64_t tap_elements = p.reduce * p.axis[2].taps * p.block;
  int64_t n = 0;
  for (int64_t d = 0; d < piece.source.depth_count; ++d)
    for (int64_t h = 0; h < source.counts[i]; ++h) {
      const DirectEntry &entry = source.entries[i * p.row_entries + h];
      const int64_t tap = source.depth[d].tap * p.axis[1].taps + entry.tap;
      scratch.terms[n++] = {source.row(p, d, entry.row), weights + tap * tap_elements};
    }
  return n;
}

// Sums of one row, results [0, width) of the chunk, in tiles of nearly equal size.
template <class T>
POLYCONV_INLINE void sum_row(const DirectPlan &p, DirectSum<T> &s, int64_t width, int channels,
                             const DirectScratch<T> &scratch) {
  constexpr int kL = kLanes<T>;
  for (int64_t phase = 0; phase < p.phase_count && phase < width; ++phase) {
    s.taps = p.taps + p.phases[phase].first_tap;
    s.tap_count = p.phases[phase].taps;
    const int64_t count = (width - phase + p.step - 1) / p.step; // results of this phase
    const int64_t units = p.channels_along ? count : (count + kL - 1) / kL;
    const int64_t most = p.channels_along ? kDirectPixels : kDirectVectors;
    const int64_t tiles = (units + most - 1) / most;
    T *sums = p.channels_along ? scratch.sums + phase * p.sums_stride
                               : (p.step == 1 ? scratch.sums : scratch.phase_sums + phase * p.phase_elements);
    for (int64_t tile = 0, at = 0; tile < tiles; ++tile) {
      const int64_t size = units / tiles + (tile < units % tiles ? 1 : 0);
      if (p.channels_along)
        direct_tile_of<T, true>(static_cast<int>(size), channels > kL ? 2 : 1, s, at,
                                sums + at * p.step * p.sums_stride, p.step * p.sums_stride);
      else
        direct_tile_of<T, false>(channels, static_cast<int>(size), s, at * kL, sums + at * kL,
                                 p.step == 1 ? p.sums_stride : p.phase_count * p.phase_elements);
      at += size;
    }
  }
  if (p.channels_along || p.step == 1) return;
  for (int k = 0; k < channels; ++k)
    for (int64_t phase = 0; phase < p.phase_count; ++phase) {
      const T *from = scratch.phase_sums + (k * p.phase_count + phase) * p.phase_elements;
      for (int64_t x = phase; x < width; x += p.step) scratch.sums[k * p.sums_stride + x] = *from++;
    }
}

// Backward through padding that reads elements: sums of coordinates outside are added to those inside.
template <class T>
POLYCONV_NOINLINE void fold_row(const DirectPlan &p, T *sums) {
  const Axis &axis = p.axis[2];
  const int64_t along = p.channels_along ? 1 : p.sums_stride, across = p.channels_along ? p.sums_stride : 1;
  for (int64_t i = 0; i < axis.before + axis.after; ++i) {
    const bool left = i < axis.before;
    const int64_t to = axis.before + (left ? inside(axis, -1 - i) : inside(axis, axis.in + i - axis.before));
    const int64_t from = left ? axis.before - 1 - i : axis.in + i;
    for (int64_t k = 0; k < p.block; ++k) sums[k * along + to * across] += sums[k * along + from * across];
  }
}

// A piece whose source rows are in scratch.
template <class T>
POLYCONV_NOINLINE void run_piece(const DirectPlan &p, const LayerRun &r, const DirectPiece &piece,
                                 const DirectScratch<T> &scratch) {
  const SourceBlock &rows = piece.source;
  const int64_t first = rows.chunk * p.chunk, rest = p.width - first, width = rest < p.chunk ? rest : p.chunk;
  const int64_t before = p.folds ? p.axis[2].before : 0, results = p.folds ? p.axis[2].in : width;
  DirectSum<T> s;
  s.terms = scratch.terms;
  s.channels = p.reduce;
  s.row_elements = p.row_elements;
  s.weight_elements = p.axis[2].taps * p.block;
  const int64_t block_elements = p.axis[0].taps * p.axis[1].taps * p.reduce * p.axis[2].taps * p.block;
  for (int64_t block = piece.first_block; block < piece.last_block; ++block) {
    const T *weights = static_cast<const T *>(r.weights) + (piece.group * p.blocks + block) * block_elements;
    const int64_t left = p.produce - block * p.block;
    const int channels = static_cast<int>(left < p.block ? left : p.block);
    for (int64_t i = 0; i < rows.rows; ++i) {
      s.term_count = list_terms(p, piece, scratch, i, weights);
      sum_row(p, s, width, channels, scratch);
      if (p.folds) fold_row(p, scratch.sums);
      const int64_t k = piece.group * p.produce + block * p.block;
      const Row row = {rows.image, k, rows.d, rows.first_row + i, first, p.channels_along ? 1 : 4};
      if (p.channels_along)
        finish_rows(r.epilogue, scratch.sums + before * p.sums_stride, p.sums_stride, results, channels, row);
      else
        finish_rows(r.epilogue, scratch.sums + before, p.sums_stride, channels, results, row);
    }
  }
}

template <class From, class T>
POLYCONV_NOINLINE void gather_share(const DirectPlan &p, const LayerRun &r, const ItemShare &share) {
  const DirectScratch<T> scratch(p, share.scratch);
  for (int64_t i = share.first; i < share.last; ++i) {
    DirectPiece piece = piece_of(p, i);
    load_block<From, T>(p, r.input, piece.source, scratch.source);
    run_piece(p, r, piece, scratch);
  }
}

void direct_task(const DirectPlan &plan, const LayerRun &run, const ItemShare &share) {
  for_types(plan.source.type, plan.epilogue.sum_type == POLYCONV_S32, [&](auto row) {
    gather_share<typename decltype(row)::From, typename decltype(row)::Sum>(plan, run, share);
  });
}

} // namespace polyconv::cpu::POLYCONV_ISA
