// few_out.cuh - few filters on mma.sync: every lane loads 16 bytes of a pixel's channels from memory straight into the
// second operands of two steps of depth, so each input is read once and by one lane, whatever the taps. The first
// operands are the weights of all taps and filters together, in shared memory; so are the products when they are
// complete, and each output adds up those of its taps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <type_traits>

#include "common/ptx/grid.cuh"
#include "few/few_out.hpp"
#include "mma/fragments.cuh"

namespace polyconv::cuda::few_out {

// A block's patch: its outputs, and the input's pixels under a plane of them.
struct Patch {
  int32_t image, d, h, w, deep, rows, columns; // outputs: the first, how many
  int32_t top, left, height, width;            // pixels inside the image
  int32_t front, end;                          // slices of the input that the patch's windows reach, padding too
  Quotient by_columns, by_outputs, by_width;   // outputs of a plane

  __device__ Patch(const Geometry &g, int32_t block) {
    w = block % g.across * g.columns, block /= g.across;
    h = block % g.down * g.rows, block /= g.down;
    image = block / g.along, d = (block - image * g.along) * g.deep;
    deep = min(g.deep, g.depth.output - d), rows = min(g.rows, g.output_h - h),
    columns = min(g.columns, g.output_w - w);
    const int32_t from_h = h * g.step_h - g.pad_h, from_w = w * g.step_w - g.pad_w;
    top = max(from_h, 0), left = max(from_w, 0);
    const int32_t end_h = from_h + (rows - 1) * g.step_h + (g.taps_h - 1) * g.dilation_h + 1,
                  end_w = from_w + (columns - 1) * g.step_w + (g.taps_w - 1) * g.dilation_w + 1;
    height = max(min(end_h, g.input_h) - top, 0), width = max(min(end_w, g.input_w) - left, 0);
    by_columns = Quotient(columns), by_outputs = Quotient(rows * columns), by_width = Quotient(width);
    front = d * g.depth.step - g.depth.pad;
    end = front + (deep - 1) * g.depth.step + (g.depth.taps - 1) * g.depth.dilation + 1;
  }

  // The plane of outputs that a tap of depth reads a slice for, counted from the patch's first; negative: none.
  __device__ int32_t plane(const Geometry &g, int32_t slice, int32_t tap) const {
    const int32_t from = slice - front - tap * g.depth.dilation, which = from < 0 ? deep : g.by_step(from);
    return which < deep && which * g.depth.step == from ? which : -1;
  }
  // The next slice from here on that some tap reads; `inside`: of those that the input has.
  __device__ int32_t next(const Geometry &g, int32_t slice, bool inside) const {
    if (inside) slice = max(slice, 0);
    const int32_t last = inside ? min(end, g.depth.input) : end;
    if (g.dense) return slice < last ? slice : end;
    for (; slice < last; ++slice)
      for (int32_t tap = 0; tap < g.depth.taps; ++tap)
        if (plane(g, slice, tap) >= 0) return slice;
    return end;
  }
};

static_assert(sizeof(Patch) <= kPatchBytes);

// ---------------------------------------------------------------- products

// What a lane loads of the pixels of its warp: a column of each of its instructions.
template <class T, int groups, bool aligned>
class Pixels {
  static constexpr int kEach = 16 / sizeof(T); // channels

