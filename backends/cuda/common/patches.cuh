// patches.cuh - how patches (patches.hpp) get into shared memory, by copies that go on beside the products of the patch
// before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/patches.hpp"
#include "common/ptx/async.cuh"

namespace polyconv::cuda {

// Image, D, H, W of a position or pixel within its patch, in one word.
struct Packed {
  __device__ static uint32_t of(int32_t i, const int32_t (&size)[4]) {
    const int32_t line = i / size[3], plane = line / size[2], n = plane / size[1];
    return static_cast<uint32_t>(n << 24 | (plane - n * size[1]) << 18 | (line - plane * size[2]) << 10 |
                                 (i - line * size[3]));
  }
  __device__ explicit Packed(uint32_t word)
      : n(static_cast<int32_t>(word >> 24)),
        at{static_cast<int32_t>(word >> 18 & 63), static_cast<int32_t>(word >> 10 & 255),
           static_cast<int32_t>(word & 1023)} {}

  int32_t n, at[3];
};

// What is the same for every patch: 4 bytes a position, 8 a pixel, in shared memory.
struct PatchTables {
  uint32_t *sources, *targets; // coordinates of positions, of pixels
  int32_t *origins;            // of pixels: positions from the patch's first to their windows'

  __device__ PatchTables(unsigned char *memory, const Patches &p)
      : sources(reinterpret_cast<uint32_t *>(memory)),
        targets(sources + p.positions),
        origins(reinterpret_cast<int32_t *>(targets + p.pixels)) {}

  __device__ void fill(const Patches &p) const {
    const auto thread = static_cast<int32_t>(threadIdx.x), threads = static_cast<int32_t>(blockDim.x);
    for (int32_t i = thread; i < p.positions; i += threads) sources[i] = Packed::of(i, p.patch);
    for (int32_t i = thread; i < p.pixels; i += threads) {
      const bool there = i < p.tile_pixels();
      targets[i] = there ? Packed::of(i, p.tile) : kNowhere;
      const Packed pixel(there ? targets[i] : 0);
      origins[i] = p.position(pixel.n, pixel.at[0] * p.step[0], pixel.at[1] * p.step[1], pixel.at[2] * p.step[2]);
    }
  }

  // What a tap adds to a position.
  __device__ static int32_t shift_of(const Patches &p, int32_t tap) {
    const int32_t line = tap / p.taps[2], plane = line / p.taps[1];
    return p.position(0, plane * p.dilation[0], (line - plane * p.taps[1]) * p.dilation[1],
                      (tap - line * p.taps[2]) * p.dilation[2]);
  }
};

// Where patch i begins: its first image, and the coordinates of its first output.
struct PatchBegin {
  int32_t n, out[3];

  __device__ PatchBegin(const Patches &p, int32_t i) {
    const int32_t line = i / p.tiles[3], plane = line / p.tiles[2], images = plane / p.tiles[1];
    n = images * p.tile[0];
    out[0] = (plane - images * p.tiles[1]) * p.tile[1];
    out[1] = (line - plane * p.tiles[2]) * p.tile[2];
    out[2] = (i - line * p.tiles[3]) * p.tile[3];
  }
};

// 16 bytes of neighbouring channels into shared memory, of which `there` exist: the others are zeros and not read.
// `width`: bytes to which `from` and what lies behind it are aligned. Of two bytes, and on chips before 8.0, it copies
// through registers.
__device__ inline void copy_chunk(unsigned char *to, const char *from, int32_t there, int32_t width) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if (width == 16) return copy_async_part<16>(address, from, there);
  if (width == 8) {
#pragma unroll
    for (int i = 0; i < 2; ++i) copy_async_part<8>(address + i * 8, from + i * 8, min(max(there - i * 8, 0), 8));
    return;
  }
  if (width == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) copy_async_part<4>(address + i * 4, from + i * 4, min(max(there - i * 4, 0), 4));
    return;
  }
