// few_in.cuh - few input channels on mma.sync: a patch of the input lies in shared memory, channels last and filled up
// with zeros to whole units of 8 bytes, so that a lane finds its share of a step of depth in one load, wherever a tap
// is. Filters are the rows of the product and stay in registers; positions are its columns, eight at a time.
//
// Rows are dealt out so that the eight lanes of a position hold neighbouring filters: 64 of them in 16 bits leave as
// one line of 128 bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "bf16_parts.cuh"
#include "few_in.hpp"
#include "mma_fragments.cuh"

namespace polyconv::cuda::few_in {

// Filters that a lane stores at once; neighbours in memory.
__host__ __device__ constexpr int vector_of(int tiles, int bytes) {
  return 16 / bytes < 2 * tiles ? 16 / bytes : 2 * tiles;
}
// Filter of a group that lane / 4 == `lane` has as its result `i`: half i % 2 of tile i / 2.
__host__ __device__ constexpr int filter_of(int i, int lane, int vector) {
  return i / vector * 8 * vector + lane * vector + i % vector;
}
// Input channels in a unit.
__host__ __device__ constexpr int channels_of_unit(int parts, int bytes) {
  return parts > 1 ? 4 : 8 / bytes;
}

// Where a block works.
struct Corner {
  int32_t group, h, w, image; // first output

  __device__ Corner(const Geometry &g, int32_t block) {
    group = block % g.groups, block /= g.groups;
    w = block % g.across * g.columns, block /= g.across;
    h = block % g.down * g.rows, image = block / g.down;
  }
};

// ---------------------------------------------------------------- the patch

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
        make_uint2(tensor::take_part(v[0], v[1]), tensor::take_part(v[2], v[3]));
}

// What lies outside is read from somewhere inside: loads without branches follow each other at once.
template <class E, int parts>
__device__ inline void load_patch(const Geometry &g, const Pointers &p, const Corner &at, char *patch) {
  constexpr int kAtOnce = 4, kUnit = channels_of_unit(parts, sizeof(E));
  const E *const image = static_cast<const E *>(p.x) + at.image * g.x_image;
  const int32_t top = at.h * g.step_h - g.pad_h, left = at.w * g.step_w - g.pad_w;
  for (auto first = static_cast<int32_t>(threadIdx.x); first < g.pixels; first += kAtOnce * kThreads) {
    int32_t from[kAtOnce];
    bool inside[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t pixel = first + i * kThreads, row = pixel / g.pitch, h = top + row,
                    w = left + pixel - row * g.pitch;
      inside[i] = h >= 0 && h < g.input_h && w >= 0 && w < g.input_w;
      from[i] = inside[i] ? h * g.x_row + w * g.x_column : 0;
    }
    for (int32_t unit = 0; unit < g.units; ++unit) {
      E loaded[kAtOnce][kUnit];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
        for (int c = 0; c < kUnit; ++c)
          loaded[i][c] = __ldg(image + from[i] + min(unit * kUnit + c, g.channels - 1) * g.x_plane);
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

// ---------------------------------------------------------------- products

// The weights of a group, and where a lane's units are.
template <class Factor, int steps, int tiles, int parts>
class Taps {
 public:
  __device__ Taps(const Geometry &g, const Pointers &p, int32_t group) {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const uint4 *const from = p.weights + group * (parts * steps * tiles * 32) + lane;
#pragma unroll
    for (int i = 0; i < parts * steps * tiles; ++i) {
      const uint4 v = __ldg(from + i * 32);
      uint32_t(&a)[4] = weights_[i / (steps * tiles)][i / tiles % steps][i % tiles];
      a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
    }
    const int32_t all = g.taps_h * g.taps_w * g.units;
    exist_ = (all - lane % 4 + 3) / 4;
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const int32_t unit = step * 4 + lane % 4, tap = unit / g.units, row = tap / g.taps_w;
      const int32_t pixel = row * g.dilation_h * g.pitch + (tap - row * g.taps_w) * g.dilation_w;
      at_[step] = (pixel * g.units + unit - tap * g.units) * 8;
    }
  }

  // Sums of eight positions; the lane's begins at `patch`.
  __device__ __forceinline__ void multiply(float (&sums)[tiles][4], const char *patch, int32_t plane) const {
    uint32_t b[steps][parts][2];
#pragma unroll
    for (int step = 0; step < steps; ++step)
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        uint2 v = {}; // beyond the last unit both factors are zero, so that no zero meets an Inf
        if (step < exist_) v = *reinterpret_cast<const uint2 *>(patch + at_[step] + part * plane);
        b[step][part][0] = v.x, b[step][part][1] = v.y;
      }
    if constexpr (parts == 3) { // what is smallest first; x3 w2, x2 w3 and x3 w3 are below the last bit
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        add(sums, step, 1, b[step][1]), add(sums, step, 2, b[step][0]), add(sums, step, 0, b[step][2]);
        add(sums, step, 1, b[step][0]), add(sums, step, 0, b[step][1]);
      }
    }
#pragma unroll
    for (int step = 0; step < steps; ++step) add(sums, step, 0, b[step][0]);
  }

 private:
  __device__ __forceinline__ void add(float (&sums)[tiles][4], int step, int part, const uint32_t (&b)[2]) const {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) tensor::multiply_add(sums[tile], weights_[part][step][tile], b, Factor());
  }

  uint32_t weights_[parts][steps][tiles][4];
  int32_t at_[steps], exist_; // bytes; steps in which the lane has a unit
};

