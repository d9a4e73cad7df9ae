// weights.cuh - the tiled product of the gradient of weights on Hopper's tensor cores. One warp, the producer,
// has the TMA fetch blocks of pixels of both factors into a ring in shared memory: 64 channels of a pixel are a row of
// 128 bytes, and the product wants both factors along the channels ("MN-major"), so nothing is ever transposed. The
// consumer warpgroups keep the sums of the tile in registers and write them as a piece, as they lie.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 4096 operations a clock and multiprocessor; a tile of
// 128 x 256 fetches 48 KiB for 1024 clocks of products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "common/machine.hpp"
#include "common/pipeline.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/hopper.cuh"
#include "weights/quads.cuh"

namespace polyconv::cuda::wgmma {

template <class Type, int Rows, int Chunks, int RowGroups, int ChunkGroups, int Depth>
struct WeightsTile {
  using T = Type;
  static constexpr int parts = 1;        // of a factor (parts.cu)
  static constexpr bool in_rows = false; // pixels lie side by side, not channels (first/weights.cuh)
  static constexpr int depth = Depth, rows = Rows, chunks = Chunks, row_groups = RowGroups,
                       groups = RowGroups * ChunkGroups;
  static constexpr int threads = 128 * (groups + 1);        // the consumers', then the producer's
  static constexpr int products = Rows / (64 * RowGroups);  // of 64 rows, of a warpgroup
  static constexpr int columns = 64 * Chunks / ChunkGroups; // of a warpgroup
  static constexpr int chunk_bytes = Depth * 128;           // 64 channels of a block of pixels
  static constexpr int row_bytes = Rows / 64 * chunk_bytes, stage_bytes = row_bytes + Chunks * chunk_bytes;
  // A block has a multiprocessor to itself: where two found room, those of the next kernel crowded on multiprocessors
  // that this one left idle, and small tiles need all stages for their fetches.
  static constexpr int slice_bytes = 4 * groups * Slice::kBytes; // on their way out, of all consumer warps
  static constexpr int stages = std::min(12, (kHopperShared - 1024 - 256 - slice_bytes) / stage_bytes);
  static constexpr int slices_at = stages * stage_bytes + 256; // behind the ring and its barriers
  static constexpr int shared_bytes = slices_at + slice_bytes + 1024;
  static_assert(shared_bytes > kHopperShared / 2, "leaves room for a second block");
  // Of a thread, where a block has them all: consumers get what producers leave.
  static constexpr int producer_registers = 48;
  static constexpr int consumer_registers =
      consumer_registers_of(65536 / threads / 8 * 8 * threads, producer_registers, groups);
  static constexpr int piece = Rows * 64 * Chunks; // elements
  static_assert(products * 64 * RowGroups == Rows && Chunks % ChunkGroups == 0 && stages >= 2, "not a tile");
};

// ---------------------------------------------------------------- the ring

// Stages of rows and chunks. Paired: both blocks of a cluster fill a stage of each, and so both must have read it.
template <class Tile, bool Paired = false>
class WeightsRing : public Pipeline<Tile::stages, Tile::stage_bytes> {
  using Base = Pipeline<Tile::stages, Tile::stage_bytes>;

 public:
  __device__ explicit WeightsRing(uint32_t memory) : Base(memory, memory + Tile::stages * Tile::stage_bytes) {}
  __device__ void init() const {
    Base::init(1, 4 * Tile::groups * (Paired ? 2 : 1));
    ptx::barrier_init_fence();
  }
  __device__ void release_before() const {
    if constexpr (!Paired) return Base::release_before();
    if (threadIdx.x % 32 != 0) return;
    for (int32_t block = 0; block < 2; ++block)
      ptx::arrive_in_cluster(ptx::address_in_cluster(Base::empty_before(), block));
  }
  __device__ uint32_t rows() const { return Base::memory(); }
  __device__ uint32_t chunks() const { return rows() + Tile::row_bytes; }
};

// ---------------------------------------------------------------- the producer

// Where the window of a block's first pixel begins: the output's coordinates, which the input's follow from.
struct Corner {
  int32_t w, h, d, image;

