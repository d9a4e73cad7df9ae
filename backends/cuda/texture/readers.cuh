// readers.cuh - how the input is read: by the texture unit's own coordinates, or by index map. See objects.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch.hpp"

namespace polyconv::cuda::texture {

inline constexpr int32_t kOutside = 1 << 28; // in an index map: beyond every linear object, and so are sums of two

// An integer texel as an operand: u8, u16, or the bits of a bf16.
__device__ inline float operand_of(unsigned texel, const Launch &launch) {
  return launch.bf16 ? __uint_as_float(texel << 16) : static_cast<float>(texel);
}
__device__ inline float operand_of(float texel, const Launch &) {
  return texel;
}

// Reads texels of one plane after another; y and x count in the block's tile of the input. The texture unit finds the
// texel and what stands for it outside: a coordinate is the middle of a texel, a size'th of it where normalised.
template <class Texel>
struct PlaneReader {
  const Launch &launch;
  const Objects &objects;
  float scale_x, scale_y, left, top;
  cudaTextureObject_t object;
  int32_t first; // plane of the image

  __device__ PlaneReader(const Conv<int32_t> &p, const Launch &l, const Objects &o, const int32_t *, int32_t image,
                         int32_t in_top, int32_t in_left, int32_t)
      : launch(l),
        objects(o),
        scale_x(l.scale[0]),
        scale_y(l.scale[1]),
        left(in_left + 0.5f),
        top(in_top + 0.5f),
        first(image * p.input.size[1]) {}
  __device__ void select(int32_t channel) { object = objects.of[first + channel]; }
  __device__ float row(int32_t y) const { return (top + static_cast<float>(y)) * scale_y; }
  __device__ float column(int32_t x) const { return (left + static_cast<float>(x)) * scale_x; }
  __device__ float operator()(float y, float x) const { return operand_of(tex2D<Texel>(object, x, y), launch); }
};

// Likewise with addresses from index maps in shared memory: of the tile's rows, then of its columns.
template <class Texel>
struct LinearReader {
  const Launch &launch;
  const int32_t *rows, *cols;
  cudaTextureObject_t object;
  int32_t image_base, base, channel_stride;
  float padding;

  __device__ LinearReader(const Conv<int32_t> &p, const Launch &l, const Objects &o, const int32_t *map, int32_t image,
                          int32_t, int32_t, int32_t my_image)
      : launch(l),
        rows(map),
        cols(map + l.tile.in_rows),
        channel_stride(p.input.stride[1]),
        padding(p.padding<float>()) {
    const int32_t group = image / l.images_an_object; // of the whole block: blocks do not straddle objects
    object = o.of[group];
    image_base = o.shift[group] + (my_image - group * l.images_an_object) * p.input.stride[0];
  }
  __device__ void select(int32_t channel) { base = image_base + channel * channel_stride; }
  __device__ int32_t row(int32_t y) const { return base + rows[y]; }
  __device__ int32_t column(int32_t x) const { return cols[x]; }
  __device__ float operator()(int32_t y, int32_t x) const {
    const int32_t i = y + x;
    const float v = operand_of(tex1Dfetch<Texel>(object, i), launch); // 0 beyond the object
    return i < kOutside ? v : padding;
  }
};

// Fills the index maps of a tile: offsets of rows and columns, kOutside for padding.
__device__ inline void fill_maps(const Conv<int32_t> &p, const Tiling &t, int32_t *map, int32_t top, int32_t left) {
  for (int32_t i = threadIdx.x; i < t.in_rows + t.in_cols; i += blockDim.x) {
    const bool across = i >= t.in_rows;
    const int32_t size = p.input.size[across ? 4 : 3], stride = p.input.stride[across ? 4 : 3];
    const int64_t from = sdk::padded_index(across ? left + i - t.in_rows : top + i, size, p.pad_mode);
    map[i] = from < 0 ? kOutside : static_cast<int32_t>(from) * stride;
  }
}

} // namespace polyconv::cuda::texture
