// load.cuh - the warps of cuda-tensor/octets that load: input rows of eight images come into a ring in shared
// memory, a unit for each pixel. Copies of 16 bytes bring them as they lie, a slot ahead; a warp turns what it
// has copied itself, eight pixels of eight images at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/async.cuh"
#include "octets/parts.cuh"

namespace polyconv::cuda::octets {

// Which slot of which item is next.
struct Cursor {
  Share share;
  Item item = {};
  int32_t slot = 0, slots = 0; // none: there is no item any more

  __device__ __forceinline__ explicit Cursor(const Geometry &g) : share(g) {}
  template <int rows>
  __device__ __forceinline__ bool advance(const Geometry &g) {
    if (++slot < slots) return true;
    if (!share.there()) return false;
    item = share.take(g, rows);
    slot = 0, slots = item.steps + g.span - 1;
    return true;
  }
};

// A line is a row of one channel in a slot; a piece of it are eight pixels that are 16 bytes in memory, whichever
// of them is its first: alike in all images of an octet.
struct Piece {
  int32_t channel, row, pixel; // the first, if the line began at a multiple of 16 bytes
  bool exists;
  __device__ __forceinline__ Piece(const Geometry &g, int32_t rows, int32_t number) {
    const int32_t line = number / g.pieces;
    channel = line / rows, row = line - channel * rows, pixel = (number - line * g.pieces) * 8;
    exists = channel < g.channels;
  }
};

// A loading warp: of each slot the same pieces of all images.
template <int rows>
class Loader {
 public:
  __device__ __forceinline__ Loader(const Geometry &g, const Pointers &p, const Shared &s, int32_t warp)
      : g_(g), p_(p), s_(s), lane_(static_cast<int32_t>(threadIdx.x) % 32) {
    const int32_t across = 4 * g.turns, pitch = across + 1; // odd, so that a piece's rows are in different banks
    raw_ = s.raw + warp * kRawStages * g.raw_stage;
    turned_ = (lane_ % 8 * pitch + lane_ / 8) * kUnit;
#pragma unroll
    for (int i = 0; i < kMostTurns; ++i) {
      const int32_t image = (i * 32 + lane_) / across, column = (i * 32 + lane_) % across;
      const Piece copied(g, rows, warp * across + column), put(g, rows, warp * across + 4 * i + lane_ / 8);
      image_[i] = copied.exists ? image : kImages;
      row_[i] = copied.row, left_[i] = (g.input_w - copied.pixel) * 2;
      from_[i] = static_cast<uint32_t>(image << g.image_shift) * static_cast<uint32_t>(g.x_image) +
                 static_cast<uint32_t>(copied.channel * g.x_plane + copied.row * g.x_row + copied.pixel);
      to_[i] = (image * pitch + column) * kUnit;
      first_[i] = put.exists ? put.pixel + lane_ % 8 : -8;
      line_[i] = put.channel * g.x_plane + put.row * g.x_row;
      unit_[i] = ((put.row * 2 * g.pairs + put.channel) * g.pitch + g.pad_w + first_[i]) * kUnit;
    }
  }

  __device__ __forceinline__ void load_items() {
    Cursor at(g_);
    int32_t waiting = 0;
    for (int32_t i = 0; i < kRawStages - 1; ++i) waiting += fetch(at);
    do {
      waiting += fetch(at);
      await_groups<kRawStages - 1>();
      __syncwarp();
      put();
    } while (--waiting > 0);
  }

 private:
  // Begins to copy the next slot, if there is one. What lies ahead of a line in its first piece is memory of the same
  // 16 bytes.
  __device__ __forceinline__ bool fetch(Cursor &at) {
    const bool there = at.advance<rows>(g_);
    if (there) {
      const int32_t y = at.item.first_row - g_.pad_h + at.slot * rows, images = images_of(g_, at.item);
      const uint16_t *const origin =
          static_cast<const uint16_t *>(p_.x) + (at.item.image * g_.x_image + int64_t{y} * g_.x_row);
      const auto begun = static_cast<uint32_t>(beyond_16(origin) / 2);
      begun_ = begun_ << 3 | begun;
      const uint16_t *const aligned = origin - begun;
      const uint32_t to = raw_ + fetched_ * g_.raw_stage;
#pragma unroll
      for (int i = 0; i < kMostTurns; ++i) {
        if (i >= g_.turns) break;
        const uint32_t from = begun + from_[i];
        const int32_t bytes = min(max(left_[i] + static_cast<int32_t>(from % 8) * 2, 0), kUnit);
        const bool inside =
            image_[i] < images && static_cast<uint32_t>(y + row_[i]) < static_cast<uint32_t>(g_.input_h);
        copy_async_part<16>(to + to_[i], aligned + from / 8 * 8, inside ? bytes : 0);
      }
    } else {
      begun_ <<= 3;
    }
    commit_copies(); // nothing, too: groups are counted
    fetched_ = fetched_ + 1 < kRawStages ? fetched_ + 1 : 0;
    return there;
  }

  // Pixels that are none go back to where they came from.
  __device__ __forceinline__ void put() {
    const uint32_t from = raw_ + read_ * g_.raw_stage + turned_, begun = begun_ >> 3 * (kRawStages - 1);
    ptx::barrier_wait(s_.slot_empty(turn_.stage), turn_.phase ^ 1);
    const uint32_t to = s_.ring + turn_.stage * g_.slot_units * kUnit;
#pragma unroll
    for (int i = 0; i < kMostTurns; ++i) {
      if (i >= g_.turns) break;
      const int32_t before = static_cast<int32_t>(begun + line_[i]) & 7, pixel = first_[i] - before;
      uint32_t v[4];
      ptx::load_transposed(v, from + i * 4 * kUnit);
      ptx::store_matrices(pixel >= 0 && pixel < g_.input_w ? to + unit_[i] - before * kUnit : from + i * 4 * kUnit,
                          v[0], v[1], v[2], v[3]);
    }
    __syncwarp(); // and one arrives: all lanes of all warps would take long
    if (lane_ == 0) ptx::barrier_arrive(s_.slot_full(turn_.stage)); // readers fence: here it would wait for copies
    turn_.advance(g_.slots);
    read_ = read_ + 1 < kRawStages ? read_ + 1 : 0;
  }

  const Geometry &g_;
  const Pointers &p_;
  const Shared &s_;
  const int32_t lane_;
  // What the lane copies of a piece, and of which image; what it says where to put.
  int32_t image_[kMostTurns], row_[kMostTurns], left_[kMostTurns]; // bytes of the line
  uint32_t from_[kMostTurns], to_[kMostTurns];                     // elements; bytes
  int32_t first_[kMostTurns], line_[kMostTurns], unit_[kMostTurns];
  uint32_t raw_, turned_;
  int32_t fetched_ = 0, read_ = 0; // stages of copies
  uint32_t begun_ = 0;             // elements beyond 16 bytes of the slots under way, 3 bits each
  Turn turn_;
};

} // namespace polyconv::cuda::octets