  __device__ Corner(const WeightsProduct &p, int32_t pixel) {
    const int32_t line = pixel / p.out[2], plane = line / p.out[1];
    image = plane / p.out[0];
    w = pixel - line * p.out[2], h = line - plane * p.out[1], d = plane - image * p.out[0];
  }
  __device__ void take_from(int lane, const Corner &theirs) {
    w = __shfl_sync(~0u, theirs.w, lane), h = __shfl_sync(~0u, theirs.h, lane);
    d = __shfl_sync(~0u, theirs.d, lane), image = __shfl_sync(~0u, theirs.image, lane);
  }
};

// The first input channel that a tile's columns are of; `row`: its first.
__device__ inline int32_t first_channel(const WeightsProduct &p, int32_t row) {
  return p.group_rows == 0 ? 0 : row / p.group_rows * p.group_channels;
}

// What one lane of the producer fetches of every block of a tile: 64 channels of the gradient, or of a tap of the
// input, of one part. Chunks behind the last have channels that do not exist,
// which are zeros.
template <class Tile>
class Lane {
  static constexpr int kRowChunks = Tile::rows / 64, kBoxes = kRowChunks + Tile::chunks;
  static_assert(kBoxes * Tile::parts <= 32, "a lane each");

 public:
  __device__ Lane(const WeightsProduct &p, int32_t tile)
      : p_(p), part_(static_cast<int>(threadIdx.x % 32) / kBoxes), box_(static_cast<int>(threadIdx.x % 32) % kBoxes) {
    const int32_t column = p.by_row_tiles(tile), chunk = column * Tile::chunks + box_ - kRowChunks;
    const int32_t row = (tile - column * p.row_tiles) * Tile::rows;
    if (box_ < kRowChunks) {
      channel_ = row + 64 * box_;
      return;
    }
    const bool there = chunk < p.chunks;
    const int32_t tap = there ? chunk / p.tap_chunks : 0, line = tap / p.taps[2];
    channel_ = first_channel(p, row) + (there ? chunk - tap * p.tap_chunks : p.tap_chunks) * 64;
    tap_[0] = static_cast<uint16_t>(line / p.taps[1] * p.dilation[0]);
    tap_[1] = static_cast<uint16_t>(line % p.taps[1] * p.dilation[1]);
    tap_[2] = static_cast<uint16_t>((tap - line * p.taps[2]) * p.dilation[2]);
  }
  __device__ void fetch(uint32_t stage, uint32_t barrier, const Corner &at) const {
    if (part_ >= Tile::parts) return;
    const bool x = box_ >= kRowChunks;
    const CUtensorMap *const map = x ? &p_.activations[part_] : &p_.gradients[part_];
    const uint32_t to = stage + (x ? Tile::row_bytes + (part_ * Tile::chunks + box_ - kRowChunks) * Tile::chunk_bytes
                                   : (part_ * kRowChunks + box_) * Tile::chunk_bytes);
    const int32_t w = x ? at.w * p_.stride[2] - p_.pad[2] : at.w, h = x ? at.h * p_.stride[1] - p_.pad[1] : at.h;
    const int32_t d = x ? at.d * p_.stride[0] - p_.pad[0] : at.d;
    if (p_.flat)
      ptx::load_pixels(to, map, barrier, channel_, w, h, at.image, tap_[2], tap_[1]);
    else
      ptx::load_pixels(to, map, barrier, channel_, w, h, d, at.image, tap_[2], tap_[1], tap_[0]);
  }

