// mobile.cuh - what a warp does with 16 channels between the layers: the depthwise layer as matrix instructions
// whose weights are a diagonal, and the 1 x 1 layer after it, whose first operand the sums of the first become without
// leaving the registers.
//
// Eight channels of a tap on a diagonal waste seven of eight products, and still take fewer instructions than FMA: no
// value is converted, and a sum costs an instruction a lane for 5/128 of its warp's outputs. Zeros off the diagonal
// times Inf are NaN: tiles with anything that is not finite are summed again, one product at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/pairs.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/shared.cuh"
#include "mobile/mobile.hpp"

namespace polyconv::cuda::mobile {

using ptx::load_matrices;
using ptx::multiply_add;
using ptx::multiply_add_half;
using ptx::shared_address;

__device__ inline int lane_of() {
  return static_cast<int>(threadIdx.x) % 32;
}
// ---------------------------------------------------------------- pairs of 16-bit values

template <class T>
struct PairOf;
template <>
struct PairOf<__half> {
  using Type = __half2;
};
template <>
struct PairOf<__nv_bfloat16> {
  using Type = __nv_bfloat162;
};
template <class T>
__device__ inline typename PairOf<T>::Type as_pair(uint32_t bits) {
  return reinterpret_cast<const typename PairOf<T>::Type &>(bits);
}
template <class Pair>
__device__ inline uint32_t bits_of(Pair pair) {
  return reinterpret_cast<const uint32_t &>(pair);
}

template <class T>
__device__ inline float2 floats(uint32_t bits);
template <>
__device__ inline float2 floats<__half>(uint32_t bits) {
  return __half22float2(as_pair<__half>(bits));
}
template <>
__device__ inline float2 floats<__nv_bfloat16>(uint32_t bits) {
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}

// Bounds of an activation, both values alike. Rounding keeps order, so bounding rounded values is rounding bounded
// ones.
template <class T>
struct Bounds {
  uint32_t low, high;

  Bounds() = default;
  __device__ explicit Bounds(const Ending &e) : low(pair_of(e.low, e.low, T())), high(pair_of(e.high, e.high, T())) {}
  // NaN stays.
  __device__ uint32_t apply(uint32_t v) const {
    return bits_of(__hmin2_nan(__hmax2_nan(as_pair<T>(v), as_pair<T>(low)), as_pair<T>(high)));
  }
};

// Remembers whether any of the values it has seen was not finite.
template <class T>
struct Watch {
  uint32_t seen[2] = {}; // two chains, for they are long

  __device__ void see(uint32_t v, int chain) {
    seen[chain] = bits_of(__hfma2(as_pair<T>(v), as_pair<T>(0u), as_pair<T>(seen[chain])));
  }
  __device__ bool alarmed() const { return ((seen[0] | seen[1]) & 0x7fff7fffu) != 0; }
};

// ---------------------------------------------------------------- depthwise

// A warp's units: positions of their first windows in the patch, and where their outputs lie in the tile.
struct Units {
  int first[2];
  int place[2]; // image << 24 | row << 12 | column, or -1

  __device__ Units(const Mobile &m, int pair) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int u = 2 * pair + h, of_image = m.units[0] * m.units[1];
      const bool there = u < m.all_units();
      const int image = there ? u / of_image : 0, rest = there ? u % of_image : 0;
      const int y = rest / m.units[1] * m.rows, x = rest % m.units[1] * kUnitWidth;
      first[h] = (image * m.patch[0] + y * m.step) * m.patch[1] + x * m.step;
      place[h] = there ? image << 24 | y << 12 | x : -1;
    }
  }
};

// Diagonals of 8 x 8 weights, an operand register for each tap: the first two of every row of taps, and then the third
// of each row, of which two neighbours are an operand too.
struct Diagonals {
  uint32_t row[3][2], third[3];

  // `filter`: of the lane's channel, lane / 4 of eight.
  __device__ explicit Diagonals(uint32_t filter) {
    const int lane = lane_of();
    const bool on = lane / 8 == lane % 4, upper = lane / 4 % 2 != 0;
    const uint32_t first = on ? (upper ? 0x1044u : 0x4410u) : 0x4444u; // of a pair of taps, to where the lane has it
    const uint32_t second = on ? (upper ? 0x3244u : 0x4432u) : 0x4444u;
    const uint4 taps = ptx::load_shared(filter);
    const uint32_t pair[5] = {taps.x, taps.y, taps.z, taps.w, ptx::load_settled(filter + 16)};
#pragma unroll
    for (int i = 0; i < 9; ++i) {
      const uint32_t v = __byte_perm(pair[i / 2], 0, i % 2 ? second : first);
      (i % 3 == 2 ? third[i / 3] : row[i / 3][i % 3]) = v;
    }
  }
};

