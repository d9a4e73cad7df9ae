// places.cuh - which taps of a window lie beside the image, as bits that are found once a window: a bit for each place
// along each axis, behind each other, and one that is always set. Whether a tap is inside is then one test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <cstdint>

#include "common/layer.hpp"

namespace polyconv::cuda {

inline constexpr int kMostPlaces = 31; // taps along each axis, added
inline constexpr uint32_t kNowhere = 1u << kMostPlaces;

// Whether a layer's windows have their bits; where none leaves the image, one says that the window is there.
inline bool has_places(const polyconv_layer &l) {
  return pads_nothing(l) || l.weights.size[2] + l.weights.size[3] + l.weights.size[4] <= kMostPlaces;
}

// Along three axes: taps and what lies between them, and sizes of the image. `all_inside`: of every window.
struct PlaceAxes {
  int32_t taps[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, size[3] = {};
  int32_t all_inside = 0;

  PlaceAxes() = default;
  explicit PlaceAxes(const polyconv_layer &l) : all_inside(pads_nothing(l) ? 1 : 0) {
    for (int axis = 0; axis < 3; ++axis) {
      taps[axis] = static_cast<int32_t>(l.weights.size[2 + axis]);
      dilation[axis] = static_cast<int32_t>(l.dilation[axis]);
      size[axis] = static_cast<int32_t>(l.input.size[2 + axis]);
    }
  }
#ifdef __CUDACC__
  // Of the window that begins at `first`; ~0 is that of a window which is not there.
  __device__ uint32_t outside(const int32_t (&first)[3]) const {
    uint32_t found = kNowhere, bit = 1;
    if (all_inside) return found;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis)
#pragma unroll 1
      for (int32_t t = 0, i = first[axis]; t < taps[axis]; ++t, i += dilation[axis], bit *= 2)
        if (static_cast<uint32_t>(i) >= static_cast<uint32_t>(size[axis])) found |= bit;
    return found;
  }
  // Of a tap; kNowhere is that of a tap which is not there.
  __device__ uint32_t of(int32_t d, int32_t h, int32_t w) const {
    return all_inside ? 1u : 1u << d | 1u << (taps[0] + h) | 1u << (taps[0] + taps[1] + w);
  }
#endif
};

} // namespace polyconv::cuda
