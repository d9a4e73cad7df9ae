// octets_load.cuh - the warps of cuda-tensor/octets that load: input rows of eight images come into a ring in shared
// memory, a unit for each pixel. Loads of the next slot are under way while one is stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "octets_parts.cuh"

namespace polyconv::cuda::octets {

// Four 8 x 8 matrices of 16-bit elements, whose columns go to units.
__device__ __forceinline__ void store_four(uint32_t to, const uint32_t (&v)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0]),
               "r"(v[1]), "r"(v[2]), "r"(v[3])
               : "memory");
}

__device__ __forceinline__ void store_one(uint32_t to, uint32_t v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared::cta.b16 [%0], {%1};" ::"r"(to), "r"(v) : "memory");
}

// Or 0. They are under way from here on: nothing moves them to where they are used.
__device__ __forceinline__ void load_word_if(uint32_t &v, uint32_t so, const uint16_t *from) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.u32 %0, [%2];\n}"
               : "=&r"(v)
               : "r"(so), "l"(from));
}
__device__ __forceinline__ void load_element_if(uint32_t &v, uint32_t so, const uint16_t *from) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.u16 %0, [%2];\n}"
               : "=&r"(v)
               : "r"(so), "l"(from));
}

// Which slot of which item is next.
struct Cursor {
  int32_t number, slot, slots;
  Item item;

  template <int rows>
  __device__ __forceinline__ static Cursor first(const Geometry &g) {
    const auto number = static_cast<int32_t>(blockIdx.x) / g.groups;
    const Item item(g, number, rows);
    return {number, 0, item.steps + g.span - 1, item};
  }
  __device__ __forceinline__ bool there(const Geometry &g) const { return number < g.items; }
  template <int rows>
  __device__ __forceinline__ void advance(const Geometry &g) {
    if (++slot < slots) return;
    number += static_cast<int32_t>(gridDim.x) / g.groups;
    item = Item(g, number, rows);
    slot = 0, slots = item.steps + g.span - 1;
  }
};

// A loading warp: of each slot the same groups of eight units. Lane 4 i + q loads pixels 2 q and 2 q + 1 of image i.
template <int rows, bool words>
class Loader {
 public:
  __device__ __forceinline__ Loader(const Geometry &g, const Pointers &p, const Shared &s, int32_t warp)
      : g_(g), p_(p), s_(s), warp_(warp), lane_(static_cast<int32_t>(threadIdx.x) % 32) {
    low_ = high_ = second_ = 0;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int32_t u = (warp + i * kLoaders) * 8 + lane_ % 4 * 2;
      const auto line = static_cast<int32_t>(__umulhi(static_cast<uint32_t>(u), g.pitch_magic));
      const int32_t x = u - line * g.pitch - g.pad_w, planes = 2 * g.pairs, row = line >= planes,
                    c = line - row * planes;
      const bool exists = u < g.slot_units && c < g.channels;
      offset_[i] = static_cast<uint32_t>(c * g.x_plane + row * g.x_row + (x + g.pad_w));
      low_ |= uint32_t{exists && x >= 0 && x < g.input_w} << i;
      high_ |= uint32_t{exists && x + 1 >= 0 && x + 1 < g.input_w} << i;
      second_ |= static_cast<uint32_t>(row) << i;
    }
  }

  __device__ __forceinline__ void load_items() {
    Cursor at = Cursor::first<rows>(g_);
    uint32_t even[kHeld * kParts], odd[kHeld * kParts];
    if (at.there(g_)) fetch(even, at);
    while (at.there(g_)) {
      at.advance<rows>(g_);
      if (at.there(g_)) fetch(odd, at);
      put(even);
      if (!at.there(g_)) break;
      at.advance<rows>(g_);
      if (at.there(g_)) fetch(even, at);
      put(odd);
    }
  }

 private:
  static constexpr int kParts = words ? 1 : 2; // loads for a pair

  __device__ __forceinline__ void fetch(uint32_t (&v)[kHeld * kParts], const Cursor &at) const {
    const int32_t n = at.item.image + lane_ / 4, y = at.item.first_row - g_.pad_h + at.slot * rows;
    const bool upper = n < g_.images && y >= 0 && y < g_.input_h,
               lower = n < g_.images && y + 1 >= 0 && y + 1 < g_.input_h;
    const uint32_t rows_inside = (upper ? ~second_ : 0) | (lower ? second_ : 0);
    const uint32_t low = low_ & rows_inside, high = high_ & rows_inside;
    const uint16_t *const from =
        static_cast<const uint16_t *>(p_.x) + (n * g_.x_image + int64_t{y} * g_.x_row - g_.pad_w);
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const uint16_t *const pair = from + offset_[i];
      if constexpr (words) {
        load_word_if(v[i], low & 1u << i, pair);
      } else {
        load_element_if(v[i * 2], low & 1u << i, pair);
        load_element_if(v[i * 2 + 1], high & 1u << i, pair + 1);
      }
    }
  }

  // Four 8 x 8 matrices at once, whose columns go to units.
  __device__ __forceinline__ void put(const uint32_t (&v)[kHeld * kParts]) {
    ptx::barrier_wait(s_.slot_empty(turn_.stage), turn_.phase ^ 1);
    const uint32_t to = s_.ring + turn_.stage * g_.slot_units * kUnit;
#pragma unroll
    for (int i = 0; i < kHeld; i += 4) {
      const int32_t group = warp_ + (i + lane_ / 8) * kLoaders;
      uint32_t w[4];
#pragma unroll
      for (int j = 0; j < 4; ++j)
        w[j] = words ? v[i + j] : v[(i + j) * kParts] | v[(i + j) * kParts + kParts - 1] << 16;
      if ((warp_ + (i + 3) * kLoaders) * 8 < g_.slot_units)
        store_four(to + (group * 8 + lane_ % 8) * kUnit, w);
      else
        for (int j = 0; j < 4; ++j)
          if ((warp_ + (i + j) * kLoaders) * 8 < g_.slot_units)
            store_one(to + ((warp_ + (i + j) * kLoaders) * 8 + lane_ % 8) * kUnit, w[j]);
    }
    ptx::barrier_arrive(s_.slot_full(turn_.stage)); // readers fence: here it would wait for the loads under way
    turn_.advance(g_.slots);
  }

  const Geometry &g_;
  const Pointers &p_;
  const Shared &s_;
  const int32_t warp_, lane_;
  uint32_t offset_[kHeld];
  uint32_t low_, high_, second_; // a bit a pair: its pixels are in the image; it is in the second row
  Turn turn_;
};

} // namespace polyconv::cuda::octets
