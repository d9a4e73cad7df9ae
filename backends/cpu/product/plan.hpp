// plan.hpp - the geometry of weight gradients as a matrix product, decided at plan time and read by every pass.
//
//   weights[k][c][tap] = sum over pixels of gradient[pixel][k] * input[pixel at tap][c]
//
// Rows are (tap, input channel), columns output channels, and the depth is the pixels of the whole batch. A unit is a
// few hundred pixels: some lines of the output, or a part of one. For each unit a task brings both factors into its
// scratch, as panels whose pixels lie one after the other: of `tall` input channels (rows of a register tile), and of
// `wide` output channels (two vectors). Each pair of panels and each tap is one tile, whose sums stay in registers for
// all pixels of the unit.
//
// Depthwise, where there is no product to make, panels of both kinds are one vector of the same channels, and a tile is
// a row of taps.
//
// A piece owns a block of panels of both kinds. Where pieces are few, the units are cut into `splits`, a number that
// depends on the problem alone; their sums are added in order afterwards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"

namespace polyconv::cpu {

// Where the sum of one (input channel, tap) of a piece lies, and its weight, from the piece's first.
struct ProductColumn {
  int64_t sum, weight; // elements: of the sums of one wide panel, and of the weights of one output channel
};

// Memory from `at` up to `end`.
struct ProductStretch {
  const char *at, *end;
};
inline constexpr int64_t kProductStretches = 1023; // that a unit may be made of, for what is fetched ahead

struct ProductPlan {
  polyconv_tensor input, gradient, weights;
  Axis axis[3]; // as walked: one line of all pixels where `flat`
  double pad_value;
  int32_t clips;    // padding is left out: zero padding, one tap of W at a time
  int32_t merged;   // the taps of W are rows of a tile too: few input channels
  int32_t joins;    // lines that follow each other in scratch are one run
  int32_t diagonal; // one channel a group: each channel of the gradient meets one of the input, lane by lane

  int64_t groups, group_in, group_out;
  int64_t images, line_taps;   // taps of D and H
  int64_t lines, columns;      // of the output: all lines of the batch, and pixels of one
  int64_t chunk, chunks;       // columns of a unit
  int64_t block_lines, blocks; // lines of a unit
  int64_t units;

  int64_t tall, tall_panels, tall_block; // input channels of a panel; panels of a group, and of a piece
  int64_t tall_width;                    // elements of a pixel of a tall panel
  int64_t wide, wide_panels, wide_block;
  int64_t tile_rows;                    // most rows of a register tile
  int64_t pitch, step;                  // input columns between stored ones; stored ones between output columns
  int64_t row_columns;                  // stored columns of an input row
  int64_t rows;                         // most input rows of a unit
  int64_t tall_elements, wide_elements; // of a panel in scratch
  int64_t tile_elements, sums;          // sums of a pair of panels, and of a piece
  int64_t tall_pieces, wide_pieces, pieces, splits;
  int64_t tasks;
  const ProductColumn *table[2]; // in the order of the weights, of a whole and of the last block of input channels
  int64_t table_size[2];

  // Scratch of one task, offsets in bytes. The sums of all splits lie behind every task's.
  int64_t wide_at, rows_at, list_at, runs_at, ahead_at, sums_at, scratch_bytes, partial_bytes;
};

// One item of work: a split of a piece, or the end of one of its wide panels (`wide`, the splits' sums from `sums` on).
struct ProductShare {
  int64_t piece, split, wide;
  char *scratch;
  void *sums;
};

POLYCONV_ISA_FUNCTION(void, product_sum, const ProductPlan &plan, const WeightsRun &run, const ProductShare &share)
POLYCONV_ISA_FUNCTION(void, product_end, const ProductPlan &plan, const WeightsRun &run, const ProductShare &share)

} // namespace polyconv::cpu
