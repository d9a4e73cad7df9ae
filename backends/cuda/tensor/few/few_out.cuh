// few_out.cuh - few filters on mma.sync: every lane loads 16 bytes of a pixel's channels from memory straight into the
// second operands of two steps of depth, so each input is read once and by one lane, whatever the taps. The first
// operands are the weights of all taps and filters together, in shared memory; so are the products when they are
// complete, and each output adds up those of its taps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "few/few_out.hpp"
#include "mma/fragments.cuh"

namespace polyconv::cuda::few_out {

// A block's patch: its outputs, and the input's pixels under them.
struct Patch {
  int32_t image, h, w, rows, columns; // outputs: the first, how many
  int32_t top, left, height, width;   // pixels inside the image

  __device__ Patch(const Geometry &g, int32_t block) {
    w = block % g.across * g.columns, block /= g.across;
    h = block % g.down * g.rows, image = block / g.down;
    rows = min(g.rows, g.output_h - h), columns = min(g.columns, g.output_w - w);
    const int32_t from_h = h * g.step_h - g.pad_h, from_w = w * g.step_w - g.pad_w;
    top = max(from_h, 0), left = max(from_w, 0);
    const int32_t end_h = from_h + (rows - 1) * g.step_h + (g.taps_h - 1) * g.dilation_h + 1,
                  end_w = from_w + (columns - 1) * g.step_w + (g.taps_w - 1) * g.dilation_w + 1;
    height = max(min(end_h, g.input_h) - top, 0), width = max(min(end_w, g.input_w) - left, 0);
  }
};

// ---------------------------------------------------------------- products

// What a lane loads of the pixels of its warp: a column of each of kGroups instructions.
template <class T, bool aligned>
class Pixels {
  static constexpr int kEach = 16 / sizeof(T); // channels

 public:
  __device__ Pixels(const Geometry &g, const Pointers &p, const Patch &patch, int32_t first) {
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
    from_ = static_cast<const Element *>(p.x) + patch.image * g.x_image + lane % 4 * kEach;
    exist_ = (g.channels / kEach - lane % 4 + 3) / 4;
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const int32_t pixel = first + i * kPositions + lane / 4, row = pixel / max(patch.width, 1);
      at_[i] = pixel < patch.height * patch.width
                   ? (patch.top + row) * g.x_row + (patch.left + pixel - row * patch.width) * g.x_column
                   : -1;
    }
  }
  __device__ __forceinline__ void load(uint4 (&to)[kGroups], int32_t vector) const {
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      to[i] = {};
      if (vector < exist_ && at_[i] >= 0) to[i] = channels(from_ + at_[i] + vector * 4 * kEach);
    }
  }

 private:
  using Element = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  __device__ __forceinline__ static uint4 channels(const Element *from) {
    if constexpr (aligned) return __ldg(reinterpret_cast<const uint4 *>(from));
    uint32_t words[4] = {};
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      words[e * static_cast<int>(sizeof(T)) / 4] |= static_cast<uint32_t>(__ldg(from + e)) << e * sizeof(T) % 4 * 8;
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  const Element *from_;
  int32_t at_[kGroups], exist_; // vectors that the lane has channels of
};

// A word of activations as a factor.
template <class T>
__device__ __forceinline__ uint32_t as_factor(uint32_t word) {
  return sizeof(T) == 4 ? tensor::rounded_to_tf32(word) : word;
}

template <class T, int tiles>
__device__ __forceinline__ void multiply_vector(float (&sums)[kGroups][tiles][4], const uint4 *weights,
                                                const uint4 (&pixels)[kGroups]) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    uint32_t b[kGroups][2];
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      b[i][0] = as_factor<T>(step == 0 ? pixels[i].x : pixels[i].z);
      b[i][1] = as_factor<T>(step == 0 ? pixels[i].y : pixels[i].w);
    }
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const uint4 v = weights[(step * tiles + tile) * 32];
      const uint32_t a[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < kGroups; ++i) tensor::multiply_add(sums[i][tile], a, b[i], T());
    }
  }
}

// The products of a warp's pixels, whose first vectors are on their way: two are while a third is multiplied, and one
// where they are gathered, which holds more registers.
template <bool aligned>
using Ahead = uint4[aligned ? 2 : 1][kGroups];

template <class T, bool aligned>
__device__ __forceinline__ void load_ahead(Ahead<aligned> &ring, const Pixels<T, aligned> &pixels) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof ring / sizeof *ring); ++i) pixels.load(ring[i], i);
}

