// plan.hpp - the geometry of the dense kernel, decided at plan time and read by every pass.
//
//   result[pixel][output channel] = sum over taps, channels of source[pixel at tap][channel] *
//   weights[tap][channel][..]
//
// Output channels lie along the vectors, pixels of one output line are the rows of a register tile, and the whole
// reduction stays in registers. Source pixels are read in place where their channels lie side by side as the
// arithmetic wants them; else the lines that a block of output lines needs are brought into a "strip", a task's scratch
// in the L2 cache: converted, channels innermost. Zero padding is not stored but left out: lines by not listing them,
// columns by tiles that leave their first or last pixel out. Where that is not enough (wide or valued padding, few
// channels) the strip holds the padding, and all taps of a line are one run of it.
//
// Results of one pixel are a matrix by a vector; of many images, by as many vectors: their columns are the images.
//
// Tiles of one vector (a group of up to 16 filters) would read as much as they multiply: up to three taps of W share
// what they read there (`shares`), and their sums run over the channels first.
//
// The order of each sum (blocks of channels, taps, channels) is a function of problem and config alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

constexpr int kDenseTaps = 3;                              // that share what they read, at most
constexpr int64_t kDenseLong = 28;                         // pixels of tiles of one vector and one tap
constexpr int64_t kDensePairLeast = 4, kDensePairMost = 8; // pixels of tiles that may be of two lines

// What an element of the strip is. kPairs: two 16-bit integers, s32 sums. Of the passes with instructions for it:
// kBf16: two bf16, f32 sums; kQuads: four u8 (s8 with its sign turned), by s8 weights, s32 sums.
enum class DenseArithmetic : int32_t { kF32, kF64, kPairs, kBf16, kQuads };

struct DensePlan {
  polyconv_tensor input; // strides but that of channels in elements where it is read in place
  Epilogue epilogue;
  DenseArithmetic arithmetic;
  int32_t zero_point; // subtracted from quantised inputs
  int32_t offset; // kQuads: what inputs are too large by as they are multiplied; its share of each sum is subtracted
  double pad_value;
  Axis axis[3];
  const AxisOutputs *inside; // per tap of W; all columns where the strip holds the padding

  int32_t in_place;     // source pixels are read where they lie
  int32_t flat;         // one tap: the columns of a line are all pixels of an image, or of all images
  int32_t padded;       // the strip holds the padding
  int32_t one_run;      // and a line's taps are neighbours there: one run
  int32_t one_stride;   // flat, and all pixels of an input image lie at one stride
  int32_t skips_lines;  // lines of zero padding are left out
  int32_t along_w;      // results are stored along W (channels first), so tiles are transposed
  int32_t adds;         // the epilogue is simple but for an f32 residual
  int32_t stores_tiles; // tiles go from registers to the result
  int32_t over_images;  // several taps: the columns of a line are the images, of one result each
  int32_t chains;       // one column, so that tiles are of one pixel: several chains of sums
  int32_t shares;       // tiles of one vector, up to three taps of W: an element is read once for all; the step, 1 or 2
  int32_t skips_first, skips_last; // there: the first and the last pixel that a line reads are padding and left out
  int32_t pairs;                   // there: tiles are of two lines, as a line is too short for as many sums
  int32_t is_long;                 // tiles of one vector and one tap of W: up to kDenseLong pixels

  int64_t groups, group_in, group_out;
  int64_t pixel;                                    // elements of a pixel's group: channels, or pairs of them
  int64_t images, depths, lines, columns;           // of the output, as walked
  int64_t panel_channels, panels;                   // output channels of a packed panel; panels of a group
  int64_t channel_block, channel_blocks;            // of the reduction, in elements of a pixel
  int64_t taps;                                     // of a layer: the most runs of a tile
  int64_t tile_pixels, tiles;                       // most pixels of a tile; tiles of a line, of nearly equal size:
  int64_t tile_size, long_tiles;                    // of tile_size pixels, and the first long_tiles of one more
  int64_t column_step, column_before, column_pitch; // of the source: columns between output columns; padding before;
                                                    // columns between those that the strip holds
  int64_t pixel_stride, tap_stride;             // elements between neighbouring output columns, and taps, of the source
  int64_t pitch[3];                             // strip: input coordinates between stored ones
  int64_t strip_pixel, strip_line, strip_lines; // strip: elements of a pixel and a line; lines of a tap of D
  int64_t block_lines, block_tiles;             // output lines and tiles of a line that share a strip
  int64_t line_units, units;                    // what tasks share: lines (line_units 1) or tiles of lines
  Grid grid;                                    // units by panels of all groups
  int64_t strip_at, sums_at, runs_at, scratch_bytes; // of one task
  double serial_us;                                  // of one thread, tensors in the cache
  double estimate_us;
};

// What one run adds.
struct DenseArguments {
  Epilogue epilogue; // with pointers
  const void *input, *weights;
  int32_t stream;           // results pass the caches by: they are aligned, and too many to stay there
  const int32_t *line_sums; // kQuads: sums of the weights of each line of taps, [group][panel][line][output channel]
};

POLYCONV_ISA_FUNCTION(void, dense_task, const DensePlan &plan, const DenseArguments &arguments, const GridShare &share)

} // namespace polyconv::cpu