// Where a warp finds 16 channels.
struct Sixteen {
  uint32_t patch, filters, bias; // of the first channel
  uint32_t row_bytes;
};

// A row of outputs of 8 channels, both units: from the first two taps of three rows, and the third of rows (even, odd)
// as they are loaded together. Which rows those are depends on where the window begins.
template <class T>
__device__ inline void filter_row(float (&sum)[4], const uint32_t (&top)[4], const uint32_t (&middle)[4],
                                  const uint32_t (&bottom)[4], const uint32_t (&third)[4], const uint32_t (&other)[4],
                                  bool from_even, const Diagonals &b) {
  multiply_add(sum, top, b.row[0], T());
  multiply_add(sum, middle, b.row[1], T());
  multiply_add(sum, bottom, b.row[2], T());
  multiply_add(sum, third, from_even ? b.third : b.third + 1, T());
  multiply_add_half(sum, other[from_even ? 0 : 2], other[from_even ? 1 : 3], b.third[from_even ? 2 : 0], T());
}

// The depthwise outputs of 16 channels: for each row the first operand of the layer after it.
template <class T, int Rows, int Step>
__device__ inline void filter_sixteen(uint32_t (&a)[Rows][4], const Sixteen &s, const Units &units,
                                      const Bounds<T> &bounds, Watch<T> &watch) {
  const int lane = lane_of();
  constexpr uint32_t kPitch = chunk_of(Rows) * 2 + 16;
  constexpr int kRows = (Rows - 1) * Step + 3;
  // Of the lane's pixel; lanes 16 to 31 have that of the next tap, or third taps of the next row.
  const int position = (lane / 8 % 2 ? units.first[1] : units.first[0]) + lane % 8 * Step + lane / 16;
  const uint32_t to_third = lane < 16 ? 2 * kPitch : kPitch + s.row_bytes;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Diagonals b(s.filters + (i * 8 + lane / 4) * kFilterBytes);
    const uint32_t bias_at = s.bias + (i * 8 + lane % 4 * 2) * 4;
    const float2 bias =
        make_float2(__uint_as_float(ptx::load_settled(bias_at)), __uint_as_float(ptx::load_settled(bias_at + 4)));
    uint32_t at = s.patch + position * kPitch + i * 16;
    uint32_t x[3][4], third[2][4]; // of three rows, and of two pairs of rows
#pragma unroll
    for (int row = 0; row < kRows; ++row, at += s.row_bytes) {
      load_matrices(x[row % 3], at);
      if (row % 2 == 0 && row + 1 < kRows) load_matrices(third[row / 2 % 2], at + to_third);
      if (row % 2 == 0 && row + 1 == kRows)
        load_matrices(reinterpret_cast<uint32_t(&)[2]>(third[row / 2 % 2]), at + 2 * kPitch);
      if (row < 2 || (row - 2) % Step != 0) continue;
      const bool from_even = row % 2 == 0;
      const int pair = (from_even ? row - 2 : row) / 2 % 2; // of the rows whose third taps are multiplied together
      float sum[4] = {bias.x, bias.y, bias.x, bias.y};
      filter_row<T>(sum, x[(row - 2) % 3], x[(row - 1) % 3], x[row % 3], third[pair], third[1 - pair], from_even, b);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const uint32_t v = pair_of(sum[2 * h], sum[2 * h + 1], T());
        watch.see(v, h);
        a[(row - 2) / Step][2 * i + h] = bounds.apply(v);
      }
    }
  }
}

// ---------------------------------------------------------------- the 1 x 1 layer after it

template <int Rows, int Pairs>
using MobileSums = float[Rows][2 * Pairs][4];

template <class T, int Rows, int Pairs>
__device__ inline void project(MobileSums<Rows, Pairs> &sums, const uint32_t (&a)[Rows][4], uint32_t weights) {
  weights += lane_of() * 16;
#pragma unroll
  for (int j = 0; j < Pairs; ++j) {
    const uint4 v = ptx::load_shared(weights + j * kFragmentBytes);
    const uint32_t b[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int y = 0; y < Rows; ++y) {
      multiply_add(sums[y][2 * j], a[y], b, T());
      multiply_add(sums[y][2 * j + 1], a[y], b + 2, T());
    }
  }
}