 private:
  const WeightsProduct &p_;
  const int part_, box_;
  int32_t channel_;
  uint16_t tap_[3] = {};
};

// Chunks of a factor in a block of pixels.
template <class Tile, int Chunks>
__device__ inline void fetch_chunks(uint32_t to, const CUtensorMap *map, uint32_t barrier, bool together, int32_t pixel,
                                    int32_t chunk) {
  if (together) return ptx::load_box(to, map, barrier, 0, pixel, chunk);
#pragma unroll
  for (int i = 0; i < Chunks; ++i) ptx::load_box(to + i * Tile::chunk_bytes, map, barrier, (chunk + i) * 64, pixel);
}

// The half of a block's pixels that is this block's, for both blocks of its pair.
template <class Tile, int Chunks>
__device__ inline void fetch_half(uint32_t to, const CUtensorMap *map, uint32_t barrier, int32_t pixel, int32_t chunk) {
  const auto half = static_cast<int32_t>(blockIdx.x % 2);
#pragma unroll
  for (int i = 0; i < Chunks; ++i)
    ptx::load_box_for(to + i * Tile::chunk_bytes + half * (Tile::chunk_bytes / 2), map, barrier, (chunk + i) * 64,
                      pixel + half * (Tile::depth / 2), 3);
}

// Blocks [first, last) of a tile's depth, whose factors are matrices, by one lane: what a block takes beside its
// fetches is as little as can be, for small tiles wait for it.
template <class Tile, bool Paired>
__device__ inline void fetch_matrices(const WeightsProduct &p, int32_t tile, int32_t first, int32_t last,
                                      WeightsRing<Tile, Paired> &ring) {
  const int32_t column = p.by_row_tiles(tile), row = (tile - column * p.row_tiles) * (Tile::rows / 64);
  ptx::await_previous();
  for (int32_t block = first; block < last; ++block, ring.next()) {
    ring.await_empty();
    ptx::barrier_expect(ring.full(), Tile::stage_bytes);
    const int32_t pixel = block * Tile::depth;
    if (Paired && p.pairs == kPairsOfColumns)
      fetch_half<Tile, Tile::rows / 64>(ring.rows(), &p.gradients[0], ring.full(), pixel, row);
    else
      fetch_chunks<Tile, Tile::rows / 64>(ring.rows(), &p.gradients[0], ring.full(), p.boxes & kBoxOfGradients, pixel,
                                          row);
    if (Paired && p.pairs == kPairsOfRows)
      fetch_half<Tile, Tile::chunks>(ring.chunks(), &p.activations[0], ring.full(), pixel, column * Tile::chunks);
    else
      fetch_chunks<Tile, Tile::chunks>(ring.chunks(), &p.activations[0], ring.full(), p.boxes & kBoxOfActivations,
                                       pixel, column * Tile::chunks);
  }
}

// Blocks [first, last) of a tile's depth where the pixels of an image are a row: a box of channels x pixels a factor.
// No block goes across images; behind an image's last pixel there are zeros.
template <class Tile>
__device__ inline void fetch_rows(const WeightsProduct &p, int32_t tile, int32_t first, int32_t last,
                                  WeightsRing<Tile> &ring) {
  const int32_t column = p.by_row_tiles(tile), row = (tile - column * p.row_tiles) * Tile::rows;
  int32_t image = first / p.image_blocks, within = first - image * p.image_blocks;
  ptx::await_previous();
  for (int32_t block = first; block < last; ++block, ring.next()) {
    ring.await_empty();
    ptx::barrier_expect(ring.full(), Tile::stage_bytes);
    ptx::load_box(ring.rows(), &p.gradients[0], ring.full(), within * Tile::depth, row, image);
    ptx::load_box(ring.chunks(), &p.activations[0], ring.full(), within * Tile::depth, column * Tile::chunks * 64,
                  image);
    if (++within == p.image_blocks) within = 0, ++image;
  }
}

// Blocks [first, last) of a tile's depth, by a whole warp. Up to its first fetch a run overlaps with the end of what is
// ahead of it: what it does there, code that is not in the cache yet, took half a microsecond. A lane each finds the
// corners of the next 32 blocks: one after the other, their divisions would take longer than the products.
template <class Tile, bool Paired>
__device__ inline void fetch_weights(const WeightsProduct &p, int32_t tile, int32_t first, int32_t last,
                                     WeightsRing<Tile, Paired> &ring) {
  if constexpr (Tile::in_rows) {
    if (threadIdx.x % 32 == 0) fetch_rows<Tile>(p, tile, first, last, ring);
    return __syncwarp();
  }
  if (Paired || (Tile::parts == 1 && p.boxes != kNoBoxes)) {
    if (threadIdx.x % 32 == 0) fetch_matrices<Tile>(p, tile, first, last, ring);
    return __syncwarp();
  }
  const Lane<Tile> lane(p, tile);
  Corner ahead(p, 0), corner = ahead;
  ptx::await_previous();
  for (int32_t block = first; block < last; ++block, ring.next()) {
    const int32_t which = (block - first) % 32;
    if (which == 0) ahead = Corner(p, (block + static_cast<int32_t>(threadIdx.x % 32)) * Tile::depth);
    corner.take_from(which, ahead);
    ring.await_empty();
    if (threadIdx.x % 32 == 0) ptx::barrier_expect(ring.full(), Tile::stage_bytes);
    __syncwarp();
    lane.fetch(ring.rows(), ring.full(), corner);
  }
}

// ---------------------------------------------------------------- the consumers

// A factor in shared memory whose rows of 128 bytes are 64 channels of a pixel, in the TMA's 128-byte swizzle; chunks
// of channels lie one after the other. Adding 128 goes 16 pixels on.
template <class Tile>
__device__ inline uint64_t channels_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kEightPixels = uint64_t{1024 >> 4} << 32,
                     kNextChunk = uint64_t{Tile::chunk_bytes >> 4} << 16;
  return kSwizzle128 | kEightPixels | kNextChunk | ((address & 0x3ffff) >> 4);
}

