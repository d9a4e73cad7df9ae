// few_in.cuh - few input channels on mma.sync: a patch of the input lies in shared memory, channels last and filled up
// with zeros to whole units of 8 bytes, so that a lane finds its share of a step of depth in one load, wherever a tap
// is. Filters are the rows of the product and stay in registers; positions are its columns, eight at a time.
//
// Rows are dealt out so that the eight lanes of a position hold neighbouring filters: 64 of them in 16 bits leave as
// one line of 128 bytes. Planes wait in shared memory and leave from there, a warp a filter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "common/ptx/grid.cuh"
#include "common/ptx/hopper.cuh"
#include "few/few_in_patch.cuh"
#include "mma/fragments.cuh"

namespace polyconv::cuda::few_in {

// Filters that a lane stores at once; neighbours in memory.
__host__ __device__ constexpr int vector_of(int tiles, int bytes) {
  return 16 / bytes < 2 * tiles ? 16 / bytes : 2 * tiles;
}
// Filter of a group that lane / 4 == `lane` has as its result `i`: half i % 2 of tile i / 2.
__host__ __device__ constexpr int filter_of(int i, int lane, int vector) {
  return i / vector * 8 * vector + lane * vector + i % vector;
}

// Products of a sum are added up in two chains where there are many: they wait for each other less.
__host__ __device__ constexpr int chains_of(int steps, int parts) {
  return steps > 5 && parts == 1 ? 2 : 1;
}

// ---------------------------------------------------------------- products

// Where the units of a window lie, in bytes from its first pixel, -1 behind the last: of `count` units, by all threads.
__device__ inline void find_units(const Geometry &g, int32_t *units, int32_t count) {
  for (auto unit = static_cast<int32_t>(threadIdx.x); unit < count; unit += kThreads) {
    const int32_t tap = unit / g.units, line = tap / g.taps_w, slice = line / g.taps_h;
    const int32_t row = slice * g.lines + (line - slice * g.taps_h) * g.dilation_h,
                  pixel = row * g.pitch + (tap - line * g.taps_w) * g.dilation_w;
    units[unit] = slice < g.depth.taps ? (pixel * g.units + unit - tap * g.units) * 8 : -1;
  }
}

// The weights of a group, and where a lane's units are.
template <class Factor, int steps, int tiles, int parts>
class Taps {
 public:
  __device__ Taps(const Geometry &g, uint32_t patch) : zeros_(patch + g.input - 8), plane_(g.plane) {}

  __device__ __forceinline__ void load(const Pointers &p, int32_t group) {
    const uint4 *const from = p.weights + group * (parts * steps * tiles * 32) + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < parts * steps * tiles; ++i) {
      const uint4 v = __ldg(from + i * 32);
      uint32_t(&a)[4] = weights_[i / (steps * tiles)][i / tiles % steps][i % tiles];
      a[0] = v.x, a[1] = v.y, a[2] = v.z, a[3] = v.w;
    }
  }
  __device__ __forceinline__ void take(const int32_t *units) {
#pragma unroll
    for (int step = 0; step < steps; ++step) at_[step] = units[step * 4 + threadIdx.x % 4];
  }

  // Adds up sums of eight positions; the lane's begins at `from`.
  __device__ __forceinline__ void multiply(float (&sums)[tiles][4], uint32_t from) const {
    uint32_t b[steps][parts][2];
#pragma unroll
    for (int step = 0; step < steps; ++step)
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        // Beyond the last unit both factors are zero, so that no zero meets an Inf.
        const uint2 v = ptx::load_words(at_[step] >= 0 ? from + at_[step] + part * plane_ : zeros_);
        b[step][part][0] = v.x, b[step][part][1] = v.y;
      }
    if constexpr (parts == 3) { // what is smallest first; x3 w2, x2 w3 and x3 w3 are below the last bit
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        add(sums, step, 1, b[step][1]), add(sums, step, 2, b[step][0]), add(sums, step, 0, b[step][2]);
        add(sums, step, 1, b[step][0]), add(sums, step, 0, b[step][1]);
      }
    }
    constexpr int kMore = chains_of(steps, parts) - 1;
    float more[kMore + 1][tiles][4] = {};