 public:
  // From pixel `first` of a slice on; none where the input has no such slice.
  __device__ Pixels(const Geometry &g, const Pointers &p, const Patch &patch, int32_t slice, int32_t first) {
    const bool exists = slice < min(patch.end, g.depth.input);
    const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32;
    from_ = static_cast<const Element *>(p.x) + patch.image * g.x_image + (exists ? int64_t{slice} * g.depth.x : 0) +
            lane % 4 * kEach;
    exist_ = (g.channels / kEach - lane % 4 + 3) / 4;
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      const int32_t pixel = first + i * kPositions + lane / 4, row = patch.by_width(pixel);
      at_[i] = exists && pixel < patch.height * patch.width
                   ? (patch.top + row) * g.x_row + (patch.left + pixel - row * patch.width) * g.x_column
                   : -1;
    }
  }
  __device__ __forceinline__ void load(uint4 (&to)[groups], int32_t vector) const {
#pragma unroll
    for (int i = 0; i < groups; ++i) {
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
  int32_t at_[groups], exist_; // vectors that the lane has channels of
};

// A word of activations as a factor.
template <class T>
__device__ __forceinline__ uint32_t as_factor(uint32_t word) {
  return sizeof(T) == 4 ? tensor::rounded_to_tf32(word) : word;
}

template <class T, int tiles, int groups>
__device__ __forceinline__ void multiply_vector(float (&sums)[groups][tiles][4], const uint4 *weights,
                                                const uint4 (&pixels)[groups]) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
    uint32_t b[groups][2];
#pragma unroll
    for (int i = 0; i < groups; ++i) {
      b[i][0] = as_factor<T>(step == 0 ? pixels[i].x : pixels[i].z);
      b[i][1] = as_factor<T>(step == 0 ? pixels[i].y : pixels[i].w);
    }
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const uint4 v = weights[(step * tiles + tile) * 32];
      const uint32_t a[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < groups; ++i) tensor::multiply_add(sums[i][tile], a, b[i], T());
    }
  }
}

// The products of a warp's pixels, whose first vectors are on their way: eight are while a ninth is multiplied, and one
// of each pixel where they are gathered, which holds more registers.
template <int groups, bool aligned>
using Ahead = uint4[aligned ? 8 / groups : 1][groups];

template <class T, int groups, bool aligned>
__device__ __forceinline__ void load_ahead(Ahead<groups, aligned> &ring, const Pixels<T, groups, aligned> &pixels) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof ring / sizeof *ring); ++i) pixels.load(ring[i], i);
}

template <class T, int tiles, int groups, bool aligned>
__device__ __forceinline__ void multiply_pixels(const Geometry &g, const Pixels<T, groups, aligned> &pixels,
                                                Ahead<groups, aligned> &ring, const uint4 *weights,
                                                float (&sums)[groups][tiles][4]) {
  constexpr int kAhead = sizeof ring / sizeof *ring, kVector = 2 * tiles * 32;
#pragma unroll 1
  for (int32_t vector = 0; vector < g.vectors; vector += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (vector + i >= g.vectors) break;
      uint4 now[groups];
#pragma unroll
      for (int j = 0; j < groups; ++j) now[j] = ring[i][j];
      pixels.load(ring[i], vector + i + kAhead);
      multiply_vector<T>(sums, weights + (vector + i) * kVector, now);
    }
  }
}

// The products of a slice's pixels, to shared memory. `ring` holds the first vectors of a warp's first pixels, and
// afterwards those of the next slice.
template <class T, int tiles, int groups, bool aligned>
__device__ __forceinline__ void multiply_slice(const Geometry &g, const Pointers &p, const Patch &patch, int32_t slice,
                                               Pixels<T, groups, aligned> &pixels, Ahead<groups, aligned> &ring,
                                               const uint4 *weights, float *products) {
  constexpr int kWarp = groups * kPositions;
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, begin = static_cast<int32_t>(threadIdx.x) / 32 * kWarp;
  const int32_t all = patch.height * patch.width;
#pragma unroll 1
  for (int32_t first = begin; first < all;) {
    float sums[groups][tiles][4] = {};
    multiply_pixels<T>(g, pixels, ring, weights + lane, sums);
    const int32_t done = first;
    first += static_cast<int32_t>(blockDim.x) / 32 * kWarp;
    pixels = first < all ? Pixels<T, groups, aligned>(g, p, patch, slice, first)
                         : Pixels<T, groups, aligned>(g, p, patch, patch.next(g, slice + 1, true), begin);
    load_ahead<T>(ring, pixels);
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int32_t row = tile * 16 + half * 8 + lane / 4;
        float *const to = products + row * g.pitch + done + lane % 4 * 2;
        if (row >= g.products) continue;
#pragma unroll
        for (int i = 0; i < groups; ++i)
          *reinterpret_cast<float2 *>(to + i * kPositions) =
              make_float2(sums[i][tile][half * 2], sums[i][tile][half * 2 + 1]);
      }
  }
}