// All of a chunk that is this warp's. `groups`: of 16 channels.
template <class T, int Rows, int Step, int Pairs>
__device__ inline void filter_and_project(MobileSums<Rows, Pairs> &sums, const Mobile &m, const Units &units, Sixteen s,
                                          uint32_t projection, int share, int groups, const Bounds<T> &bounds,
                                          Watch<T> &watch) {
#pragma unroll 1
  for (int g = share; g < groups; g += m.shares) {
    uint32_t a[Rows][4];
    Sixteen here = {s.patch + g * kGroup * 2, s.filters + g * kGroup * kFilterBytes, s.bias + g * kGroup * 4,
                    s.row_bytes};
    asm volatile("" : "+r"(here.row_bytes)); // else each row's address is kept in a register from group to group
    filter_sixteen<T, Rows, Step>(a, here, units, bounds, watch);
    project<T, Rows, Pairs>(sums, a, projection + g * Pairs * kFragmentBytes);
  }
}

// Adds the sums of the warps that share units, in order, through shared memory that nobody else uses. The first of them
// has all afterwards.
template <int Rows, int Pairs>
__device__ inline void add_shares(MobileSums<Rows, Pairs> &sums, const Mobile &m, int pair, int share,
                                  unsigned char *memory) {
  constexpr int kWords = Rows * 2 * Pairs;
  float4 *const mine = reinterpret_cast<float4 *>(memory) + (pair * (m.shares - 1) * kWords) * 32 + lane_of();
  if (share > 0) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const auto &v = sums[i / (2 * Pairs)][i % (2 * Pairs)];
      mine[((share - 1) * kWords + i) * 32] = make_float4(v[0], v[1], v[2], v[3]);
    }
  }
  __syncthreads();
  if (share > 0) return;
#pragma unroll 1
  for (int other = 0; other < m.shares - 1; ++other) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      auto &v = sums[i / (2 * Pairs)][i % (2 * Pairs)];
      const float4 more = mine[(other * kWords + i) * 32];
      v[0] += more.x, v[1] += more.y, v[2] += more.z, v[3] += more.w;
    }
  }
}

// ---------------------------------------------------------------- results

// Which outputs a tile has: the first.
struct Tile {
  int image, y, x, slice;
};

// Channel 0 of a pixel.
template <class T>
__device__ inline T *pixel_at(T *base, const Pixels &at, int image, int y, int x) {
  return base + image * at.image + y * int64_t{at.row} + x * int64_t{at.pixel};
}

template <class V>
struct Two {
  V first, second;
};
template <class V>
__device__ inline Two<V> make_pair_of(V first, V second) {
  return {first, second};
}

// The biases of the result where the sums begin, in the first of the warps that share them. `bias`: of the slice.
template <int Rows, int Pairs>
__device__ inline void begin_sums(MobileSums<Rows, Pairs> &sums, int share, uint32_t bias) {
#pragma unroll
  for (int j = 0; j < 2 * Pairs; ++j) {
    const uint32_t at = bias + (j * 8 + lane_of() % 4 * 2) * 4;
    const float low = share == 0 ? __uint_as_float(ptx::load_settled(at)) : 0.0f,
                high = share == 0 ? __uint_as_float(ptx::load_settled(at + 4)) : 0.0f;
#pragma unroll
    for (int y = 0; y < Rows; ++y) sums[y][j][0] = sums[y][j][2] = low, sums[y][j][1] = sums[y][j][3] = high;
  }
}

// Four neighbouring channels into memory, `left` of which are there.
template <class T>
__device__ inline void store_four(T *to, uint2 four, bool vectors, int left) {
  if (vectors) {
    *reinterpret_cast<uint2 *>(to) = four;
    return;
  }
  auto *const elements = reinterpret_cast<uint16_t *>(to);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < left) elements[i] = static_cast<uint16_t>((i < 2 ? four.x : four.y) >> i % 2 * 16);
}
template <class T>
__device__ inline uint2 load_four(const T *from, bool vectors, int left) {
  if (vectors) return *reinterpret_cast<const uint2 *>(from);
  uint32_t element[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < left) element[i] = reinterpret_cast<const uint16_t *>(from)[i];
  return make_uint2(element[0] | element[1] << 16, element[2] | element[3] << 16);
}