template <class T, int tiles, bool aligned>
__device__ __forceinline__ void multiply_pixels(const Geometry &g, const Pixels<T, aligned> &pixels,
                                                Ahead<aligned> &ring, const uint4 *weights,
                                                float (&sums)[kGroups][tiles][4]) {
  constexpr int kAhead = sizeof ring / sizeof *ring, kVector = 2 * tiles * 32;
#pragma unroll 1
  for (int32_t vector = 0; vector < g.vectors; vector += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (vector + i >= g.vectors) break;
      uint4 now[kGroups];
#pragma unroll
      for (int j = 0; j < kGroups; ++j) now[j] = ring[i][j];
      pixels.load(ring[i], vector + i + kAhead);
      multiply_vector<T, tiles>(sums, weights + (vector + i) * kVector, now);
    }
  }
}

// ---------------------------------------------------------------- outputs

template <class T>
__device__ inline void add_taps(const Geometry &g, const Pointers &p, const Patch &patch, const float *products) {
  constexpr int kTogether = 4; // filters, whose sums do not wait for each other
  const int32_t outside = g.products * g.pitch;
  const auto begin = patch.image * g.y_image;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < patch.rows * patch.columns; i += kThreads) {
    const int32_t row = i / patch.columns, h = patch.h + row, w = patch.w + i - row * patch.columns;
    const int32_t at = h * g.y_row + w * g.y_column;
    for (int32_t first = 0; first < g.filters; first += kTogether) {
      float sums[kTogether] = {};
      int32_t product = first;
      for (int32_t r = 0; r < g.taps_h; ++r)
        for (int32_t s = 0; s < g.taps_w; ++s, product += g.filters) {
          const int32_t y = h * g.step_h - g.pad_h + r * g.dilation_h - patch.top,
                        z = w * g.step_w - g.pad_w + s * g.dilation_w - patch.left;
          const bool inside = y >= 0 && y < patch.height && z >= 0 && z < patch.width;
          const float *const from = products + (inside ? product * g.pitch + y * patch.width + z : outside + product);
          const int32_t apart = inside ? g.pitch : 1;
#pragma unroll
          for (int k = 0; k < kTogether; ++k) sums[k] += from[min(k, g.filters - 1 - first) * apart];
        }
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        if (first + k >= g.filters) break;
        float v = sums[k];
        if (p.bias != nullptr) v = cuda::add(v, __ldg(p.bias + first + k));
        if (g.relu && v < 0) v = 0;
        const int64_t to = begin + at + (first + k) * g.y_filter;
        if (g.wide)
          static_cast<float *>(p.y)[to] = v;
        else
          static_cast<T *>(p.y)[to] = static_cast<T>(v);
      }
    }
  }
}

// ---------------------------------------------------------------- the kernel

template <class T, int tiles, bool aligned>
__global__ void __launch_bounds__(kThreads, 1)
    multiply_taps(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  extern __shared__ __align__(16) char shared[];
  const int32_t operands = g.vectors * 2 * tiles * 32, lane = static_cast<int32_t>(threadIdx.x) % 32;
  auto *const weights = reinterpret_cast<uint4 *>(shared);
  auto *const products = reinterpret_cast<float *>(weights + operands);
  const Patch patch(g, static_cast<int32_t>(blockIdx.x));
  constexpr int kWarp = kGroups * kPositions;
  int32_t first = static_cast<int32_t>(threadIdx.x) / 32 * kWarp;
  Pixels<T, aligned> pixels(g, p, patch, first);
  Ahead<aligned> ring;
  load_ahead<T, aligned>(ring, pixels);
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < operands; i += kThreads) weights[i] = __ldg(p.weights + i);
  if (const auto i = static_cast<int32_t>(threadIdx.x); i < g.products)
    products[g.products * g.pitch + i] = __ldg(p.outside + i);
  __syncthreads();
#pragma unroll 1
  while (first < patch.height * patch.width) {
    float sums[kGroups][tiles][4] = {};
    multiply_pixels<T, tiles, aligned>(g, pixels, ring, weights + lane, sums);
    const int32_t done = first;
    first += kThreads / 32 * kWarp;
    pixels = Pixels<T, aligned>(g, p, patch, first);
    load_ahead<T, aligned>(ring, pixels);
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int32_t row = tile * 16 + half * 8 + lane / 4;
        float *const to = products + row * g.pitch + done + lane % 4 * 2;
        if (row >= g.products) continue;
#pragma unroll
        for (int i = 0; i < kGroups; ++i)
          *reinterpret_cast<float2 *>(to + i * kPositions) =
              make_float2(sums[i][tile][half * 2], sums[i][tile][half * 2 + 1]);
      }
  }
  __syncthreads();
  add_taps<T>(g, p, patch, products);
}

template <class T, int32_t type, int tiles, bool aligned>
constexpr Variant variant() {
  return {tiles, type, aligned, multiply_taps<T, tiles, aligned>};
}

} // namespace polyconv::cuda::few_out
