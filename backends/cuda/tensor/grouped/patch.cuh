// patch.cuh - what a block of mma_grouped has in shared memory: weights, two patches, results and tables;
// how it gets there, and how results leave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/async.cuh"
#include "grouped/grouped.hpp"
#include "mma/fragments.cuh"

namespace polyconv::cuda::tensor {

// What groups of so many channels in and out of a type are to a block.
template <class Type, int In, int Out>
struct Groups {
  using T = Type;
  static constexpr int in = In, out = Out, bytes = int{sizeof(T)}, vector = kChunk / bytes; // channels of a chunk
  static constexpr int tiles = (Out + 7) / 8, rows = tiles * 8; // of the instruction; rows of packed weights
  static constexpr int slice = slice_channels(In, bytes), out_slice = slice / In * Out; // channels of a block
  static constexpr int count = slice / In, shares = kGroupedThreads / 32 / count;       // groups of a block; warps
                                                                                        // that share pixels
  static constexpr int chunks = In / vector;                                            // of a tap
  static constexpr int position = position_bytes(slice, bytes), out_position = position_bytes(out_slice, bytes);
};

// A slice's weights into shared memory, as packed; zeros for groups that the last slice has not.
template <class G>
__device__ inline void fill_weights(const GroupedProduct &p, int slice, unsigned char *to) {
  const int there = min(p.groups - slice * G::count, G::count) * (p.blocks() * G::rows * kRow);
  const char *const from = static_cast<const char *>(p.weights) + static_cast<int64_t>(slice) * p.weights_bytes;
  for (int i = static_cast<int>(threadIdx.x) * kChunk; i < p.weights_bytes; i += kGroupedThreads * kChunk)
    copy_async<kChunk>(to + i, from + i, i < there);
}

// Likewise those of groups of 4 of 16 bits in pairs. A packed group has 8 rows of which 4 are filters, and a chunk of a
// tap has the 4 channels first: rows 4 to 7 of a pair are the second group's filters, with the channels last. slot()
// permutes chunks of those rows by two more.
__device__ inline void fill_paired_weights(const GroupedProduct &p, int slice, unsigned char *to) {
  const auto *const from = static_cast<const char *>(p.weights);
  for (int i = static_cast<int>(threadIdx.x); i * kChunk < p.weights_bytes; i += kGroupedThreads) {
    const int place = i % kBlockChunks, row = i / kBlockChunks % 8, second = row / 4;
    const int pair = i / (kBlockChunks * 8) / p.blocks(), block = i / (kBlockChunks * 8) % p.blocks();
    const int64_t group = slice * (p.slice / 4) + pair * 2 + second;
    uint2 v = {};
    if (group < p.groups)
      v = *reinterpret_cast<const uint2 *>(from + ((group * p.blocks() + block) * 8 + row % 4) * kRow +
                                           (place ^ second * 2) * kChunk);
    *reinterpret_cast<uint4 *>(to + i * kChunk) = second != 0 ? make_uint4(0, 0, v.x, v.y) : make_uint4(v.x, v.y, 0, 0);
  }
}

// Shared memory of a block, for groups of so many channels in and out. Coordinates are y << 16 | x; shifts and windows
// are bytes in a patch.
template <class G>
struct GroupedRoom {
  unsigned char *patches, *zeros, *results, *weights;
  int32_t *sources, *targets, *windows, *shifts; // of positions, pixels, pixels, chunks

  __device__ GroupedRoom(unsigned char *shared, const GroupedProduct &p) : patches(shared) {
    zeros = patches + 2 * p.positions() * G::position;
    results = zeros + G::position;
    weights = results + p.tile_pixels() * G::out_position;
    sources = reinterpret_cast<int32_t *>(weights + p.weights_bytes);
    targets = sources + p.positions();
    windows = targets + p.tile_pixels();
    shifts = windows + p.tile_pixels();
  }

