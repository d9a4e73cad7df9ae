// octets_load.cuh - the warps of cuda-tensor/octets that load: input rows of eight images come into a ring in shared
// memory, a unit for each pixel. Loads of the next slot are under way while one is stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "octets_parts.cuh"

namespace polyconv::cuda::octets {

// Or 0. It is under way from here on: nothing moves it to where it is used.
__device__ __forceinline__ void load_element_if(uint32_t &v, bool so, const uint16_t *from) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\nmov.b32 %0, 0;\n@p ld.global.nc.u16 %0, [%2];\n}"
               : "=&r"(v)
               : "r"(int{so}), "l"(from));
}
__device__ __forceinline__ void store_unit(uint32_t to, const uint32_t (&v)[kImages]) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v[0] | v[1] << 16), "r"(v[2] | v[3] << 16),
               "r"(v[4] | v[5] << 16), "r"(v[6] | v[7] << 16)
               : "memory");
}

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

// A loading warp: of each slot the same units, a lane each: 32 neighbouring pixels of an image are one load.
template <int rows>
class Loader {
 public:
  __device__ __forceinline__ Loader(const Geometry &g, const Pointers &p, const Shared &s, int32_t warp)
      : g_(g), p_(p), s_(s), first_(warp * 32 + static_cast<int32_t>(threadIdx.x) % 32) {
#pragma unroll
    for (int i = 0; i < kHeld; ++i) {
      const int32_t u = first_ + i * kLoaders * 32, planes = 2 * g.pairs;
      const auto line = static_cast<int32_t>(__umulhi(static_cast<uint32_t>(u), g.pitch_magic));
      const int32_t x = u - line * g.pitch - g.pad_w, row = line >= planes, c = line - row * planes;
      row_[i] = u < g.slot_units && c < g.channels && x >= 0 && x < g.input_w ? row : rows;
      offset_[i] = static_cast<uint32_t>(c * g.x_plane + row * g.x_row + (x + g.pad_w));
    }
  }

  __device__ __forceinline__ void load_items() {
    Cursor at(g_), ahead(g_);
    for (int32_t i = 0; i < kAhead; ++i) prefetch(ahead);
    uint32_t even[kHeld][kImages], odd[kHeld][kImages];
    bool there = at.advance<rows>(g_);
    if (there) fetch(even, at);
    while (there) {
      there = at.advance<rows>(g_);
      prefetch(ahead);
      if (there) fetch(odd, at);
      put(even);
      if (!there) break;
      there = at.advance<rows>(g_);
      prefetch(ahead);
      if (there) fetch(even, at);
      put(odd);
    }
  }

 private:
  static constexpr int kAhead = 8, kTogether = 4; // slots

  // Brings rows of the slots after `at` into the second cache: a warp an image, a lane a plane. Several slots are one
  // run, and what would come from memory when it is wanted would come too late.
  __device__ __forceinline__ void prefetch(Cursor &at) const {
    if (!at.advance<rows>(g_) || at.slot % kTogether != 0) return;
    const int32_t image = at.item.image + first_ / 32, lane = first_ % 32;
    const int32_t first = max(at.item.first_row - g_.pad_h + at.slot * rows, 0),
                  end = min(at.item.first_row - g_.pad_h + min(at.slot + kTogether, at.slots) * rows, g_.input_h);
    if (image >= g_.images || end <= first) return;
    const auto *const plane = static_cast<const uint16_t *>(p_.x) + image * g_.x_image;
    for (int32_t c = lane; c < g_.channels; c += 32) {
      const uint16_t *const from = plane + c * g_.x_plane + first * g_.x_row;
      const int32_t beyond = beyond_16(from), bytes = ((end - first - 1) * g_.x_row + g_.input_w) * 2;
      ptx::prefetch_run(reinterpret_cast<const char *>(from) - beyond, (beyond + bytes) & ~15);
    }
  }

  __device__ __forceinline__ void fetch(uint32_t (&v)[kHeld][kImages], const Cursor &at) const {
    const int32_t y = at.item.first_row - g_.pad_h + at.slot * rows;
    const uint16_t *from =
        static_cast<const uint16_t *>(p_.x) + (at.item.image * g_.x_image + int64_t{y} * g_.x_row - g_.pad_w);
    bool inside[kHeld];
#pragma unroll
    for (int i = 0; i < kHeld; ++i) inside[i] = row_[i] < rows && y + row_[i] >= 0 && y + row_[i] < g_.input_h;
#pragma unroll
    for (int n = 0; n < kImages; ++n, from += g_.x_image)
#pragma unroll
      for (int i = 0; i < kHeld; ++i)
        load_element_if(v[i][n], inside[i] && at.item.image + n < g_.images, from + offset_[i]);
  }

  __device__ __forceinline__ void put(const uint32_t (&v)[kHeld][kImages]) {
    ptx::barrier_wait(s_.slot_empty(turn_.stage), turn_.phase ^ 1);
    const uint32_t to = s_.ring + turn_.stage * g_.slot_units * kUnit;
#pragma unroll
    for (int i = 0; i < kHeld; ++i)
      if (const int32_t u = first_ + i * kLoaders * 32; u < g_.slot_units) store_unit(to + u * kUnit, v[i]);
    ptx::barrier_arrive(s_.slot_full(turn_.stage)); // readers fence: here it would wait for the loads under way
    turn_.advance(g_.slots);
  }

  const Geometry &g_;
  const Pointers &p_;
  const Shared &s_;
  const int32_t first_;    // unit
  int32_t row_[kHeld];     // in the slot; none if there is nothing to load
  uint32_t offset_[kHeld]; // elements
  Turn turn_;
};

} // namespace polyconv::cuda::octets
