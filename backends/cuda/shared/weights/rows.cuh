// rows.cuh - the kernel of rows.hpp. Included by one file a type.
//
// Floor: max(2 N K P Q n^2 C / FMA rate, one read of every element / copy rate). A strip of 4 outputs and 4 filters
// takes 4 loads of 16 bytes for the gradient and 3 a row of the input for 112 products a row of 7 taps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/implicit.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/grid.cuh"
#include "weights/row_products.cuh"
#include "weights/rows.hpp"

namespace polyconv::cuda::shared {

// Where a block works: its planes, and a chunk of rows.
struct RowsPlace {
  int32_t group, channel, filter; // the first ones, in the group
  int32_t image, row;             // of the chunk

  __device__ RowsPlace(const RowsWeights &r, int32_t set, int32_t chunk) {
    channel = set % r.channel_sets * r.channels;
    filter = set / r.channel_sets % r.filter_sets * r.filters;
    group = set / r.channel_sets / r.filter_sets;
    row = chunk % r.row_chunks * r.rows, image = chunk / r.row_chunks * r.images;
  }
};

template <class T>
__device__ inline void copy_one(float *to, const T *from) {
  if constexpr (sizeof(T) == 4)
    copy_async<4>(to, from, true);
  else
    *to = value(*from);
}

// Body(plane, channel or filter, image) for the planes of a block that exist.
template <class Body>
__device__ inline void for_planes(int32_t channels, int32_t first, int32_t end, const RowsWeights &r, int32_t image,
                                  int32_t images, const Body &body) {
  for (int32_t c = 0; c < min(channels, end - first); ++c)
    for (int32_t n = 0; n < min(r.images, images - image); ++n) body(c * r.images + n, first + c, image + n);
}

// Planes of the input, a warp a row. What lies to the left and right of the image has been written before; a padding
// that folds back is found element by element.
template <class T>
__device__ inline void load_input(const Conv<int32_t> &p, const RowsWeights &r, const RowsPlace &at, const T *x,
                                  float *to) {
  const int32_t warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t channels = p.weights.size[1], first = at.row * p.stride[1] - p.pad[1], height = p.input.size[3];
  const bool folds = p.pad_mode > POLYCONV_PAD_CONSTANT;
  const int32_t left = folds ? 0 : p.pad[2], width = folds ? r.input_pitch : min(p.input.size[4], r.input_pitch - left);
  const float padding = p.template padding<float>();
  for_planes(r.channels, at.channel, channels, r, at.image, p.input.size[0], [&](int32_t plane, int32_t c, int32_t n) {
    const T *const from = x + p.input.at(n, at.group * channels + c, 0, 0, 0);
    for (int32_t y = warp; y < r.input_rows; y += kRowsWarps) {
      float *const line = to + (plane * r.input_rows + y) * r.input_pitch + left;
      int32_t h = first + y;
      if (folds) h = folded(h, height, p.pad_mode);
      const T *const row = from + h * p.input.stride[3];
      if (h < 0 || h >= height) {
        for (int32_t i = lane; i < width; i += 32) line[i] = padding;
      } else if (folds) {
        for (int32_t i = lane; i < width; i += 32)
          copy_one(line + i, row + folded(i - p.pad[2], p.input.size[4], p.pad_mode));
      } else {
        for (int32_t i = lane; i < width; i += 32) copy_one(line + i, row + i);
      }
    }
  });
}

// Planes of the gradient.
template <class T>
__device__ inline void load_gradient(const Conv<int32_t> &p, const RowsWeights &r, const RowsPlace &at, const T *dy,
                                     float *to) {
  const int32_t warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t filters = p.output.size[1] / p.groups, width = p.output.size[4];
  const int32_t rows = min(r.rows, p.output.size[3] - at.row);
  for_planes(r.filters, at.filter, filters, r, at.image, p.output.size[0], [&](int32_t plane, int32_t k, int32_t n) {
    const T *const from = dy + p.output.at(n, at.group * filters + k, 0, at.row, 0);
    for (int32_t y = warp; y < rows; y += kRowsWarps) {
      float *const line = to + (plane * r.rows + y) * r.output_pitch;
      const T *const row = from + y * p.output.stride[3];
      if (sizeof(T) == 4 && r.vectors) {
        for (int32_t i = lane * 4; i < width; i += 128) copy_async<16>(line + i, row + i, true);
      } else {
        for (int32_t i = lane; i < width; i += 32) copy_one(line + i, row + i);
      }
    }
  });
}

// What a thread sums: kFilters filters, Rows rows of the window from `first_row` on, all its columns.
template <int Taps, int Step, int Rows>
struct RowSums : RowProducts<Taps, Step, Rows, kFilters> {
  using Products = RowProducts<Taps, Step, Rows, kFilters>;