#pragma unroll
    for (int step = 0; step < steps; ++step) add(step % 2 * kMore == 0 ? sums : more[0], step, 0, b[step][0]);
    if constexpr (kMore > 0) {
#pragma unroll
      for (int i = 0; i < 4 * tiles; ++i) sums[i / 4][i % 4] += more[0][i / 4][i % 4];
    }
  }

 private:
  __device__ __forceinline__ void add(float (&sums)[tiles][4], int step, int part, const uint32_t (&b)[2]) const {
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) tensor::multiply_add(sums[tile], weights_[part][step][tile], b, Factor());
  }

  uint32_t weights_[parts][steps][tiles][4];
  int32_t at_[steps]; // bytes
  const uint32_t zeros_;
  const int32_t plane_;
};

// ---------------------------------------------------------------- results

// Bias and relu of a lane's filters. In 16 bits results do not show that the bias came first.
template <class T, int tiles>
class Finish {
  static constexpr bool kFirst = sizeof(T) == 2;

 public:
  __device__ Finish(const Geometry &g, const Pointers &p, int32_t filter) : floor_(g.relu ? 0.0f : -INFINITY) {
#pragma unroll
    for (int i = 0; i < 2 * tiles; ++i) {
      const int32_t k = filter + filter_of(i, static_cast<int32_t>(threadIdx.x) % 32 / 4, vector_of(tiles, sizeof(T)));
      bias_[i] = p.bias != nullptr && k < g.filters ? __ldg(p.bias + k) : 0.0f;
    }
  }
  __device__ __forceinline__ void begin(float (&sums)[tiles][4]) const {
#pragma unroll
    for (int i = 0; i < 4 * tiles; ++i) sums[i / 4][i % 4] = kFirst ? bias_[i / 2] : 0.0f;
  }
  // Result i of the lane at position `e` of two.
  __device__ __forceinline__ float of(const float (&sums)[tiles][4], int i, int e) const {
    const float v = sums[i / 2][i % 2 * 2 + e];
    return ptx::greater(kFirst ? v : add(v, bias_[i]), floor_);
  }

 private:
  float bias_[2 * tiles];
  const float floor_;
};

// A lane's results at one position: 2 * tiles filters.
template <class T, int tiles, Ends ends>
__device__ __forceinline__ void put_pixel(T *to, const float (&v)[2 * tiles], int32_t exist) {
  constexpr int kVector = vector_of(tiles, sizeof(T)), kWords = kVector * static_cast<int>(sizeof(T)) / 4;
#pragma unroll
  for (int i = 0; i < 2 * tiles; i += kVector) {
    const int32_t k = filter_of(i, 0, kVector);
    if constexpr (ends == kTogether) {
      uint32_t words[4];
#pragma unroll
      for (int e = 0; e < kWords; ++e) {
        if constexpr (sizeof(T) == 4)
          words[e] = __float_as_uint(v[i + e]);
        else
          words[e] = pair_of(v[i + 2 * e], v[i + 2 * e + 1], T());
      }
      if (k >= exist) continue;
      if constexpr (kWords == 4)
        *reinterpret_cast<uint4 *>(to + k) = make_uint4(words[0], words[1], words[2], words[3]);
      else if constexpr (kWords == 2)
        *reinterpret_cast<uint2 *>(to + k) = make_uint2(words[0], words[1]);
      else
        *reinterpret_cast<uint32_t *>(to + k) = words[0];
    } else {
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (k + e < exist) to[k + e] = static_cast<T>(v[i + e]);
    }
  }
}

// A pair of neighbouring outputs of a filter to where it waits.
template <class T>
__device__ __forceinline__ void put_pair(T *to, float a, float b) {
  if constexpr (sizeof(T) == 4)
    *reinterpret_cast<float2 *>(to) = make_float2(a, b);
  else
    *reinterpret_cast<uint32_t *>(to) = pair_of(a, b, T());
}