// Two channels of a pixel, and two that are 8 further on, into memory. Neighbouring lanes trade halves, so that each
// has four channels in a row. `to`, `residual`: of those; `left`: channels from there on.
template <class T>
__device__ inline void store_sixteen(const Mobile &m, float2 first, float2 second, T *to, const T *residual, int left,
                                     const Bounds<T> &bounds) {
  const bool odd = lane_of() % 2 != 0;
  const auto trade = [&](auto mine, auto other) { // what the lane keeps, and what its neighbour wants
    using V = decltype(mine);
    const V taken = __shfl_xor_sync(~0u, other, 1);
    return odd ? make_pair_of(taken, mine) : make_pair_of(mine, taken);
  };
  uint2 four;
  if (m.residual == nullptr) {
    const uint32_t low = bounds.apply(pair_of(first.x, first.y, T())),
                   high = bounds.apply(pair_of(second.x, second.y, T()));
    const auto both = trade(odd ? high : low, odd ? low : high);
    four = make_uint2(both.first, both.second);
  } else {
    const auto one = trade(odd ? second.x : first.x, odd ? first.x : second.x);
    const auto two = trade(odd ? second.y : first.y, odd ? first.y : second.y);
    const uint2 more = left > 0 ? load_four(residual, m.vectors_out != 0, left) : uint2{};
    const float2 low = floats<T>(more.x), high = floats<T>(more.y);
    four.x = bounds.apply(pair_of(one.first + m.residual_scale * low.x, two.first + m.residual_scale * low.y, T()));
    four.y = bounds.apply(pair_of(one.second + m.residual_scale * high.x, two.second + m.residual_scale * high.y, T()));
  }
  if (left > 0) store_four(to, four, m.vectors_out != 0, left);
}

// Sums of one row of a unit into memory. `to`, `residual`: of the lane's pixel and first channel; `left`: channels from
// there on.
template <class T, int Pairs>
__device__ inline void store_row(const Mobile &m, const float (&sums)[2 * Pairs][4], int h, T *to, const T *residual,
                                 int left, const Bounds<T> &bounds) {
#pragma unroll
  for (int j = 0; j < Pairs; ++j) {
    const float *const first = sums[2 * j] + 2 * h, *const second = sums[2 * j + 1] + 2 * h;
    store_sixteen<T>(m, make_float2(first[0], first[1]), make_float2(second[0], second[1]), to + j * 16,
                     residual + j * 16, left - j * 16, bounds);
  }
}

// A warp's sums into memory.
template <class T, int Rows, int Pairs>
__device__ inline void store_units(const Mobile &m, const MobileSums<Rows, Pairs> &sums, const Tile &tile,
                                   const Units &units) {
  const int lane = lane_of(), channel = tile.slice * Pairs * 16 + lane % 2 * 8 + lane % 4 / 2 * 4;
  const Bounds<T> bounds(m.projected);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int place = units.place[h], image = tile.image + (place >> 24), y = tile.y + (place >> 12 & 0xfff),
              x = tile.x + (place & 0xfff) + lane / 4;
    const bool there = place >= 0 && image < m.batch && x < m.out[1];
    T *to = pixel_at(static_cast<T *>(m.result), m.out_at, image, y, x) + channel;
    const T *residual = pixel_at(static_cast<const T *>(m.residual), m.residual_at, image, y, x) + channel;
#pragma unroll
    for (int row = 0; row < Rows; ++row, to += m.out_at.row, residual += m.residual_at.row)
      store_row<T, Pairs>(m, sums[row], h, to, residual, there && y + row < m.out[0] ? m.results - channel : 0, bounds);
  }
}

// ---------------------------------------------------------------- the kernels

// Of<T, Rows, Step, Pairs> has the kernel of a type and a shape; null where none is compiled.
template <template <class, int, int, int> class Of, class T, int Step>
MobileKernel by_shape(int rows, int pairs) {
  if constexpr (Step == 1) {
    if (rows == 4 && pairs == 1) return Of<T, 4, Step, 1>::kernel;
    if (rows == 4 && pairs == 2) return Of<T, 4, Step, 2>::kernel;
  } else {
    if (rows == 2 && pairs == 2) return Of<T, 2, Step, 2>::kernel;
  }
  if (rows == 2 && pairs == 4) return Of<T, 2, Step, 4>::kernel;
  if (rows == 2 && pairs == 6) return Of<T, 2, Step, 6>::kernel;
  if (rows == 1 && pairs == 10) return Of<T, 1, Step, 10>::kernel;
  return nullptr;
}

template <template <class, int, int, int> class Of, class T>
MobileKernel find_mobile(int rows, int step, int pairs) {
  return step == 1 ? by_shape<Of, T, 1>(rows, pairs) : by_shape<Of, T, 2>(rows, pairs);
}

} // namespace polyconv::cuda::mobile