  // The strips of a chunk that are this thread's: every `threads`-th from `mine` on.
  __device__ void add(const Conv<int32_t> &p, const RowsWeights &r, const RowsPlace &at, const float *x,
                      const float *dy, int32_t first_row, int32_t mine, int32_t threads) {
    const int32_t strips = r.output_pitch / kStrip, images = min(r.images, p.output.size[0] - at.image);
    const int32_t rows = min(r.rows, p.output.size[3] - at.row);
    const int32_t rows_on = threads / strips, strips_on = threads - rows_on * strips;
    int32_t row = mine / strips, strip = mine - row * strips, image = 0;
#pragma unroll 1
    for (;; row += rows_on, strip += strips_on) {
      if (strip >= strips) strip -= strips, ++row;
      for (; row >= rows; row -= rows) ++image;
      if (image >= images) break;
      const int32_t q = strip * kStrip;
      float4 y[kFilters];
#pragma unroll
      for (int k = 0; k < kFilters; ++k)
        y[k] =
            *reinterpret_cast<const float4 *>(dy + k * r.output_plane() + (image * r.rows + row) * r.output_pitch + q);
      const float *from = x + (image * r.input_rows + row * Step + first_row) * r.input_pitch + q * Step;
      const int32_t there = p.output.size[4] - q; // outputs of the strip
#pragma unroll
      for (int s = 0; s < Rows; ++s, from += r.input_pitch)
        if (Rows == Taps || first_row + s < Taps) this->multiply(s, from, y, there);
    }
  }
  // Adds up over the warp; the totals are lane 0's.
  __device__ void fold() {
#pragma unroll
    for (int i = 0; i < Products::kCount; ++i)
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) value(i) += __shfl_down_sync(~0u, value(i), distance);
  }
  __device__ float &value(int i) {
    return (&this->sums[0][0][0])[i];
  }
};

// Warps are told apart by filters, then channels, then rows of the window; those that are left over share strips.
template <class T, int Taps, int Step>
__global__ void __launch_bounds__(kRowsThreads, (Taps > 3 ? 2 : 4))
    sum_rows(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ RowsWeights r, const T *x, const T *dy) {
  ptx::await_previous();
  constexpr int kRows = rows_of_thread(Taps), kRowTiles = (Taps + kRows - 1) / kRows;
  using Sums = RowSums<Taps, Step, kRows>;
  extern __shared__ __align__(16) float planes[];
  __shared__ float folded[kRowsWarps][Sums::kCount];
  const int32_t set = static_cast<int32_t>(blockIdx.x) % r.sets, part = static_cast<int32_t>(blockIdx.x) / r.sets;
  const int32_t filter_tiles = (r.filters + kFilters - 1) / kFilters,
                combinations = filter_tiles * r.channels * kRowTiles;
  const int32_t warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t mine = warp % combinations, sharing = kRowsWarps / combinations;
  const int32_t filter = mine % filter_tiles * kFilters, channel = mine / filter_tiles % r.channels;
  const int32_t first_row = mine / filter_tiles / r.channels * kRows;
  float *const gradient = planes + r.channels * r.input_plane();

  const float padding = p.template padding<float>();
  for (int32_t i = threadIdx.x; i < r.channels * r.input_plane(); i += kRowsThreads) planes[i] = padding;
  __syncthreads();
  Sums sums;
  const auto begin = static_cast<int32_t>(int64_t{r.chunks} * part / r.parts);
  const auto end = static_cast<int32_t>(int64_t{r.chunks} * (part + 1) / r.parts);
#pragma unroll 1
  for (int32_t chunk = begin; chunk < end; ++chunk) {
    const RowsPlace at(r, set, chunk);
    load_input(p, r, at, x, planes);
    load_gradient(p, r, at, dy, gradient);
    await_copies();
    __syncthreads();
    sums.add(p, r, at, planes + channel * r.input_plane(), gradient + filter * r.output_plane(), first_row,
             warp / combinations * 32 + lane, sharing * 32);
    __syncthreads();
  }
  sums.fold();
  if (lane == 0)
#pragma unroll
    for (int i = 0; i < Sums::kCount; ++i) folded[warp][i] = sums.value(i);
  __syncthreads();
  if (warp >= combinations) return;
  const RowsPlace at(r, set, 0);
  for (int i = lane; i < Sums::kCount; i += 32) {
    const int32_t k = at.filter + filter + i / (kRows * Taps), row = first_row + i / Taps % kRows, column = i % Taps;
    if (k >= p.output.size[1] / p.groups || at.channel + channel >= p.weights.size[1] || row >= Taps) continue;
    float sum = folded[warp][i];
    for (int other = 1; other < sharing; ++other) sum += folded[warp + other * combinations][i];
    const int64_t filters = p.output.size[1] / p.groups;
    const int64_t weight =
        (((at.group * filters + k) * p.weights.size[1] + at.channel + channel) * Taps + row) * Taps + column;
    r.partials[weight * r.parts + part] = sum;
  }
}

// ---------------------------------------------------------------- launch

template <class T, int Taps, int Step>
RowsInstance rows_instance() {
  const auto prepare = [] { allow_shared(sum_rows<T, Taps, Step>, 96 << 10); };
  const auto launch = [](const Conv<int32_t> &p, const RowsWeights &r, const void *x, const void *dy,
                         cudaStream_t stream) {
    launch_waiting(sum_rows<T, Taps, Step>, static_cast<unsigned>(r.sets) * static_cast<unsigned>(r.parts),
                   kRowsThreads, static_cast<size_t>(r.shared_bytes()), stream, p, r, static_cast<const T *>(x),
                   static_cast<const T *>(dy));
  };
  return {prepare, launch};
}

template <class T, int Taps>
RowsInstance by_stride(int stride) {
  return stride == 1 ? rows_instance<T, Taps, 1>() : rows_instance<T, Taps, 2>();
}

template <class T>
RowsInstance find_rows(int taps, int stride) {
  if (taps == 3) return by_stride<T, 3>(stride);
  if (taps == 5) return by_stride<T, 5>(stride);
  return by_stride<T, 7>(stride);
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(T) template shared::RowsInstance shared::find_rows<T>(int, int);