// ---------------------------------------------------------------- results

// A lane's results at one position: 2 * tiles filters.
template <class T, int tiles>
__device__ __forceinline__ void put_results(const Geometry &g, T *to, const float (&v)[2 * tiles], int32_t filter) {
  constexpr int kVector = vector_of(tiles, sizeof(T));
  const int32_t mine = static_cast<int32_t>(threadIdx.x) % 32 / 4;
#pragma unroll
  for (int i = 0; i < 2 * tiles; i += kVector) {
    const int32_t k = filter + filter_of(i, mine, kVector);
    if (g.together) {
      uint32_t words[kVector * sizeof(T) / 4];
#pragma unroll
      for (int e = 0; e < kVector * static_cast<int>(sizeof(T)) / 4; ++e)
        if constexpr (sizeof(T) == 4)
          words[e] = __float_as_uint(v[i + e]);
        else
          words[e] = tensor::pair_of(v[i + 2 * e], v[i + 2 * e + 1], T());
      if (k >= g.filters) continue;
      if constexpr (sizeof words == 16)
        *reinterpret_cast<uint4 *>(to + k) = make_uint4(words[0], words[1], words[2], words[3]);
      else
        *reinterpret_cast<uint2 *>(to + k) = make_uint2(words[0], words[1]);
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (k + e < g.filters) to[k + e] = static_cast<T>(v[i + e]);
    }
  }
}

// A sum in f32, tap by tap, where its parts were not finite.
__device__ inline float exact_sum(const Geometry &g, const Pointers &p, int32_t image, int32_t k, int32_t h,
                                  int32_t w) {
  const float *const x = static_cast<const float *>(p.x) + image * g.x_image;
  const float *weight = p.exact + int64_t{k} * g.channels * g.taps_h * g.taps_w;
  float sum = 0;
  for (int32_t c = 0; c < g.channels; ++c)
    for (int32_t r = 0; r < g.taps_h; ++r)
#pragma unroll 1
      for (int32_t s = 0; s < g.taps_w; ++s, ++weight) {
        const int32_t y = h * g.step_h - g.pad_h + r * g.dilation_h, z = w * g.step_w - g.pad_w + s * g.dilation_w;
        const bool inside = y >= 0 && y < g.input_h && z >= 0 && z < g.input_w;
        sum = fmaf(inside ? x[c * g.x_plane + y * g.x_row + z * g.x_column] : 0.0f, *weight, sum);
      }
  return sum;
}