// All results of a block from where they wait: a warp a filter. Words begin where lines of 128 bytes do, for what is
// written in parts is slow.
template <class T, int tiles>
__device__ inline void store_planes(const Geometry &g, const Corner &at, int32_t group, const T *waiting, T *corner) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
  for (int32_t row = static_cast<int32_t>(threadIdx.x) / 32; row < tiles * 16; row += kThreads / 32) {
    const int32_t k = group * tiles * 16 + filter_of(row / 8, row % 8, vector_of(tiles, sizeof(T)));
    if (k >= g.filters) continue;
    const T *const from = waiting + row * g.waiting;
    T *const to = corner + int64_t{k} * g.y_filter;
    if (g.in_pairs) {
      constexpr int kPerWord = 4 / sizeof(T);
      const auto skew = static_cast<int32_t>(reinterpret_cast<uintptr_t>(to) / 4 % 32);
      for (int32_t i = lane - skew; i < at.outputs / kPerWord; i += 32)
        if (i >= 0) reinterpret_cast<uint32_t *>(to)[i] = reinterpret_cast<const uint32_t *>(from)[i];
    } else {
      for (int32_t i = lane; i < at.outputs; i += 32) to[i * g.y_column] = from[i];
    }
  }
}

// A sum in f32, tap by tap, where its parts were not finite.
__device__ inline float exact_sum(const Geometry &g, const Pointers &p, const Corner &at, int32_t k, int32_t h,
                                  int32_t w) {
  const float *const x = static_cast<const float *>(p.x) + at.image * g.x_image;
  const int32_t lines = g.channels * g.depth.taps * g.taps_h; // of taps side by side
  const float *weight = p.exact + int64_t{k} * lines * g.taps_w;
  float sum = 0;
  for (int32_t line = 0; line < lines; ++line) {
    const int32_t plane = line / g.taps_h, r = line - plane * g.taps_h, c = plane / g.depth.taps;
    const int32_t d = at.d * g.depth.step - g.depth.pad + (plane - c * g.depth.taps) * g.depth.dilation;
    const int32_t y = (h * g.step_h + r * g.dilation_h) * g.grid_h - g.pad_h;
#pragma unroll 1
    for (int32_t s = 0; s < g.taps_w; ++s, ++weight) {
      const int32_t z = (w * g.step_w + s * g.dilation_w) * g.grid_w - g.pad_w;
      const bool inside = d >= 0 && d < g.depth.input && y >= 0 && y < g.input_h && z >= 0 && z < g.input_w;
      sum = fmaf(inside ? x[c * g.x_plane + d * g.depth.x + y * g.x_row + z * g.x_column] : 0.0f, *weight, sum);
    }
  }
  return sum;
}

// A lane's results at one position, again where they are not finite. A call, so that the products keep their registers.
template <int tiles>
__device__ __noinline__ void repair(const Geometry &g, const Pointers &p, const Corner &at, int32_t position, float *to,
                                    int32_t filter) {
  const int32_t row = position / g.columns, mine = static_cast<int32_t>(threadIdx.x) % 32 / 4;
  for (int32_t i = 0; i < 2 * tiles; ++i) {
    const int32_t beyond = filter_of(i, 0, vector_of(tiles, 4)), k = filter + filter_of(i, mine, vector_of(tiles, 4));
    if (k >= g.filters || fabsf(to[beyond]) < INFINITY) continue;
    float v = exact_sum(g, p, at, k, at.h + row, at.w + position - row * g.columns);
    if (p.bias != nullptr) v = add(v, p.bias[k]);
    to[beyond] = g.relu && v < 0 ? 0.0f : v;
  }
}

// ---------------------------------------------------------------- the kernel

// Blocks on a multiprocessor that registers leave room for; loading a patch takes more than 96 of a thread.
__host__ __device__ constexpr int resident_blocks(const Form &f) {
  const int held = 4 * f.parts * f.steps * f.tiles + 6 * f.tiles + f.steps + (f.parts > 1 ? 6 * f.steps : 0) + 36;
  return held <= 128 ? 4 : held <= 168 ? 3 : 2;
}