#endif
  uint32_t words[4];
  if (reinterpret_cast<uintptr_t>(from) % 4 == 0 && there == 16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = reinterpret_cast<const uint32_t *>(from)[i];
  } else if (there == 16) { // between an odd first element and an odd last one: words, each a half of two of ours
    const auto *const inner = reinterpret_cast<const uint32_t *>(from + 2);
    const uint32_t low = *reinterpret_cast<const uint16_t *>(from),
                   high = *reinterpret_cast<const uint16_t *>(from + 14);
    const uint32_t w[5] = {low << 16, inner[0], inner[1], inner[2], high};
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = w[i] >> 16 | w[i + 1] << 16;
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const auto *const halves = reinterpret_cast<const uint16_t *>(from) + i * 2;
      const uint32_t low = i * 4 < there ? halves[0] : 0, high = i * 4 + 2 < there ? halves[1] : 0;
      words[i] = low | high << 16;
    }
  }
  *reinterpret_cast<uint4 *>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

// The channels of a slice: `chunks` of 16 bytes, a power of two, and those that exist, [first, end).
struct SliceChannels {
  int32_t chunks, first, end;
};

// What a thread copies of a slice: every so-many-th row, always the same chunk of it. Neighbouring threads have
// neighbouring chunks.
template <class T>
struct ChunkOfRows {
  static constexpr int32_t size = sizeof(T), vector = 16 / size; // elements of a chunk

  int32_t chunk, row, rows, channel, there; // there: bytes that exist

  __device__ explicit ChunkOfRows(const SliceChannels &slice)
      : chunk(static_cast<int32_t>(threadIdx.x) & (slice.chunks - 1)),
        row(static_cast<int32_t>(threadIdx.x) / slice.chunks),
        rows(static_cast<int32_t>(blockDim.x) / slice.chunks),
        channel(slice.first + chunk * vector),
        there(min(max(slice.end - channel, 0), vector) * size) {}

  __device__ void copy(unsigned char *to, const Slab &slab, int64_t element, bool inside) const {
    const auto *const from = static_cast<const char *>(slab.data);
    const bool any = inside && there > 0;
    copy_chunk(to + chunk * 16, any ? from + element * size : from, any ? there : 0, slab.width);
  }
};

__device__ inline bool is_inside(int32_t i, int32_t size) {
  return static_cast<uint32_t>(i) < static_cast<uint32_t>(size);
}

// This thread's part of a patch's windows: rows of `pitch` bytes, a position each. Zeros beside the image.
template <class T>
__device__ inline void fetch_windows(const Patches &p, const Slab &slab, const SliceChannels &slice,
                                     const PatchBegin &begin, const PatchTables &tables, unsigned char *to,
                                     int32_t pitch) {
  const ChunkOfRows<T> mine(slice);
  int32_t first[3];
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) first[axis] = begin.out[axis] * p.stride[axis] - p.pad[axis];
#pragma unroll 1
  for (int32_t i = mine.row; i < p.positions; i += mine.rows) {
    const Packed position(tables.sources[i]);
    bool inside = begin.n + position.n < p.images;
    int32_t offset = mine.channel;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      const int32_t at = first[axis] + position.at[axis] * p.spread[axis];
      inside = inside && is_inside(at, p.in[axis]);
      offset += at * slab.stride[axis];
    }
    mine.copy(to + i * pitch, slab, (begin.n + position.n) * slab.image + offset, inside);
  }
}

// Likewise of its pixels, in another tensor of the output's shape. body(i, inside) hears of each once.
template <class T, class Body>
__device__ inline void fetch_pixels(const Patches &p, const Slab &slab, const SliceChannels &slice,
                                    const PatchBegin &begin, const PatchTables &tables, unsigned char *to,
                                    int32_t pitch, const Body &body) {
  const ChunkOfRows<T> mine(slice);
#pragma unroll 1
  for (int32_t i = mine.row; i < p.pixels; i += mine.rows) {
    const uint32_t word = tables.targets[i];
    const Packed pixel(word);
    bool inside = word != kNowhere && begin.n + pixel.n < p.images;
    int32_t offset = mine.channel;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      const int32_t at = begin.out[axis] + pixel.at[axis];
      inside = inside && at < p.out[axis];
      offset += at * slab.stride[axis];
    }
    mine.copy(to + i * pitch, slab, (begin.n + pixel.n) * slab.image + offset, inside);
    if (mine.chunk == 0) body(i, inside);
  }
}

} // namespace polyconv::cuda
