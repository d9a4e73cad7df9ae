// ahead.hpp - what the next unit reads, brought into the L2 cache line by line while this one is multiplied: packing by
// itself would wait for memory, and multiplying leave it idle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/product/plan.hpp"
#include "cpu/tile/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kProductSteps = kSteps<2>; // pixels at once

// Bytes of memory, the next first. The last one is never left.
struct ProductAhead {
  const char *at, *end;
  int64_t step; // bytes for each kProductSteps pixels of a tile
  const ProductStretch *next, *last;
};

// A line of what is to come; `inside` the stretch almost always.
POLYCONV_INLINE void fetch_some(ProductAhead &ahead) {
  __builtin_prefetch(ahead.at, 0, 2);
  ahead.at += ahead.step;
  if (__builtin_expect(ahead.at >= ahead.end, 0)) {
    ahead.at = ahead.next->at;
    ahead.end = ahead.next->end;
    ahead.next += ahead.next < ahead.last;
  }
}

// A list of at most kProductStretches and the end.
struct ProductStretches {
  ProductStretch *list;
  int64_t count, bytes;

  POLYCONV_MEMBER void add(const char *at, int64_t size) {
    if (count >= kProductStretches || size <= 0) return;
    list[count++] = {at, at + size};
    bytes += size;
  }
  // `pixels` neighbours from `at` on, of `channels` channels.
  POLYCONV_MEMBER void add_pixels(const polyconv_tensor &t, const char *at, int64_t element, int64_t channels,
                                  int64_t pixels) {
    const int64_t pixel = t.stride[4] * element, channel = t.stride[1] * element;
    if (t.stride[1] == 1 && t.stride[4] == channels) return add(at, pixels * pixel);
    if (t.stride[1] == 1)
      for (int64_t i = 0; i < pixels; ++i) add(at + i * pixel, channels * element);
    else if (pixel > 0 && pixel <= 2 * element)
      for (int64_t c = 0; c < channels; ++c) add(at + c * channel, pixels * pixel);
  }
  // For `steps` pixels of tiles; `idle` is memory that is at hand anyway.
  POLYCONV_MEMBER ProductAhead ahead(int64_t steps, const char *idle) const {
    constexpr int64_t kLineBytes = 64;
    list[count] = {idle, idle + kLineBytes};
    const int64_t each = steps > 0 ? (bytes / steps + 8) * kProductSteps : kLineBytes;
    return {list->at, list->end, each < kLineBytes ? each : kLineBytes, list + (count > 0), list + count};
  }
};

} // namespace polyconv::cpu::POLYCONV_ISA
