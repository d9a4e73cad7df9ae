// patch.hpp - what the host knows of the gradient of weights by patches: dw[k][tap][c] = sum over pixels of
// dy[pixel][k] * x[window of pixel, tap][c], with mma.sync. A block holds a patch of pixels and their whole windows in
// shared memory, so that x is read once whatever the number of taps, and keeps the sums of a tile in registers while it
// goes from patch to patch. README.md has the picture.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/machine.hpp"
#include "common/patches.hpp"
#include "common/sums/pieces.cuh"

namespace polyconv::cuda::tensor {

inline constexpr int kPatchThreads = 512; // of a block, at most
inline constexpr int kZerosBytes = 144;   // what pixels that do not exist are read from

// Turns whose sums a warp holds, by the blocks of 16 channels that it multiplies 16 filters with.
constexpr int most_turns(int channel_blocks) {
  return 8 / channel_blocks;
}

// A slice of a tile: blocks of 16 filters, and of the 16 channels that each of them is multiplied with; and how many
// such pieces of channels it has. A tap of one of these is a turn: as a warp goes through turns, few taps leave it room
// for more channels.
struct PatchShape {
  int32_t filter_blocks, channel_blocks, pieces;
};
inline constexpr PatchShape kPatchShapes[] = {{8, 1, 1}, {4, 1, 1}, {2, 1, 1}, {1, 1, 1}, {8, 2, 1}, {4, 2, 1},
                                              {2, 2, 1}, {1, 2, 1}, {8, 2, 2}, {4, 2, 2}, {8, 2, 4}, {4, 2, 4}};
inline constexpr int kPatchShapeCount = sizeof kPatchShapes / sizeof *kPatchShapes;

struct PatchProduct {
  Slab x = {}, dy = {};
  View<int64_t> weights; // what is written
  void *result = nullptr;
  int32_t result_type = 0;
  float *pieces = nullptr; // of the sums, one tile each; none where a block sums all patches of its tile
  Patches patches = {};
  int32_t filters = 0, channels = 0; // of a slice
  int32_t group_filters = 0, group_channels = 0;
  int32_t diagonal = 0;     // 1: a slice holds whole groups, as many channels as filters, of a power of two each
  int32_t row_shift = 0;    // logarithm of the channels of a filter's row: of its group, or of a piece
  int32_t pieces_shift = 0; // logarithm of the pieces of a slice's channels
  int32_t filter_slices = 0, channel_slices = 0, turn_slices = 0; // of a group, or of the layer where diagonal
  int32_t slice_turns = 0;
  int32_t filter_blocks = 0, turn_warps = 0, pixel_warps = 0; // how the warps of a block share a tile
  int32_t all_tiles = 0, splits = 0;
  int32_t tables_at = 0; // bytes of shared memory ahead of what is the same for every patch
  int32_t early = 0;     // 1: the device lets a kernel begin while what is ahead of it ends

  __host__ __device__ int32_t warps() const { return filter_blocks * turn_warps * pixel_warps; }
  __host__ __device__ int32_t warp_turns() const { return (slice_turns + turn_warps - 1) / turn_warps; } // at most
  __host__ __device__ int32_t x_pitch() const { return channels * 2 + 16; } // an odd number of 16 bytes: rows of
  __host__ __device__ int32_t dy_pitch() const { return filters * 2 + 16; } // neighbours lie in other banks
  __host__ __device__ int32_t stage_bytes() const {
    return patches.positions * x_pitch() + patches.pixels * dy_pitch();
  }
  __host__ __device__ int32_t all_turns() const { return patches.all_taps() << pieces_shift; }
  // Partial sums: [turn][filter][channel], filled up to whole warps of four sums.
  __host__ __device__ int32_t turn_sums() const { return filters << row_shift; }
  __host__ __device__ int32_t quads() const { return (slice_turns * turn_sums() + 127) / 128 * 32; }
  // Of the sums of all warps, which leave by way of shared memory, in the place of the stages.
  int32_t leaving_bytes(int channel_blocks) const { return warps() * 32 * 8 * channel_blocks * warp_turns() * 4; }
  int32_t shared_bytes() const {
    return tables_at + kZerosBytes + patches.table_bytes() + (2 * patches.pixels + slice_turns) * 4;
  }
};

// Where a tile lies: its first filter and channel, those behind the last, and its first turn.
struct PatchPlace {
  int32_t filter, filter_end, channel, channel_end, turn;

  __host__ __device__ PatchPlace(const PatchProduct &p, int32_t tile) {
    const int32_t slices = tile / p.turn_slices, rest = slices / p.channel_slices, group = rest / p.filter_slices;
    turn = (tile - slices * p.turn_slices) * p.slice_turns;
    filter = group * p.group_filters + rest % p.filter_slices * p.filters;
    channel = group * p.group_channels + slices % p.channel_slices * p.channels;
    filter_end = (group + 1) * p.group_filters, channel_end = (group + 1) * p.group_channels;
    if (!p.diagonal) return;
    filter = channel = slices * p.filters;
    filter_end = channel_end = static_cast<int32_t>(p.weights.size[0]);
  }
};

// The geometry of a layer in a shape, with the patches that take the least time; no pixels where none fits.
PatchProduct make_patch_product(const polyconv_layer &layer, const PatchShape &shape);
int64_t patch_pieces_bytes(const PatchProduct &product); // of the workspace
// Microseconds, without a bias.
double patch_us(const polyconv_layer &layer, const PatchProduct &product, const PatchShape &shape);

struct PatchLauncher {
  void (*prepare)();
  void (*launch)(const PatchProduct &product, cudaStream_t stream);
};
template <class T>
PatchLauncher patch_launcher_of(int channel_blocks);

} // namespace polyconv::cuda::tensor