// A factor as the tile has it, and what 16 pixels more add to it.
template <class Tile>
__device__ inline uint64_t factor_descriptor(uint32_t address) {
  return Tile::in_rows ? ptx::matrix_descriptor(address) : channels_descriptor<Tile>(address);
}
template <class Tile>
constexpr int kNextPixels = Tile::in_rows ? 16 * 2 >> 4 : 16 * 128 >> 4;

template <class Tile>
using WeightsSums = float[Tile::products][Tile::columns / 2];

template <class Tile, bool Paired>
__device__ inline void sum_blocks(WeightsSums<Tile> &sums, int32_t blocks, WeightsRing<Tile, Paired> &ring,
                                  int row_group, int chunk_group) {
  constexpr int kChunk = Tile::chunk_bytes >> 4; // of a descriptor
  for (int32_t block = 0; block < blocks; ++block, ring.next()) {
    ring.await_full();
    const uint64_t a = factor_descriptor<Tile>(ring.rows()) + row_group * Tile::products * kChunk;
    const uint64_t b = factor_descriptor<Tile>(ring.chunks()) + chunk_group * (Tile::columns / 64) * kChunk;
    ptx::products_fence();
#pragma unroll
    for (int product = 0; product < Tile::products; ++product)
#pragma unroll
      for (int k = 0; k < Tile::depth / 16; ++k)
        ptx::multiply<typename Tile::T, Tile::columns, !Tile::in_rows>(
            sums[product], a + product * kChunk + k * kNextPixels<Tile>, b + k * kNextPixels<Tile>, k > 0 || block > 0);
    ptx::products_commit();
    ptx::products_wait<1>(); // the products of the stage before are done
    if (block > 0) ring.release_before();
  }
  ptx::products_wait<0>();
  ring.release_before();
}

template <class Tile>
__device__ constexpr TileShape shape_of() {
  return {Tile::rows, Tile::chunks};
}
template <class Tile>
__device__ constexpr Squares squares_of() {
  return shape_of<Tile>().squares();
}

