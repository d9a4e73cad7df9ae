// weights.hpp - what the host knows of the gradient of weights of small groups: dw[k][tap][c] = sum over pixels of
// dy[pixel][k] * x[window of pixel, tap][c], with mma.sync. A block holds a slice of whole groups of a patch of pixels,
// windows included, in shared memory, and each of its warps keeps the sums of some taps of some groups in registers
// while the block goes from patch to patch.
//
// Groups come in units: as many as make whole chunks of 8 channels and of 8 filters. A matrix of the instruction has 16
// rows, which are two chunks of channels, of the same or of neighbouring taps, and 8 columns, which are filters. So
// groups of 8 channels and 8 filters waste nothing. Sums of one group's filters and another's channels are not stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/machine.hpp"
#include "common/patches.hpp"

namespace polyconv::cuda::tensor {

inline constexpr int kGroupedWarps = 16;        // of a block, at most
inline constexpr int kGroupedZeros = 16;        // bytes, what pixels that do not exist are read from
inline constexpr int kMostUnit = 64;            // channels and filters of a unit
inline constexpr int kGroupedFragment = 32 * 4; // sums of one instruction
inline constexpr int64_t kMostChunks = 4096;    // of all taps of a unit: a table in shared memory has them

// What a warp sums, as it is compiled: matrices of 16 rows, times 8 columns.
struct GroupedWarpShape {
  int32_t rows, columns;
};
inline constexpr GroupedWarpShape kGroupedWarpShapes[] = {{5, 1}, {13, 1}, {5, 2}, {9, 2}, {5, 3}, {3, 4}, {4, 4}};
inline constexpr int kGroupedWarpShapeCount = sizeof kGroupedWarpShapes / sizeof *kGroupedWarpShapes;

struct GroupedWeights {
  Slab x = {}, dy = {};
  View<int64_t> weights; // what is written
  void *result = nullptr;
  int32_t result_type = 0;
  float *pieces = nullptr; // [split][tile][warp][matrix][lane][4], none where a block sums all patches of its tile
  Patches patches = {};    // whose positions lie in a row by their residue of the stride: see column()
  int32_t run = 0;         // positions of a row with one residue
  int32_t whole = 0;       // 1: patches are whole images, so that the same positions of all of them exist
  int32_t groups = 0, group_channels = 0, group_filters = 0;
  int32_t unit_groups = 0, units = 0;                 // of a unit; of a slice
  int32_t slices = 0, turn_slices = 0;                // tiles: slices of the groups, slices of a unit's rows
  int32_t x_chunks = 0, dy_chunks = 0;                // of 16 bytes, of a slice: powers of two
  int32_t rows = 0, columns = 0;                      // matrices of a warp
  int32_t row_warps = 0, column_warps = 0, parts = 0; // warps of a unit; parts share the pixels
  int32_t splits = 0;                                 // of the patches
  int32_t tables_at = 0; // bytes of shared memory ahead of what is the same for every patch
  int32_t early = 0;     // 1: the device lets a kernel begin while what is ahead of it ends

  __host__ __device__ int32_t unit_channels() const { return unit_groups * group_channels; }
  __host__ __device__ int32_t unit_filters() const { return unit_groups * group_filters; }
  __host__ __device__ int32_t tap_chunks() const { return unit_channels() / 8; }
  __host__ __device__ int32_t all_chunks() const { return patches.all_taps() * tap_chunks(); } // of a unit
  // Rows of all warps: those behind the last have its data, and are not stored.
  __host__ __device__ int32_t table_chunks() const { return turn_slices * row_warps * rows * 2; }
  __host__ __device__ int32_t tiles() const { return slices * turn_slices; }
  __host__ __device__ int32_t part_warps() const { return units * row_warps * column_warps; }
  __host__ __device__ int32_t warps() const { return part_warps() * parts; }
  __host__ __device__ int32_t matrices() const { return rows * columns; }      // of a warp
  __host__ __device__ int32_t x_pitch() const { return x_chunks * 16 + 16; }   // an odd number of chunks: rows of
  __host__ __device__ int32_t dy_pitch() const { return dy_chunks * 16 + 16; } // neighbours lie in other banks
  __host__ __device__ int32_t stage_bytes() const {
    return patches.positions * x_pitch() + patches.pixels * dy_pitch();
  }
  // Where column w of a patch lies in its row: neighbouring pixels read neighbouring positions, whatever the stride.
  __host__ __device__ int32_t phases() const { return patches.step[2]; }
  __host__ __device__ int32_t column(int32_t w) const { return w % phases() * run + w / phases(); }
  __host__ __device__ int32_t position(int32_t n, int32_t d, int32_t h, int32_t w) const {
    return ((n * patches.patch[1] + d) * patches.patch[2] + h) * (run * phases()) + column(w);
  }
  int64_t piece_sums() const { return int64_t{part_warps()} * matrices() * kGroupedFragment; } // of a tile
  int32_t leaving_bytes() const { return (parts - 1) * part_warps() * matrices() * kGroupedFragment * 4; }
  int32_t shared_bytes() const {
    return tables_at + kGroupedZeros + patches.table_bytes() +
           (patches.positions + 3 * patches.pixels + table_chunks()) * 4;
  }
};

// A config: about so many channels of a slice, and warps of a block.
struct GroupedBlock {
  int32_t channels, warps;
};
inline constexpr GroupedBlock kGroupedBlocks[] = {{16, 8},  {32, 8},  {64, 8},  {128, 8},
                                                  {16, 16}, {32, 16}, {64, 16}, {128, 16}};
inline constexpr int kGroupedBlockCount = sizeof kGroupedBlocks / sizeof *kGroupedBlocks;

// Groups of a unit.
int64_t grouped_unit(const polyconv_layer &layer);
// The geometry of a layer in a config, with the patches that take the least time; no splits where none fits.
GroupedWeights make_grouped_weights(const polyconv_layer &layer, const GroupedBlock &block);
int64_t grouped_pieces_bytes(const GroupedWeights &product); // of the workspace
// Microseconds, without a bias.
double grouped_weights_us(const polyconv_layer &layer, const GroupedWeights &product);

struct GroupedLauncher {
  void (*prepare)();
  void (*launch)(const GroupedWeights &product, cudaStream_t stream);
};
// Of a place in kGroupedWarpShapes.
template <class T, int Shape = 0>
GroupedLauncher grouped_launcher_of(int shape);
int grouped_warp_shape(const GroupedWeights &product);

} // namespace polyconv::cuda::tensor
