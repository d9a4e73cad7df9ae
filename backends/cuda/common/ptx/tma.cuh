// tma.cuh - the tensor memory accelerator (TMA) of compute capability 9.0, an instruction a function. Only for code of
// 90a.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h> // CUtensorMap

#include <cstdint>

namespace polyconv::cuda::ptx {

__device__ inline void prefetch(const CUtensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// A box of a tensor of two to four dimensions from (x, y, z, n); its bytes count at `barrier`.
__device__ inline void load_box(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
__device__ inline void load_box(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
      : "memory");
}
__device__ inline void load_box(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y, int z, int n) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(n)
      : "memory");
}
__device__ inline void load_box(uint32_t to, const CUtensorMap *map, uint32_t barrier, int x, int y, int z, int d,
                                int n) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(d), "r"(n)
      : "memory");
}
// Channels from c of a column of pixels, one tap of the filter: pixels are walked in the steps of the map, from the one
// at (w, h, n); the tap's offsets are added to every coordinate. What lies outside of the image is zero.
__device__ inline void load_pixels(uint32_t to, const CUtensorMap *map, uint32_t barrier, int c, int w, int h, int n,
                                   uint16_t tap_w, uint16_t tap_h) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], [%2], {%7, %8};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), "h"(tap_w), "h"(tap_h)
      : "memory");
}
__device__ inline void load_pixels(uint32_t to, const CUtensorMap *map, uint32_t barrier, int c, int w, int h, int d,
                                   int n, uint16_t tap_w, uint16_t tap_h, uint16_t tap_d) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
      "%7}], [%2], {%8, %9, %10};" ::"r"(to),
      "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(tap_w), "h"(tap_h), "h"(tap_d)
      : "memory");
}

// `bytes` of memory as they lie, a multiple of 16 from and to such; they count at `barrier`.
__device__ inline void load_run(uint32_t to, const void *from, int bytes, uint32_t barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
__device__ inline void store_run(void *to, uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}

// Ordinary stores to shared memory before this are seen by TMA stores after it.
__device__ inline void fence_for_tma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Shared memory to a box of a tensor of two to five dimensions, at (x, y, z, d, n) or without the middle ones; what
// lies outside of the tensor is dropped.
__device__ inline void store_box(const CUtensorMap *map, uint32_t from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
}
__device__ inline void store_box(const CUtensorMap *map, uint32_t from, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z)
               : "memory");
}
__device__ inline void store_box(const CUtensorMap *map, uint32_t from, int x, int y, int z, int n) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(from), "r"(x), "r"(y), "r"(z), "r"(n)
               : "memory");
}
__device__ inline void store_box(const CUtensorMap *map, uint32_t from, int x, int y, int z, int d, int n) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(from), "r"(x), "r"(y), "r"(z), "r"(d), "r"(n)
      : "memory");
}
// Shared memory to channels from c of a column of pixels, walked as load_pixels does; likewise.
__device__ inline void store_pixels(const CUtensorMap *map, uint32_t from, int c, int w, int h, int n) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(from), "r"(c), "r"(w), "r"(h), "r"(n)
      : "memory");
}
__device__ inline void store_pixels(const CUtensorMap *map, uint32_t from, int c, int w, int h, int d, int n) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
          map),
      "r"(from), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n)
      : "memory");
}
__device__ inline void stores_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until at most `Pending` groups of this thread's stores have still to read shared memory.
template <int Pending>
__device__ inline void stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

} // namespace polyconv::cuda::ptx