// ---------------------------------------------------------------- outputs

constexpr int kTogether = 4; // filters, whose sums do not wait for each other

// Of a row of taps, `step` apart, all products at once and then their sums: the first of each filter's is `at` behind
// `from`.
template <int taps>
__device__ __forceinline__ void add_row(const float *from, int32_t step, const int32_t (&at)[kTogether],
                                        float (&sums)[kTogether]) {
  float products[taps][kTogether];
#pragma unroll
  for (int s = 0; s < taps; ++s)
#pragma unroll
    for (int k = 0; k < kTogether; ++k) products[s][k] = from[s * step + at[k]];
#pragma unroll
  for (int s = 0; s < taps; ++s)
#pragma unroll
    for (int k = 0; k < kTogether; ++k) sums[k] += products[s][k];
}

// What the taps of a plane add to the sums of up to so many filters, whose window's corner is at (y, z) of the patch's
// pixels. `products`: of the first of these taps and filters, whose sums outside the image are `outside`; `exists`: the
// input has the slice.
__device__ inline void add_plane(const Geometry &g, const Patch &patch, const float *products, const float *outside,
                                 bool exists, int32_t y, int32_t z, int32_t last, float (&sums)[kTogether]) {
  const int32_t next = g.filters * g.pitch; // from a tap's products to the next one's
  if (exists && y >= 0 && z >= 0 && y + g.reach_h() <= patch.height && z + g.reach_w() <= patch.width) {
    const int32_t step = next + g.dilation_w, down = g.taps_w * next + g.dilation_h * patch.width;
    int32_t at[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) at[k] = min(k, last) * g.pitch;
    const float *row = products + y * patch.width + z;
    for (int32_t r = 0; r < g.taps_h; ++r, row += down) {
      if (g.taps_w == 3) {
        add_row<3>(row, step, at, sums);
      } else {
        for (int32_t s = 0; s < g.taps_w; ++s) add_row<1>(row + s * step, step, at, sums);
      }
    }
    return;
  }
  for (int32_t r = 0; r < g.taps_h; ++r, y += g.dilation_h)
    for (int32_t s = 0, at = z; s < g.taps_w; ++s, at += g.dilation_w, products += next, outside += g.filters) {
      const bool inside = exists && y >= 0 && y < patch.height && at >= 0 && at < patch.width;
      const float *const from = inside ? products + y * patch.width + at : outside;
      const int32_t apart = inside ? g.pitch : 1;
#pragma unroll
      for (int k = 0; k < kTogether; ++k) sums[k] += from[min(k, last) * apart];
    }
}

// Bias, relu, and out.
template <class T>
__device__ inline void leave(const Geometry &g, const Pointers &p, int64_t to, int32_t filter, float v) {
  if (p.bias != nullptr) v = cuda::add(v, __ldg(p.bias + filter));
  if (g.relu && v < 0) v = 0;
  if (g.wide)
    static_cast<float *>(p.y)[to] = v;
  else
    static_cast<T *>(p.y)[to] = static_cast<T>(v);
}