// Where a thread's sums of a tile begin in its squares, and how far from there its sum `i` of a product lies: two of a
// row, then two of the row 8 below, for each eight columns.
template <class Tile>
__device__ inline int32_t first_sum(int row_group, int chunk_group) {
  const auto thread = static_cast<int>(threadIdx.x % 128);
  return squares_of<Tile>().at(row_group * Tile::products * 64 + thread / 32 * 16 + thread % 32 / 4,
                               chunk_group * Tile::columns + thread % 4 * 2);
}
template <class Tile>
__device__ constexpr int32_t next_sum(int product, int i) {
  return squares_of<Tile>().at(product * 64 + i % 4 / 2 * 8, i / 4 * 8) + i % 2;
}

// The sums of a tile; `to`: in the workspace or in shared memory.
template <class Tile, class Sum>
__device__ inline void store_piece(Sum *to, const WeightsSums<Tile> &sums, int row_group, int chunk_group) {
  to += first_sum<Tile>(row_group, chunk_group);
#pragma unroll
  for (int product = 0; product < Tile::products; ++product)
#pragma unroll
    for (int i = 0; i < Tile::columns / 2; i += 2)
      store_pair(to + next_sum<Tile>(product, i), sums[product][i], sums[product][i + 1], true, true);
}

// The sums of a whole tile, as weights whose channels lie side by side, those of a group in eights: slice after slice
// of 16 rows by way of a warp's own shared memory (`slice`), so that eight lanes store 128 bytes of a row. (Lanes that
// traded sums by shuffles, and stored 64, took two microseconds a tile of 128 x 128: four times as much code, which a
// run fetches anew.)
template <class Tile, class Out>
__device__ inline void store_tile(const WeightsProduct &p, int32_t tile, const WeightsSums<Tile> &sums, int row_group,
                                  int chunk_group, const Slice &slice) {
  constexpr int kVector = Slice::vector<Out>, kColumns = Slice::columns<Out>;
  const auto thread = static_cast<int32_t>(threadIdx.x % 128);
  const int32_t column = p.by_row_tiles(tile), first = (tile - column * p.row_tiles) * Tile::rows;
  const int32_t top = first + row_group * Tile::products * 64 + thread / 32 * 16 + Slice::line();
  const int64_t next = Slice::kLines * p.weights.stride[0];
  const bool plain = p.group_rows == 0 && p.vector >= kVector;
#pragma unroll
  for (int i = 0; i < Tile::columns / kColumns; ++i) {
    const int32_t at = chunk_group * Tile::columns + i * kColumns + Slice::place() * kVector; // of the tile's columns
    const int32_t chunk = column * Tile::chunks + at / 64, tap = tap_of(p, chunk);
    const int32_t channel = (chunk - tap * p.tap_chunks) * 64 + at % 64;
    const int32_t channels = chunk < p.chunks ? static_cast<int32_t>(p.weights.size[1]) : 0;
#pragma unroll
    for (int product = 0; product < Tile::products; ++product) {
      slice.write<Out>(&sums[product][i * (kColumns / 2)]);
      Out *to = weight_at<Out>(p, top + product * 64, channel, tap);
      const int32_t row = top + product * 64;
      if (plain) {
#pragma unroll
        for (int32_t turn = 0; turn < 16 / Slice::kLines; ++turn, to += next)
          if (row + turn * Slice::kLines < p.rows && channel < channels) slice.store(to, turn);
      } else {
#pragma unroll 1
        for (int32_t turn = 0; turn < 16 / Slice::kLines; ++turn, to += next) {
          const int32_t own = own_column(p, first, row + turn * Slice::kLines);
          if (row + turn * Slice::kLines < p.rows && channel >= own && channel - own < channels)
            slice.store_elements(to - own, turn, min(channels + own - channel, kVector));
        }
      }
      __syncwarp(); // read by all before it is written again
    }
  }
}

} // namespace polyconv::cuda::wgmma
