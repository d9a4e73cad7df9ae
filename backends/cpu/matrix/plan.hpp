// plan.hpp - the geometry of the matrix kernel, decided at plan time and read by its passes.
//
// The unit of work is a product of tiles: 16 positions x 64 bytes of channels by 64 bytes of channels x 16 output
// channels, which one instruction adds to 16 x 16 sums. A position is an output pixel of a block of lines, counted
// through the block's lines as they are stored, so that position q reads at q * position_bytes plus an offset of the
// tap: 16 positions are one tile whatever the width of a line. Positions that belong to no output (a line's padding)
// are computed and dropped; lines share the padding between them, so that there are few.
//
// Source pixels are read in place where one tap reads whole pixels of channels side by side; else the lines that a
// block needs are brought into a strip: padding included, channels filled up with zeros to whole chunks of 64 bytes,
// lines sorted by their remainder modulo the stride. With few channels a pixel of the strip holds all taps of a line,
// of as many lines as the stride steps over, or all taps, and the layer is one of one tap. A strip is a row of planes,
// one for each chunk and part of it, of 64 bytes a pixel: a tile is then 1 KiB in a piece, whatever the number of
// channels, and all taps of a chunk read the same few KiB.
//
// f32 and f16 are brought in as parts, each a bf16, whose products are exact in f32 (MatrixProducts).
// The order of each sum (chunks, taps, products of parts) is a function of the problem alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

enum class MatrixProducts : int32_t {
  kBf16,
  kF16,     // f16 is the sum of two bf16: four products
  kThree,   // f32 is nearly the sum of two bf16: three products, error 2^-16
  kSix,     // f32 is the sum of three bf16: the six largest of nine products, error of f32
  kIntegers // 8 bits, s32 sums
};

constexpr int kMatrixRows = 16;                              // of a tile: positions, output channels
constexpr int kMatrixRowBytes = 64;                          // of a tile
constexpr int kMatrixPanel = 32;                             // output channels of a packed panel: two tiles
constexpr int kMatrixPositions = 32;                         // that are multiplied at a time: two tiles
constexpr int kMatrixSums = kMatrixPositions * kMatrixPanel; // of a panel
constexpr int kMatrixTileBytes = kMatrixRows * kMatrixRowBytes;
constexpr int kMatrixStrips = 8; // at most, that one panel meets
// Results of positions this far apart share two sets of the L1 cache, where lines asked for would push each other out.
constexpr int64_t kMatrixFar = 4 << 10;
constexpr int64_t kMatrixNear = 1 << 20;    // of weights: they stay in the L2 cache (2 MiB in CPUs with tiles)
constexpr int64_t kMatrixFetched = 8 << 10; // bytes from the pixels that are split to those that are fetched
constexpr int kMatrixSplitStrips = 3;       // multiplied, split beside, and kept for the results of its last tile
constexpr int kMatrixGathered = 256;        // elements of a pixel that holds all taps, at most

// Of f32 and f16, how many bf16 stand for an element.
constexpr int64_t matrix_parts(MatrixProducts products) {
  return products == MatrixProducts::kSix                                         ? 3
         : products == MatrixProducts::kThree || products == MatrixProducts::kF16 ? 2
                                                                                  : 1;
}
constexpr int64_t matrix_chunk_channels(MatrixProducts products) {
  return products == MatrixProducts::kIntegers ? 64 : 32;
}

struct MatrixPlan {
  polyconv_tensor input;
  Epilogue epilogue;
  MatrixProducts products;
  int32_t signed_input, signed_weights; // of 8 bits
  int32_t zero_point;                   // of the input; its share of each sum is subtracted
  double pad_value;
  Axis axis[3];

  int32_t in_place;       // flat, and tiles are loaded from the input itself
  int32_t flat;           // one tap: positions are all pixels of an image, or of all images
  int32_t one_stride;     // flat, and all pixels of an input image lie at one stride
  int32_t merged;         // a pixel of the strip holds all taps of W, of `joined` neighbouring lines
  int32_t runs;           // merged, and what a pixel takes of a line is one run of elements: gathered as such
  int32_t gathered;       // flat, and a pixel of the strip holds all taps
  int32_t panels_inside;  // flat: 32 positions meet all panels, then the next; else a panel meets all positions
  int32_t quick;          // channels side by side; floats with at most a bias and relu, s32 with at most a bias
  int32_t split_beside;   // flat, panels inside, and each block is split into parts while the one before is multiplied
  int32_t down_lines;     // tiles below each other follow each other, as the lines of their taps exceed the L1 cache
  int32_t results_beside; // quick bf16, positions are pixels: results are made while the next tiles are multiplied
  int32_t together;       // panels whose results are made together
  int32_t rows_beside;    // flat, quick, results are f32, and are made while the next tile is multiplied
  int32_t direct;         // results are the sums, but for a bias of s32: tiles are stored where they belong
  int32_t asks;           // direct, and lines of results are asked for, as they are not in the L2 cache
  int32_t wide;           // direct, and tiles of two panels are stored side by side
  int32_t weights_past;   // weights stay in the L2 cache: positions and they would push each other out of the L1 cache
  int32_t along_w;        // results are stored along W (channels first), so sums are transposed
  int32_t stream;         // quick, and results are too many for the caches: stores pass them by

  int64_t groups, group_in, group_out;
  int64_t channels, chunks;               // of a stored pixel
  int64_t images, depths, lines, columns; // of the output, as walked
  int64_t position_bytes;                 // from one to the next, of a plane or of the input that is read in place
  int64_t chunk_bytes, part_bytes;        // from one chunk of a pixel to the next, from one part of a chunk
  int64_t line_positions;                 // positions from one line to the next
  int64_t stored_columns;                 // of a stored line: columns that taps read
  int64_t pitch[2], phases, phase_bytes;  // input lines and columns between stored ones; lines by remainder
  int64_t joined, line_taps;              // input lines in a stored one; taps of H then
  int64_t plane_bytes;                    // of one tap of D
  int64_t block_lines;                    // output lines that share a strip; flat: positions
  const int64_t *taps;                    // byte offsets of the taps of D, H and W (merged: of D and H)
  int64_t tap_count;
  int64_t panels, panel_bytes, group_bytes; // of a group; packed weights of a panel and a group
  int64_t units;                            // lines, flat: kMatrixPositions of an image, or what is left of it
  Grid grid;                                // units by panels of all groups
  int64_t strips;                           // blocks whose source is in the scratch at once
  int64_t strip_bytes, scratch_bytes;       // of one task
  double estimate_us;
};

typedef void (*MatrixTaskFunction)(const MatrixPlan &plan, const LayerRun &arguments, const GridShare &share);

} // namespace polyconv::cpu