// What a tap of depth adds to output `i` of a plane of the patch. Where it is the last one the output leaves; else its
// sums wait.
template <class T>
__device__ inline void add_tap(const Geometry &g, const Pointers &p, const Patch &patch, int32_t tap, int32_t plane,
                               int32_t i, bool exists, float *shared) {
  const bool begins = tap == 0, ends = tap == g.depth.taps - 1;
  const int32_t row = patch.by_columns(i), h = patch.h + row, w = patch.w + i - row * patch.columns;
  const int32_t y = h * g.step_h - g.pad_h - patch.top, z = w * g.step_w - g.pad_w - patch.left;
  const int32_t first_product = tap * g.taps_h * g.taps_w * g.filters, apart = g.rows * g.columns;
  float *waiting =
      shared + g.products * (g.pitch + 1) + (plane - g.by_waiting(plane) * g.waiting) * g.filters * apart + i;
  int64_t to = patch.image * g.y_image + int64_t{patch.d + plane} * g.depth.y + h * g.y_row + w * g.y_column;
  for (int32_t first = 0; first < g.filters; first += kTogether) {
    const int32_t last = g.filters - 1 - first, product = first_product + first;
    float sums[kTogether] = {};
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
      if (!begins && k <= last) sums[k] = waiting[k * apart];
    add_plane(g, patch, shared + product * g.pitch, shared + g.products * g.pitch + product, exists, y, z, last, sums);
#pragma unroll
    for (int k = 0; k < kTogether; ++k, waiting += apart, to += g.y_filter) {
      if (k > last) break;
      if (ends)
        leave<T>(g, p, to, first + k, sums[k]);
      else
        *waiting = sums[k];
    }
  }
}

// What a slice adds to the outputs whose windows hold it, a thread an output for a tap of depth. `shared`: products,
// what they are outside, waiting sums.
template <class T>
__device__ inline void add_slice(const Geometry &g, const Pointers &p, const Patch &patch, int32_t slice, bool exists,
                                 float *shared) {
  const int32_t outputs = patch.rows * patch.columns;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < g.depth.taps * outputs; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t tap = patch.by_outputs(i), plane = patch.plane(g, slice, tap);
    if (plane >= 0) add_tap<T>(g, p, patch, tap, plane, i - tap * outputs, exists, shared);
  }
}

// ---------------------------------------------------------------- the kernel

template <class T, int tiles, bool aligned>
__global__ void __launch_bounds__(kMostThreads, 1)
    multiply_taps(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  ptx::await_previous();
  extern __shared__ __align__(16) char shared[];
  constexpr int groups = groups_of(tiles);
  const int32_t operands = g.vectors * 2 * tiles * 32;
  auto *const weights = reinterpret_cast<uint4 *>(shared + kPatchBytes);
  auto *const products = reinterpret_cast<float *>(weights + operands);
  // In memory, for the products take all registers.
  if (threadIdx.x == 0) new (shared) Patch(g, static_cast<int32_t>(blockIdx.x));
  __syncthreads();
  const Patch &patch = *reinterpret_cast<const Patch *>(shared);
  Pixels<T, groups, aligned> pixels(g, p, patch, patch.next(g, patch.front, true),
                                    static_cast<int32_t>(threadIdx.x) / 32 * groups * kPositions);
  Ahead<groups, aligned> ring;
  load_ahead<T>(ring, pixels);
#pragma unroll 4
  for (auto i = static_cast<int32_t>(threadIdx.x); i < operands; i += static_cast<int32_t>(blockDim.x))
    weights[i] = __ldg(p.weights + i);
  if (const auto i = static_cast<int32_t>(threadIdx.x); i < g.products)
    products[g.products * g.pitch + i] = __ldg(p.outside + i);
  for (int32_t slice = patch.next(g, patch.front, false); slice < patch.end; slice = patch.next(g, slice + 1, false)) {
    __syncthreads(); // all have the weights, and have added what the slice before left
    const bool exists = slice >= 0 && slice < g.depth.input;
    if (exists) multiply_slice<T, tiles>(g, p, patch, slice, pixels, ring, weights, products);
    __syncthreads();
    add_slice<T>(g, p, patch, slice, exists, products);
  }
}

template <class T, int32_t type, int tiles, bool aligned>
constexpr Variant variant() {
  return {tiles, type, aligned, multiply_taps<T, tiles, aligned>};
}

} // namespace polyconv::cuda::few_out
