// pack.hpp - brings pixels of a tensor into panels: converted, a panel's channels side by side, its pixels one after
// the other.
//
// A pixel is stored as a whole vector, whatever the panel's channels: what is too much is overwritten by the next one,
// so pixels come in order, and a panel ends with room for a vector.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/load.hpp"
#include "cpu/common/transpose.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// The panels that pixels go to: `width` elements a pixel, a vector or less, or a whole number of vectors.
struct ProductPanels {
  int64_t channels, width; // of all panels together; of one
  int64_t elements;        // of one panel
};

// Channels side by side.
template <class From, class T>
POLYCONV_INLINE void copy_pixels(const Load<From, T> &convert, const From *in, int64_t stride, int64_t count,
                                 const ProductPanels &panels, T *out) {
  constexpr int kL = kLanes<T>;
  if (panels.channels == panels.width && stride == panels.width) { // one panel, as it lies
    const int64_t all = count * stride;
    int64_t i = 0;
    for (; i + kL <= all; i += kL) store(out + i, convert.full(in + i));
    if (i < all) store(out + i, convert.partial(in + i, static_cast<int>(all - i)));
    return;
  }
  const int64_t vectors = panels.width > kL ? panels.width : kL; // what a panel's pixel reads, and may
  for (int64_t i = 0; i < count; ++i, in += stride, out += panels.width) {
    T *panel = out;
    int64_t c = 0;
    for (; c + vectors <= panels.channels; c += panels.width, panel += panels.elements)
      for (int64_t lane = 0; lane < panels.width; lane += kL) store(panel + lane, convert.full(in + c + lane));
    for (; c < panels.channels; c += panels.width, panel += panels.elements)
      for (int64_t lane = 0; lane < panels.width; lane += kL) {
        const int64_t left = panels.channels - c - lane;
        const int some = left < 0 ? 0 : left < kL ? static_cast<int>(left) : kL;
        store(panel + lane, some == kL ? convert.full(in + c + lane) : convert.partial(in + c + lane, some));
      }
  }
}

// One vector of channels that lie apart, of up to a vector of pixels, 1 or 2 apart: a square is transposed.
template <class From, class T>
POLYCONV_INLINE void turn_square(const Load<From, T> &convert, const From *in, int64_t channel, int64_t stride,
                                 int channels, int pixels, int64_t width, T *out) {
  constexpr int kL = kLanes<T>;
  Vector<T> square[kL];
#pragma GCC unroll 16
  for (int lane = 0; lane < kL; ++lane) {
    square[lane] = Vector<T>{};
    if (lane >= channels) continue;
    const From *p = in + lane * channel;
    if (pixels == kL) __builtin_prefetch(p + 2 * kL * stride); // more lines than a core follows by itself
    if (stride == 1) {
      square[lane] = pixels == kL ? convert.full(p) : convert.partial(p, pixels);
    } else {
      const int reach = 2 * pixels - 1;
      const Vector<T> first = reach < kL ? convert.partial(p, reach) : convert.full(p);
      square[lane] = even_lanes<T>(first, reach > kL ? convert.partial(p + kL, reach - kL) : Vector<T>{});
    }
  }
  transpose<T>(square);
#pragma GCC unroll 16
  for (int i = 0; i < kL; ++i)
    if (i < pixels) store(out + i * width, square[i]);
}

// `count` pixels, `stride` elements apart, whose channels are `channel` elements apart, into all panels from `out` on.
template <class From, class T>
POLYCONV_NOINLINE void pack_pixels(const From *in, int64_t channel, int64_t stride, int64_t count,
                                   const ProductPanels &panels, T *out) {
  constexpr int kL = kLanes<T>;
  const Load<From, T> convert(0);
  if (channel == 1) return copy_pixels(convert, in, stride, count, panels, out);
  for (int64_t c = 0; c < panels.channels; c += panels.width, out += panels.elements)
    for (int64_t lane = 0; lane < panels.width; lane += kL) {
      const int64_t left = panels.channels - c - lane, room = panels.width - lane;
      const int64_t most = left < room ? left : room, channels = most < 0 ? 0 : most < kL ? most : kL;
      const From *first = in + (c + lane) * channel;
      if (stride == 1 || stride == 2) {
        for (int64_t i = 0; i < count; i += kL)
          turn_square(convert, first + i * stride, channel, stride, static_cast<int>(channels),
                      count - i < kL ? static_cast<int>(count - i) : kL, panels.width, out + i * panels.width + lane);
        continue;
      }
      for (int64_t i = 0; i < count; ++i) {
        T *pixel = out + i * panels.width + lane;
        for (int64_t k = 0; k < channels; ++k) pixel[k] = convert.one(first + k * channel + i * stride);
        for (int64_t k = channels; k < (room < kL ? room : kL); ++k) pixel[k] = T(0);
      }
    }
}

} // namespace polyconv::cpu::POLYCONV_ISA
