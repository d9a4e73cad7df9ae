// planes.cuh - the kernel of cuda-shared/depthwise_planes as a template. A thread goes from tap to tap: one weight
// meets what some results of a column read, which comes from the caches; lanes are neighbours along a row, and so is
// what they read. Taps that lie beside the image are left out, and so are those that a strided gradient does not meet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/grid.cuh"
#include "depthwise/channels.cuh"
#include "taps/planes.hpp"

namespace polyconv::cuda::shared {

// Which rows of a thread meet a row of taps.
template <int Rows>
struct RowsMet {
  uint32_t bits = 0;

  __device__ RowsMet(const TapAxis &axis, int32_t at, int32_t apart) {
#pragma unroll
    for (int i = 0; i < Rows; ++i) bits |= is_there(axis, at + i * apart) ? 1u << i : 0;
  }
  __device__ bool all() const {
    return bits == (1u << Rows) - 1;
  }
  __device__ bool operator[](int i) const {
    return bits >> i & 1;
  }
};

// A row of taps: `row` is that of the elements which the first result meets, `weights` the row's first. Elements have
// numbers of 32 bits from one base, so that a load needs no other arithmetic; all rows of most threads are there.
template <bool All, class T, int Rows>
__device__ __forceinline__ void sum_row(const DepthwisePlanes &s, const T *x, uint32_t row, uint32_t apart,
                                        const RowsMet<Rows> &met, const T *weights, int32_t weights_step,
                                        const FirstTap &across, float (&sums)[Rows]) {
  const TapAxis &axis = s.axis[2];
  weights += across.tap * weights_step;
  row += static_cast<uint32_t>(across.at * axis.stride);
  const int32_t step = axis.at_step * axis.stride, next = axis.tap_step * weights_step;
#pragma unroll 3
  for (int32_t tap = across.tap, at = across.at; tap < axis.taps; tap += axis.tap_step, at += axis.at_step) {
    if (is_there(axis, at)) {
      const float w = value(__ldg(weights));
#pragma unroll
      for (int i = 0; i < Rows; ++i)
        if (All || met[i]) sums[i] = fmaf(value(__ldg(x + (row + i * apart))), w, sums[i]);
    }
    weights += next, row += static_cast<uint32_t>(step);
  }
}

template <class T, int Rows, bool Plain>
__device__ inline void store_column(const Conv<int32_t> &p, const DepthwisePlanes &s, const float (&sums)[Rows], T *y,
                                    const Place<int32_t> &at) {
  if constexpr (Plain) {
    const auto *const biases = static_cast<const float *>(p.epilogue.bias);
    const float bias = biases != nullptr ? biases[at.c] : -0.0f; // which changes nothing
    auto *const to = reinterpret_cast<Channels<T, 1> *>(y) + p.result.at(at);
#pragma unroll
    for (int i = 0; i < Rows; ++i)
      if (at.h + i * s.phases < p.result.size[3])
        to[i * s.phases * p.result.stride[3]] = as_bits(s.bounds(cuda::add(sums[i], bias)), T());
  } else { // one by one from the thread's own places in shared memory: it is much code, there once
    __shared__ float values[Rows][kPlaneThreads];
#pragma unroll
    for (int i = 0; i < Rows; ++i) values[i][threadIdx.x] = sums[i];
#pragma unroll 1
    for (int i = 0; i < Rows; ++i) {
      const Place<int32_t> place = {at.n, at.c, at.d, at.h + i * s.phases, at.w};
      if (place.h < p.result.size[3]) finish_and_store(p, y, values[i][threadIdx.x], place);
    }
  }
}

// Nine blocks of a multiprocessor leave 56 registers a thread; without a number the compiler kept to 40 and spilled.
template <class T, int Rows, bool Plain>
__global__ void __launch_bounds__(kPlaneThreads, 9)
    sum_planes(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ DepthwisePlanes s, const T *x,
               const T *weights, T *y) {
  ptx::await_previous();
  const int32_t i = static_cast<int32_t>(blockIdx.x) * kPlaneThreads + static_cast<int32_t>(threadIdx.x);
  if (i >= s.threads) return;
  const int32_t rows = s.columns(i), plane = s.sets(rows), channel = s.planes(plane), n = s.channels(channel);
  const int32_t in_plane = rows - plane * s.sets.by, set = s.residues(in_plane), residue = in_plane - set * s.phases;
  const Place<int32_t> at = {n, channel - n * s.channels.by, plane - channel * s.planes.by,
                             residue + set * Rows * s.phases, i - rows * s.columns.by};
  const FirstTap first(s.axis[0], at.d), down(s.axis[1], at.h), across(s.axis[2], at.w);
  const int32_t apart = s.axis[1].by == 1 ? s.axis[1].scale : 1; // from one result to the next
  const int32_t begin = s.offset + n * s.image + s.multiplier(at.c) * s.channel;
  weights += p.weights.at(at.c, 0, 0, 0, 0);
  float sums[Rows] = {};
#pragma unroll 1
  for (int32_t a = first.tap, d = first.at; a < s.axis[0].taps; a += s.axis[0].tap_step, d += s.axis[0].at_step) {
    if (!is_there(s.axis[0], d)) continue;
#pragma unroll 1
    for (int32_t b = down.tap, h = down.at; b < s.axis[1].taps; b += s.axis[1].tap_step, h += s.axis[1].at_step) {
      const RowsMet<Rows> met(s.axis[1], h, apart);
      if (met.bits == 0) continue;
      const auto row = static_cast<uint32_t>(begin + d * s.axis[0].stride + h * s.axis[1].stride);
      const auto rows_apart = static_cast<uint32_t>(apart * s.axis[1].stride);
      const T *const of_row = weights + a * p.weights.stride[2] + b * p.weights.stride[3];
      if (s.whole != 0 && met.all())
        sum_row<true>(s, x, row, rows_apart, met, of_row, p.weights.stride[4], across, sums);
      else
        sum_row<false>(s, x, row, rows_apart, met, of_row, p.weights.stride[4], across, sums);
    }
  }
  store_column<T, Rows, Plain>(p, s, sums, y, at);
}

template <class T, int Rows, bool Plain>
void launch_planes_of(const Conv<int32_t> &p, const DepthwisePlanes &s, const void *x, const void *weights, void *y,
                      cudaStream_t stream) {
  launch_waiting(sum_planes<T, Rows, Plain>, static_cast<unsigned>(ceil_div(s.threads, kPlaneThreads)), kPlaneThreads,
                 0, stream, p, s, static_cast<const T *>(x), static_cast<const T *>(weights), static_cast<T *>(y));
}

template <class T, int Rows>
PlanesLaunch planes_by_ending(bool plain) {
  return plain ? launch_planes_of<T, Rows, true> : launch_planes_of<T, Rows, false>;
}

template <class T>
PlanesLaunch find_planes(int rows, bool plain) {
  return rows == 4   ? planes_by_ending<T, 4>(plain)
         : rows == 2 ? planes_by_ending<T, 2>(plain)
                     : planes_by_ending<T, 1>(plain);
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(T) template shared::PlanesLaunch shared::find_planes<T>(int, bool);