  // What stays for all patches, but the weights.
  __device__ void fill(const GroupedProduct &p) const {
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < G::position / 4) reinterpret_cast<int32_t *>(zeros)[thread] = 0;
    for (int i = thread; i < p.positions(); i += kGroupedThreads) // the end of a run may be beyond the patch
      sources[i] = i / p.row << 16 | (i % p.row % p.run * p.stride[1] + i % p.row / p.run);
    for (int i = thread; i < p.tile_pixels(); i += kGroupedThreads) {
      const int y = i / p.tile[1], x = i % p.tile[1];
      targets[i] = y << 16 | x;
      windows[i] = (y * p.stride[0] * p.row + x) * G::position;
    }
    for (int q = thread; q < p.chunks; q += kGroupedThreads) {
      const int tap = q / G::chunks, y = tap / p.taps[1] * p.dilation[0], x = tap % p.taps[1] * p.dilation[1];
      shifts[q] = (y * p.row + x % p.stride[1] * p.run + x / p.stride[1]) * G::position + q % G::chunks * kChunk;
    }
  }
};

// Which image, which outputs.
struct Patch {
  int32_t n, h, w;

  __device__ Patch(const GroupedProduct &p, int32_t i) {
    w = i % p.tiles[1] * p.tile[1], i /= p.tiles[1];
    h = i % p.tiles[0] * p.tile[0];
    n = i / p.tiles[0];
  }
};

// A thread moves one chunk of every `step`-th position or pixel of a patch, which has so many chunks.
template <int Chunks>
struct GroupedLane {
  static constexpr int step = kGroupedThreads / Chunks;

  int chunk, first; // `first`: behind the last one for the threads that are left over

  __device__ GroupedLane()
      : chunk(static_cast<int>(threadIdx.x) % Chunks), first(static_cast<int>(threadIdx.x) / Chunks) {
    if (first >= step) first = INT32_MAX;
  }
};

// `input`: of the block's channels, of which `channels` are there.
template <class G, class T = typename G::T>
__device__ inline void fetch_patch(const GroupedProduct &p, const T *input, int channels, const Patch &at,
                                   const GroupedRoom<G> &room, unsigned char *to) {
  using Lane = GroupedLane<G::slice / G::vector>;
  const int32_t h0 = at.h * p.stride[0] - p.pad[0], w0 = at.w * p.stride[1] - p.pad[1];
  const Lane lane;
  const T *const image = input + at.n * p.in_image + lane.chunk * G::vector;
  for (int i = lane.first; i < p.positions(); i += Lane::step) {
    const int32_t h = h0 + (room.sources[i] >> 16), w = w0 + (room.sources[i] & 0xffff);
    const bool inside = lane.chunk * G::vector < channels &&
                        static_cast<uint32_t>(h) < static_cast<uint32_t>(p.in[0]) &&
                        static_cast<uint32_t>(w) < static_cast<uint32_t>(p.in[1]);
    copy_async<kChunk>(to + i * G::position + lane.chunk * kChunk,
                       inside ? image + h * p.in_row + w * p.in_pixel : input, inside);
  }
}

// `result`: of the block's channels, of which `channels` are there.
template <class G, class T = typename G::T>
__device__ inline void store_patch(const GroupedProduct &p, T *result, int channels, const Patch &at,
                                   const GroupedRoom<G> &room) {
  using Lane = GroupedLane<G::out_slice / G::vector>;
  const Lane lane;
  if (lane.chunk * G::vector >= channels) return;
  T *const image = result + at.n * p.out_image + lane.chunk * G::vector;
  for (int i = lane.first; i < p.tile_pixels(); i += Lane::step) {
    const int32_t h = at.h + (room.targets[i] >> 16), w = at.w + (room.targets[i] & 0xffff);
    if (h < p.out[0] && w < p.out[1])
      *reinterpret_cast<int4 *>(image + h * p.out_row + w * p.out_pixel) =
          *reinterpret_cast<const int4 *>(room.results + i * G::out_position + lane.chunk * kChunk);
  }
}

} // namespace polyconv::cuda::tensor
