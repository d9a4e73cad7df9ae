// few_in_patch.cuh - where a block of few_in works, and the patch of the input that it lays into shared memory:
// channels last, in units of 8 bytes that are filled up with zeros, a slice for each tap of depth.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bf16_parts.cuh"
#include "common/ptx/global.cuh"
#include "common/ptx/shared.cuh"
#include "few/few_in.hpp"
#include "mma/fragments.cuh"

namespace polyconv::cuda::few_in {

// Input channels in a unit.
__host__ __device__ constexpr int channels_of_unit(int parts, int bytes) {
  return parts > 1 ? 4 : 8 / bytes;
}

inline constexpr int kAtOnce = 8; // pixels that a thread loads

// Where a block works.
struct Corner {
  int32_t group, d, h, w, image; // the first group of filters; the first output
  int32_t outputs, limit;        // how many there are, or in a row, where a patch has parts of several

  __device__ Corner(const Geometry &g, int32_t block) {
    const int32_t turns = (g.groups + g.together - 1) / g.together;
    group = block % turns * g.together, block /= turns;
    w = block % g.across * g.columns, block /= g.across;
    h = block % g.down * g.rows, block /= g.down;
    image = block / g.depth.output, d = block - image * g.depth.output;
    const int32_t left = min(g.columns, g.output_w - w);
    outputs = min(g.rows, g.output_h - h) * (g.rows > 1 ? g.columns : left);
    limit = g.skip != 0 ? left : outputs;
  }
};

// A unit of a pixel to shared memory, as factors.
__device__ inline void put_words(uint32_t to, uint32_t a, uint32_t b) {
  ptx::store_pair(to, __uint_as_float(a), __uint_as_float(b));
}
template <class E, int parts, int channels>
__device__ __forceinline__ void put_unit(uint32_t to, int32_t plane, const uint32_t (&v)[channels]) {
  if constexpr (sizeof(E) == 2) {
    put_words(to, v[0] | v[1] << 16, v[2] | v[3] << 16);
  } else if constexpr (parts == 1) {
    put_words(to, tensor::rounded_to_tf32(v[0]), tensor::rounded_to_tf32(v[1]));
  } else {
    float rest[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) rest[c] = __uint_as_float(v[c]);
#pragma unroll
    for (int part = 0; part < parts; ++part)
      put_words(to + part * plane, tensor::take_part(rest[0], rest[1], part == 0),
                tensor::take_part(rest[2], rest[3], part == 0));
  }
}

// A channel, or a unit's channels as one load, where they are wanted; 16 bits become a word.
__device__ __forceinline__ void load_channel(bool wanted, uint32_t &to, const uint16_t *from) {
  ptx::load_global_half_if(wanted, to, from);
}
__device__ __forceinline__ void load_channel(bool wanted, uint32_t &to, const uint32_t *from) {
  ptx::load_global_if(wanted, to, from);
}
__device__ __forceinline__ void load_unit(bool wanted, uint32_t (&to)[4], const uint16_t *from) {
  uint32_t a = 0, b = 0;
  ptx::load_global_if(wanted, a, b, from);
  to[0] = a & 0xffff, to[1] = a >> 16, to[2] = b & 0xffff, to[3] = b >> 16;
}
__device__ __forceinline__ void load_unit(bool wanted, uint32_t (&to)[2], const uint32_t *from) {
  ptx::load_global_if(wanted, to[0], to[1], from);
}
__device__ __forceinline__ void load_unit(bool wanted, uint32_t (&to)[4], const uint32_t *from) {
  ptx::load_global_if(wanted, to[0], to[1], to[2], to[3], from);
}

__device__ __forceinline__ bool is_inside(int32_t at, uint32_t last) {
  return static_cast<uint32_t>(at) <= last;
}

// Where a thread's next pixels lie; an element that shares a unit with others is inside by itself along their axis.
struct Places {
  int32_t from[kAtOnce], along[kAtOnce];
  bool inside[kAtOnce];

  __device__ __forceinline__ Places(const Geometry &g, const Corner &at, int32_t first) {
    const int32_t front = at.d * g.depth.step - g.depth.pad, top = at.h * g.step_h * g.grid_h - g.pad_h,
                  left = at.w * g.step_w * g.grid_w - g.pad_w;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t pixel = first + i * kThreads, line = g.by_pitch(pixel), slice = g.by_lines(line);
      const int32_t d = front + slice * g.depth.dilation, h = top + (line - slice * g.lines) * g.grid_h,
                    w = left + (pixel - line * g.pitch) * g.grid_w;
      inside[i] = pixel < g.pixels && is_inside(d, g.last[0]) && is_inside(h, g.last[1]) && is_inside(w, g.last[2]);
      along[i] = g.fold.axis == 0 ? d : g.fold.axis == 1 ? h : w;
      from[i] = d * g.depth.x + h * g.x_row + w * g.x_column;
    }
  }
};

// The slices of the input that the taps of depth read, one after the other. Nothing branches for what lies outside:
// loads follow each other at once. No call: there the geometry would come from memory, again after each store.
template <class E, int parts>
__device__ __forceinline__ void load_patch(const Geometry &g, const Pointers &p, const Corner &at, uint32_t patch) {
  constexpr int kUnit = channels_of_unit(parts, sizeof(E));
  const E *image = static_cast<const E *>(p.x) + at.image * g.x_image;
  asm volatile("" : "+l"(image)); // else it is computed again for each element
  const int32_t apart = kThreads * g.units * 8;
  uint32_t to = patch + threadIdx.x * g.units * 8;
  const auto put = [&](int32_t first, uint32_t to, const uint32_t(&loaded)[kAtOnce][kUnit]) {
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
      if (first + i * kThreads < g.pixels) put_unit<E, parts>(to + i * apart, g.plane, loaded[i]);
  };
#pragma unroll 1
  for (auto first = static_cast<int32_t>(threadIdx.x); first < g.pixels;
       first += kAtOnce * kThreads, to += kAtOnce * apart) {
    const Places places(g, at, first);
    if (g.fold.taps > 1) {
      uint32_t loaded[kAtOnce][kUnit] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int c = 0; c < kUnit; ++c)
          load_channel(
              places.inside[i] && c < g.fold.elements && is_inside(places.along[i] + g.fold.shift[c], g.fold.last),
              loaded[i][c], image + (places.from[i] + g.fold.offset[c]));
      put(first, to, loaded);
      continue;
    }
#pragma unroll 1
    for (int32_t unit = 0; unit < g.units; ++unit) {
      uint32_t loaded[kAtOnce][kUnit] = {};
      const int32_t channel = unit * kUnit;
      if (g.whole) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) load_unit(places.inside[i], loaded[i], image + (places.from[i] + channel));
      } else {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
          for (int c = 0; c < kUnit; ++c)
            load_channel(places.inside[i] && channel + c < g.channels, loaded[i][c],
                         image + (places.from[i] + (channel + c) * g.x_plane));
      }
      put(first, to + unit * 8, loaded);
    }
  }
}

} // namespace polyconv::cuda::few_in
