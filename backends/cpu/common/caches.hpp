// caches.hpp - what each kernel counts on finding in which cache, in bytes: one table, so that another machine is one
// page. Fitted on cores with 32 to 48 KiB of first cache, 1 MiB of second (2 MiB where there are matrix tiles) and a
// few MiB each of the last. Limits that are a kernel's own, and no cache's, stand in its driver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv::cpu {

// Results beyond this push everything else out of the caches: they pass these by. Of kernels whose results leave as
// planes, row by row, later.
inline constexpr int64_t kStreamBytes = 8 << 20, kStreamPlanesBytes = 16 << 20;

// dense: a block's source in one block of channels, and a panel's weights in one, both in the second cache beside the
// next ones; weights that pieces smaller than a block may read again, half of it.
inline constexpr int64_t kDenseBlockBytes = 256 << 10, kDensePanelBytes = 160 << 10, kDenseCutBytes = 512 << 10;

// direct: source rows in scratch, a quarter of the second cache; sums, gradients and inputs of a piece of weight
// gradients.
inline constexpr int64_t kDirectRowBytes = 256 << 10, kDirectSumsBytes = 96 << 10;

// lowered, shifted: planes of a strip, well inside the second cache; weights that it keeps from block to block.
inline constexpr int64_t kLoweredStripBytes = 384 << 10;
inline constexpr int64_t kShiftedStripBytes = 320 << 10, kShiftedKeptBytes = 512 << 10;

// depthwise: tensors beyond which rows are fetched early, as they are in no second cache, and beyond which they lie in
// memory; images whose pixels meet in the first cache's sets, and which sweeps read all the same; a row of results and
// what it reads, found again by the next row; the weights that a walk loads for each column, from the first cache, from
// the second where the rows that it reads are in none, and of pixels that collide however many; a strip that is turned,
// source and results; what a unit of weight gradients reads.
inline constexpr int64_t kDepthwiseAheadBytes = 4 << 20, kDepthwiseMemoryBytes = 16 << 20;
inline constexpr int64_t kDepthwiseTileAheadBytes = 1 << 20; // where tiles of any kernel are, not sweeps
inline constexpr int64_t kDepthwiseSweptBytes = 2 << 20;
inline constexpr int64_t kDepthwisePassBytes = 512 << 10;
inline constexpr int64_t kDepthwiseWalkBytes = 16 << 10, kDepthwiseWalkFarBytes = 64 << 10;
inline constexpr int64_t kDepthwiseWalkApartBytes = 128 << 10, kDepthwiseWideBytes = 1100 << 10;
inline constexpr int64_t kTurnedStripBytes = 384 << 10, kDepthwiseUnitBytes = 384 << 10;

// depthwise by rings: the source rows of a row of results, in the first cache.
inline constexpr int64_t kRingBytes = 28 << 10;

// product: a piece's input rows, in the second cache.
inline constexpr int64_t kProductTallBytes = 400 << 10;

// winograd: weights that stay in the last cache from one block to the next.
inline constexpr int64_t kWinogradWeightsBytes = 24 << 20;

// chain: rows between stages, in the second cache beside weights and input, and what no machine's caches hold; inputs
// that come from memory.
inline constexpr int64_t kChainRowBytes = 640 << 10, kChainMostBytes = 4 << 20, kChainMemoryBytes = 4 << 20;

// matrix, on second caches of 2 MiB: a block's source; the sources of blocks that one panel meets, and the panels that
// they meet (of 8 bits with the sums of their weights).
inline constexpr int64_t kMatrixBlockBytes = 512 << 10, kMatrixStripsBytes = 1 << 20, kMatrixPanelsBytes = 528 << 10;
// Of 32 positions: those that meet all panels, in the first cache; split while others are multiplied; the lines that a
// position's taps read, the first cache; and much of it. A panel that each tile of lines reads whole, half of the first
// cache, and all those panels, most of the second.
inline constexpr int64_t kMatrixInsideBytes = 32 << 10, kMatrixSplitBytes = 96 << 10, kMatrixLinesBytes = 48 << 10;
inline constexpr int64_t kMatrixLongBytes = 16 << 10, kMatrixLongPanelBytes = 24 << 10, kMatrixPanelsNear = 1536 << 10;
// Results that leave in pieces of 128 bytes: the second caches of two threads.
inline constexpr int64_t kMatrixStreamPieces = 4 << 20;

} // namespace polyconv::cpu