// A lane's results at one position, again. A call, so that the products keep their registers.
template <int tiles>
__device__ __noinline__ void repair(const Geometry &g, const Pointers &p, const Corner &at, int32_t position, float *to,
                                    int32_t filter) {
  const int32_t mine = static_cast<int32_t>(threadIdx.x) % 32 / 4, row = position / g.columns;
  for (int32_t i = 0; i < 2 * tiles; ++i) {
    const int32_t k = filter + filter_of(i, mine, vector_of(tiles, 4));
    if (k >= g.filters || fabsf(to[k]) < INFINITY) continue;
    float v = exact_sum(g, p, at.image, k, at.h + row, at.w + position - row * g.columns);
    if (p.bias != nullptr) v = add(v, p.bias[k]);
    to[k] = g.relu && v < 0 ? 0.0f : v;
  }
}

// ---------------------------------------------------------------- the kernel

// Blocks on a multiprocessor that registers leave room for.
__host__ __device__ constexpr int resident_blocks(const Form &f) {
  const int held = 4 * f.parts * f.steps * f.tiles + 6 * f.tiles + f.steps + (f.parts > 1 ? 6 * f.steps : 0) + 36;
  return held <= 80 ? 6 : held <= 96 ? 5 : held <= 128 ? 4 : held <= 168 ? 3 : 2;
}

template <class T, int steps, int tiles, int parts>
__global__ void __launch_bounds__(kThreads, resident_blocks(Form{steps, tiles, parts}))
    multiply_patch(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  extern __shared__ __align__(16) char patch[];
  using Element = std::conditional_t<sizeof(T) == 2, uint16_t, float>;
  using Factor = std::conditional_t<parts == 3, __nv_bfloat16, T>;
  const Corner at(g, static_cast<int32_t>(blockIdx.x));
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, filter = at.group * tiles * 16;
  load_patch<Element, parts>(g, p, at, patch);
  const Taps<Factor, steps, tiles, parts> taps(g, p, at.group);
  float bias[2 * tiles];
#pragma unroll
  for (int i = 0; i < 2 * tiles; ++i) {
    const int32_t k = filter + filter_of(i, lane / 4, vector_of(tiles, sizeof(T)));
    bias[i] = p.bias != nullptr && k < g.filters ? __ldg(p.bias + k) : 0.0f;
  }
  T *const corner = static_cast<T *>(p.y) + at.image * g.y_image + at.h * g.y_row + at.w * g.y_column;
  __syncthreads();

#pragma unroll 1
  for (int32_t first = static_cast<int32_t>(threadIdx.x) / 32 * kPositions; first < g.outputs;
       first += kThreads / 32 * kPositions) {
    const int32_t mine = first + lane / 4, position = min(mine, g.outputs - 1),
                  row = g.magic == 0 ? position : static_cast<int32_t>(__umulhi(g.magic, position)),
                  column = position - row * g.columns;
    float sums[tiles][4] = {};
    taps.multiply(sums, patch + (row * g.step_h * g.pitch + column * g.step_w) * g.units * 8, g.plane);
    const bool wanted = mine < g.outputs && at.h + row < g.output_h && at.w + column < g.output_w;
    const int32_t place = wanted ? row * g.y_row + column * g.y_column : -1;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t there = __shfl_sync(~0u, place, (lane % 4 * 2 + e) * 4);
      float v[2 * tiles];
      bool finite = true;
#pragma unroll
      for (int i = 0; i < 2 * tiles; ++i) {
        v[i] = cuda::add(sums[i / 2][i % 2 * 2 + e], bias[i]);
        if (parts > 1) finite = finite && fabsf(v[i]) < INFINITY;
        if (g.relu && v[i] < 0) v[i] = 0;
      }
      if (there < 0) continue;
      put_results<T, tiles>(g, corner + there, v, filter);
      if constexpr (parts > 1)
        if (!finite) repair<tiles>(g, p, at, first + lane % 4 * 2 + e, corner + there, filter);
    }
  }
}

template <class T, int32_t type, int steps, int tiles, int parts = 1>
constexpr Variant variant() {
  return {
      {steps, tiles, parts}, type, multiply_patch<T, steps, tiles, parts>, resident_blocks(Form{steps, tiles, parts})};
}

} // namespace polyconv::cuda::few_in
