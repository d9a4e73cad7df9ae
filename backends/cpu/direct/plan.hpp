// plan.hpp - the geometry of the direct kernel, decided at plan time and read by every pass.
//
// Forward and backward data are one computation, "gather": a row of the result along W is a sum over terms, each a
// row of the source (input forward, output gradient backward) with a row of taps; `reduce` source channels and the
// taps of W are summed inside a term:
//
//   result[k][x] = sum over terms, c, t of row(term)[c][x * step + t * dilation] * weights(term)[c][t][k]
//
// Source rows are converted, padded and (with a stride) split into `step` planes in a task's scratch, so that every
// tap reads side by side. Backward, the results of one remainder modulo the stride form a phase with its own taps.
// The order of each sum, terms then channels then taps, is a function of the problem alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

// One tap along W: element offsets in a scratch row and in packed weights.
struct DirectTap {
  int64_t source, weight;
};

// Results first, first + step, ... of a row, and their taps.
struct DirectPhase {
  int64_t first_tap, taps;
};

struct DirectPlan {
  polyconv_tensor source;
  Epilogue epilogue;
  int32_t backward, channels_along; // channels_along: result channels along the vectors, else W
  int32_t zero_point;
  int32_t skip_padding; // source rows that are all zeros are left out
  int32_t folds;        // backward through mirrored, replicated or periodic padding: padded results fold back
  double pad_value;     // zero point subtracted
  Axis axis[3];

  int64_t images, groups, reduce, produce; // channels of a group: summed over, and of the result
  int64_t block, blocks;                   // result channels of a packed block; blocks of a group
  int64_t rows[3];                         // of the result

  // W. Results are counted in padded coordinates where `folds`, else from 0.
  int64_t step, phase_count; // between results of a phase; phases
  int64_t width, chunk, chunks;
  int64_t first_source; // source coordinate of the first element of chunk 0's rows
  int64_t source_step;  // source coordinates a result of a phase advances by
  int32_t apart;        // taps read so far from each other that each has a plane of its own
  int64_t plane_count;  // planes of a scratch row: the remainders modulo source_step that taps read, or the taps
  int64_t plane_elements, row_elements;
  const int64_t *planes; // their remainders, or where taps begin to read
  const DirectPhase *phases;
  const DirectTap *taps;

  // A piece: one image, group, depth, `block_rows` rows of one chunk, and a share of the blocks.
  int64_t block_rows, row_blocks, block_parts, pieces;
  int64_t depth_slots, row_slots;      // rows that its scratch holds
  int64_t depth_entries, row_entries;  // most (source row, tap) pairs of one result row, on axes D and H
  int64_t sums_stride, phase_elements; // of the buffer of sums
  int64_t tasks;

  // Scratch of one task, offsets in bytes.
  int64_t sums_at, phase_sums_at, entries_at, slots_at, terms_at, scratch_bytes;

  int64_t packed_elements; // of the weights
  double serial_us;        // of one thread, tensors in the cache
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, direct_task, const DirectPlan &plan, const LayerRun &run, const ItemShare &share)

} // namespace polyconv::cpu
