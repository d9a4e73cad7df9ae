// parts.cuh - what both ways of cuda-tensor/banded are made of: the product, pairs of results, and the repair of
// what an infinity spoilt.
//
// The zeros beside a band meet elements that the output must not depend on, and 0 * Inf is NaN. Any such accident
// leaves a NaN in the sum: so each lane remembers whether a result was not finite, and then computes those that are NaN
// again, tap by tap.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "banded/banded.hpp"
#include "common/ptx/mma.cuh"
#include "common/ptx/numbers.cuh"
#include "common/values.cuh"
#include "few/exact.cuh"

namespace polyconv::cuda::banded {

using few::exact_result;

// Form as a type, since C++17 has no structures among template arguments.
template <int taps, int step, int rows, int planes, int words, int tiles, bool pixels>
struct FormType {
  static constexpr Form value = {taps, step, rows, planes, words, tiles, pixels};
};

// The banded weights of a group of filters, as operands.
template <class F>
struct Weights {
  static constexpr int kProducts = F::value.products(), kTiles = F::value.tiles;
  uint4 a[kProducts][kTiles];

  __device__ __forceinline__ void load(const Pointers &p, int32_t group) {
    const uint4 *const from = p.weights + group * (kProducts * kTiles * 32) + threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < kProducts * kTiles; ++i) a[i / kTiles][i % kTiles] = __ldg(from + i * 32);
  }

  // half(h) are the two elements of half window h that the lane holds. Several chains of products for each sum do not
  // wait for each other; the first begins with `start`.
  template <class T, int chains, class Half>
  __device__ __forceinline__ void multiply(float (&sums)[kTiles][4], const float (&start)[kTiles][4],
                                           const Half &half) const {
    float more[chains][kTiles][4] = {};
#pragma unroll
    for (int j = 0; j < kProducts; ++j) {
      const uint32_t b0 = half(2 * j), b1 = 2 * j + 1 < F::value.halves() ? half(2 * j + 1) : 0;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        float(&sum)[4] = j % chains == 0 ? sums[i] : more[j % chains][i];
        ptx::multiply_onto<T>(sum, j == 0 ? start[i] : sum, a[j][i], b0, b1);
      }
    }
#pragma unroll
    for (int i = 4 * kTiles; i < 4 * kTiles * chains; ++i)
      sums[i / 4 % kTiles][i % 4] += more[i / 4 / kTiles][i / 4 % kTiles][i % 4];
  }
};

// Column n of a matrix instruction among its positions.
__device__ __forceinline__ int32_t place_of(int32_t n, int32_t spread) {
  return spread ? n / 2 + n % 2 * 4 : n;
}

template <class T>
constexpr int32_t kTypeOf = std::is_same_v<T, __half>          ? POLYCONV_F16
                            : std::is_same_v<T, __nv_bfloat16> ? POLYCONV_BF16
                                                               : POLYCONV_F32;

// Whether a lane has seen a NaN or an infinity among its results: 0 * result + what was seen.
template <class T>
class Seen {
 public:
  __device__ __forceinline__ void look_at(uint32_t pair) { ptx::multiply_add_pair<T>(pair_, pair, 0); }
  __device__ __forceinline__ bool nonfinite() const { return (pair_ & 0x7fff7fffu) != 0; }

 private:
  uint32_t pair_ = 0;
};

// A result in memory, in the input's type or f32.
template <class T>
struct Spot {
  void *memory;
  bool wide; // f32
  int64_t at;

  __device__ __forceinline__ void put(float v) const {
    if (wide)
      static_cast<float *>(memory)[at] = v;
    else
      static_cast<T *>(memory)[at] = static_cast<T>(v);
  }
  __device__ __forceinline__ bool is_nan() const {
    const float v = wide ? static_cast<const float *>(memory)[at] : value(static_cast<const T *>(memory)[at]);
    return v != v;
  }
};

} // namespace polyconv::cuda::banded