// The results of a group of filters at all outputs of a patch, whose input lies in shared memory from `begin` on.
template <class T, int tiles, int parts, Ends ends, class Taps>
__device__ __forceinline__ void multiply_group(const Geometry &g, const Pointers &p, const Corner &at, int32_t group,
                                               const Taps &taps, uint32_t begin, T *corner, T *waiting) {
  constexpr int kVector = vector_of(tiles, sizeof(T)), kStep = kThreads / 32 * kPositions;
  const int32_t filter = group * tiles * 16, lane = static_cast<int32_t>(threadIdx.x) % 32;
  const Finish<T, tiles> finish(g, p, filter);
  const int32_t across = g.step_w * g.units * 8, down = g.step_h * g.pitch * g.units * 8 - g.columns * across;
  int32_t first = static_cast<int32_t>(threadIdx.x) / 32 * kPositions;
  const int32_t mine = lane % 4 * 2,
                exist = g.filters - filter - lane / 4 * kVector; // of the first filter's neighbours
  T *to = corner + int64_t{first + mine} * g.y_column + filter + lane / 4 * kVector;
#pragma unroll 1
  for (; first < at.outputs; first += kStep, to += kStep * g.y_column) {
    const int32_t position = min(first + lane / 4, at.outputs - 1), row = g.by_columns(position);
    float sums[tiles][4];
    finish.begin(sums);
    taps.multiply(sums, begin + position * across + row * down);
    if constexpr (ends == kPlanes) {
#pragma unroll
      for (int i = 0; i < 2 * tiles; ++i)
        put_pair(waiting + (i * 8 + lane / 4) * g.waiting + first + mine, finish.of(sums, i, 0), finish.of(sums, i, 1));
    } else {
      const int32_t line = g.skip != 0 ? g.by_columns(first) : 0, end = line * g.columns + at.limit;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float v[2 * tiles];
        bool finite = true;
#pragma unroll
        for (int i = 0; i < 2 * tiles; ++i) {
          v[i] = finish.of(sums, i, e);
          finite = finite && fabsf(v[i]) < INFINITY;
        }
        if (first + mine + e >= end) continue;
        T *const pixel = to + line * g.skip + e * g.y_column;
        put_pixel<T, tiles, ends>(pixel, v, exist);
        if constexpr (parts > 1)
          if (!finite) repair<tiles>(g, p, at, first + mine + e, pixel, filter);
      }
    }
  }
  if constexpr (ends == kPlanes) {
    __syncthreads();
    store_planes<T, tiles>(g, at, group, waiting, corner);
    __syncthreads();
  }
}

template <class T, int steps, int tiles, int parts, Ends ends>
__global__ void __launch_bounds__(kThreads, resident_blocks(Form{steps, tiles, parts}))
    multiply_patch(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  extern __shared__ __align__(16) char patch[];
  using Element = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  using Factor = std::conditional_t<parts == 3, __nv_bfloat16, T>;
  const Corner at(g, static_cast<int32_t>(blockIdx.x));
  const uint32_t begin = ptx::shared_address(patch);
  auto *const units = reinterpret_cast<int32_t *>(patch + g.input);
  find_units(g, units, 4 * steps);
  ptx::await_previous();
  load_patch<Element, parts>(g, p, at, begin);
  if (threadIdx.x == 0) *reinterpret_cast<uint2 *>(patch + g.input - 8) = {};
  Taps<Factor, steps, tiles, parts> taps(g, begin);
  taps.load(p, at.group);
  T *const corner = static_cast<T *>(p.y) + at.image * g.y_image + int64_t{at.d} * g.depth.y + int64_t{at.h} * g.y_row +
                    at.w * g.y_column;
  auto *const waiting = reinterpret_cast<T *>(units + 4 * steps);
  __syncthreads();
  taps.take(units);
  multiply_group<T, tiles, parts, ends>(g, p, at, at.group, taps, begin, corner, waiting);
  if constexpr (Form{steps, tiles, parts}.takes_turns()) {
#pragma unroll 1
    for (int32_t group = at.group + 1; group < min(at.group + g.together, g.groups); ++group) {
      taps.load(p, group);
      multiply_group<T, tiles, parts, ends>(g, p, at, group, taps, begin, corner, waiting);
    }
  }
}

template <class T, int32_t type, int steps, int tiles>
constexpr Variant variant() {
  return {{steps, tiles, 1},
          type,
          {multiply_patch<T, steps, tiles, 1, kTogether>, multiply_patch<T, steps, tiles, 1, kSingly>,
           multiply_patch<T, steps, tiles, 1, kPlanes>},
          resident_blocks(Form{steps, tiles, 1})};
}
template <int steps, int tiles>
constexpr Variant emulated_variant() {
  return {{steps, tiles, 3},
          POLYCONV_F32,
          {multiply_patch<float, steps, tiles, 3, kTogether>, multiply_patch<float, steps, tiles, 3, kSingly>, nullptr},
          resident_blocks(Form{steps, tiles, 3})};
}

} // namespace polyconv::cuda::few_in
