// few_in_patch.cuh - where a block of few_in works, and the patch of the input that it lays into shared memory:
// channels last, in units of 8 bytes that are filled up with zeros, a slice for each tap of depth.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bf16_parts.cuh"
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
template <int parts>
__device__ inline void put_unit(char *to, int32_t, const uint16_t (&v)[4]) {
  *reinterpret_cast<uint2 *>(to) =
      make_uint2(v[0] | static_cast<uint32_t>(v[1]) << 16, v[2] | static_cast<uint32_t>(v[3]) << 16);
}
template <int parts>
__device__ inline void put_unit(char *to, int32_t, const float (&v)[2]) {
  *reinterpret_cast<uint2 *>(to) =
      make_uint2(tensor::rounded_to_tf32(__float_as_uint(v[0])), tensor::rounded_to_tf32(__float_as_uint(v[1])));
}
template <int parts>
__device__ inline void put_unit(char *to, int32_t plane, float (&v)[4]) {
#pragma unroll
  for (int part = 0; part < parts; ++part)
    *reinterpret_cast<uint2 *>(to + part * plane) =
        make_uint2(tensor::take_part(v[0], v[1], part == 0), tensor::take_part(v[2], v[3], part == 0));
}

// A unit's channels as one load.
__device__ __forceinline__ void load_unit(uint16_t (&to)[4], const uint16_t *from) {
  const uint2 v = __ldg(reinterpret_cast<const uint2 *>(from));
  to[0] = static_cast<uint16_t>(v.x), to[1] = static_cast<uint16_t>(v.x >> 16);
  to[2] = static_cast<uint16_t>(v.y), to[3] = static_cast<uint16_t>(v.y >> 16);
}
__device__ __forceinline__ void load_unit(float (&to)[2], const float *from) {
  const float2 v = __ldg(reinterpret_cast<const float2 *>(from));
  to[0] = v.x, to[1] = v.y;
}
__device__ __forceinline__ void load_unit(float (&to)[4], const float *from) {
  const float4 v = __ldg(reinterpret_cast<const float4 *>(from));
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

// The slices of the input that the taps of depth read, one after the other. What lies outside is read from somewhere
// inside: loads without branches follow each other at once. A call, so that the products keep their registers.
template <class E, int parts>
__device__ __noinline__ void load_patch(const Geometry &g, const Pointers &p, const Corner &at, char *patch) {
  constexpr int kUnit = channels_of_unit(parts, sizeof(E));
  const E *const image = static_cast<const E *>(p.x) + at.image * g.x_image;
  const int32_t front = at.d * g.depth.step - g.depth.pad, top = at.h * g.step_h - g.pad_h,
                left = at.w * g.step_w - g.pad_w;
#pragma unroll 1
  for (auto first = static_cast<int32_t>(threadIdx.x); first < g.pixels; first += kAtOnce * kThreads) {
    int32_t from[kAtOnce];
    bool inside[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t pixel = first + i * kThreads, line = g.by_pitch(pixel), slice = g.by_lines(line);
      const int32_t d = front + slice * g.depth.dilation, h = top + line - slice * g.lines,
                    w = left + pixel - line * g.pitch;
      inside[i] = pixel < g.pixels && d >= 0 && d < g.depth.input && h >= 0 && h < g.input_h && w >= 0 && w < g.input_w;
      from[i] = inside[i] ? d * g.depth.x + h * g.x_row + w * g.x_column : 0;
    }
    for (int32_t unit = 0; unit < g.units; ++unit) {
      E loaded[kAtOnce][kUnit];
      if (g.whole) {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) load_unit(loaded[i], image + from[i] + unit * kUnit);
      } else {
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
          for (int c = 0; c < kUnit; ++c)
            loaded[i][c] = __ldg(image + from[i] + min(unit * kUnit + c, g.channels - 1) * g.x_plane);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
        for (int c = 0; c < kUnit; ++c)
          if (!inside[i] || unit * kUnit + c >= g.channels) loaded[i][c] = 0;
        if (first + i * kThreads < g.pixels)
          put_unit<parts>(patch + ((first + i * kThreads) * g.units + unit) * 8, g.plane, loaded[i]);
      }
    }
  }
}

} // namespace polyconv::cuda::few_in
