// rows.hpp - source rows in a task's scratch: found for a block of result rows, converted, padded, split into planes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/load.hpp"
#include "cpu/direct/plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// One pair of a result row: where its source row lies (a slot of the scratch, before slots are given a coordinate)
// and the tap along that axis.
struct DirectEntry {
  int64_t row, tap;
};

// Appends the source rows of padded coordinate y, backward: taps t whose output o satisfies o step + t dilation = y.
POLYCONV_INLINE int64_t append_backward(const Axis &axis, int64_t y, DirectEntry *entries, int64_t n) {
  for (int64_t t = 0; t < axis.taps; ++t) {
    const int64_t at = y - t * axis.dilation;
    if (at < 0) break;
    if (at % axis.step == 0 && at / axis.step < axis.out) entries[n++] = {at / axis.step, t};
  }
  return n;
}

// The (source coordinate, tap) pairs of result row j in a fixed order; -1 stands for the padding value.
POLYCONV_NOINLINE int64_t find_rows(const DirectPlan &p, const Axis &axis, int64_t j, DirectEntry *entries) {
  int64_t n = 0;
  if (!p.backward) {
    for (int64_t t = 0; t < axis.taps; ++t) {
      const int64_t row = inside(axis, j * axis.step + t * axis.dilation - axis.before);
      if (row >= 0 || !p.skip_padding) entries[n++] = {row, t};
    }
    return n;
  }
  n = append_backward(axis, j + axis.before, entries, n);
  if (p.folds) {
    for (int64_t i = 0; i < axis.before; ++i)
      if (inside(axis, -1 - i) == j) n = append_backward(axis, axis.before - 1 - i, entries, n);
    for (int64_t i = 0; i < axis.after; ++i)
      if (inside(axis, axis.in + i) == j) n = append_backward(axis, axis.before + axis.in + i, entries, n);
  }
  return n;
}

template <class T>
POLYCONV_INLINE void fill(T *out, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) out[i] = value;
}

// `channels` of one source row into scratch, from coordinate `start` on. `in` is the row's element 0 of the first
// channel, NULL for a row of padding.
template <class From, class T>
POLYCONV_NOINLINE void load_rows(const DirectPlan &p, const From *in, int64_t channels, int64_t start, T *out) {
  const T pad = static_cast<T>(p.pad_value);
  if (!in) return fill(out, channels * p.row_elements, pad);
  const Load<From, T> convert(p.zero_point);
  const Axis &axis = p.axis[2];
  const int64_t step = p.source_step, size = p.source.size[4];
  const int64_t stride = p.source.stride[4], channel_stride = p.source.stride[1];
  for (int64_t plane = 0; plane < p.plane_count; ++plane, out += p.plane_elements) {
    const int64_t first = start + p.planes[plane], wanted = p.plane_elements;
    const auto [a, b, last] = axis_run(first, step, size, p.backward ? first + wanted : size + axis.after, wanted);
    const From *run = in + (first + a * step) * stride;
    if (channel_stride == 1 && stride != 1 && channels > 1) {
      load_transposed(convert, run, stride * step, b - a, channels, out + a, p.row_elements);
    } else {
      for (int64_t c = 0; c < channels; ++c)
        load_run(convert, run + c * channel_stride, stride * step, b - a, out + c * p.row_elements + a);
    }
    for (int64_t i = a > 0 ? 0 : b; i < last; i = i + 1 == a ? b : i + 1) { // [0, a) and [b, last)
      const int64_t from = p.backward ? -1 : inside(axis, first + i * step);
      for (int64_t c = 0; c < channels; ++c)
        out[c * p.row_elements + i] = from < 0 ? pad : convert.one(in + from * stride + c * channel_stride);
    }
  }
}

// The source rows that a block of result rows needs, in scratch, and who needs which.
template <class T>
struct SourceScratch {
  T *rows;                      // depth_slots by row_slots, each of `reduce` channels
  DirectEntry *depth, *entries; // pairs on axis D; for each result row a list of row_entries pairs on axis H
  int64_t *counts, *slots;      // pairs of each list; the source row of each slot

  POLYCONV_MEMBER SourceScratch(const DirectPlan &p, char *scratch)
      : rows(reinterpret_cast<T *>(scratch)),
        depth(reinterpret_cast<DirectEntry *>(scratch + p.entries_at)),
        entries(depth + p.depth_entries),
        counts(reinterpret_cast<int64_t *>(scratch + p.slots_at)),
        slots(counts + p.block_rows) {}

  POLYCONV_MEMBER T *row(const DirectPlan &p, int64_t depth_slot, int64_t slot) const {
    return rows + (depth_slot * p.row_slots + slot) * p.reduce * p.row_elements;
  }
};

// A block of neighbouring result rows and the source channels that are summed.
struct SourceBlock {
  int64_t image, first_channel, channels, d, first_row, rows, chunk;
  int64_t depth_count; // pairs on axis D
};

// Lists the pairs of a block, with slots for coordinates, and brings the row of every slot into scratch.
template <class From, class T>
POLYCONV_INLINE void load_block(const DirectPlan &p, const void *source, SourceBlock &block,
                                const SourceScratch<T> &scratch) {
  block.depth_count = find_rows(p, p.axis[0], block.d, scratch.depth);
  int64_t used = 0;
  for (int64_t i = 0; i < block.rows; ++i) {
    DirectEntry *list = scratch.entries + i * p.row_entries;
    scratch.counts[i] = find_rows(p, p.axis[1], block.first_row + i, list);
    for (int64_t j = 0; j < scratch.counts[i]; ++j) {
      int64_t slot = used - 1; // newest first: rows come in order
      while (slot >= 0 && scratch.slots[slot] != list[j].row) --slot;
      if (slot < 0) scratch.slots[slot = used++] = list[j].row;
      list[j].row = slot;
    }
  }
  const From *image = static_cast<const From *>(source) + p.source.offset + block.image * p.source.stride[0] +
                      block.first_channel * p.source.stride[1];
  const int64_t start = p.first_source + block.chunk * (p.backward ? p.chunk / p.step : p.chunk * p.source_step);
  for (int64_t i = 0; i < block.depth_count; ++i) {
    const int64_t d = scratch.depth[i].row;
    for (int64_t slot = 0; slot < used; ++slot) {
      const int64_t h = scratch.slots[slot];
      const From *in = d < 0 || h < 0 ? nullptr : image + d * p.source.stride[2] + h * p.source.stride[3];
      load_rows<From, T>(p, in, block.channels, start, scratch.row(p, i, slot));
    }
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
