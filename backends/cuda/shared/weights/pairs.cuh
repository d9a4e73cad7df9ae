// pairs.cuh - the kernel of pairs.hpp; pairs_<n>.cu instantiate it for a filter size each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "band.cuh"
#include "common/device/launch.hpp"
#include "common/ptx/grid.cuh"
#include "weights/pairs.hpp"
#include "weights/row_products.cuh"

namespace polyconv::cuda::shared {

// A thread of a team: its channel, its first filter and its first row of the window. Its other filters are
// filter_lanes apart, so that neighbouring lanes read neighbouring planes.
struct Pair {
  int32_t channel, filter, row;
  bool exists;

  __device__ Pair(const PairsWeights &r, int32_t member, int32_t taps, int32_t rows) {
    const int32_t rest = member / r.filter_lanes;
    filter = member - rest * r.filter_lanes;
    channel = rest % r.channels, row = rest / r.channels * rows;
    exists = row < taps;
  }
};

// What the blocks of a set work on.
struct PairsSet {
  int32_t group, channel, filter; // the first ones, in the group

  __device__ PairsSet(const PairsWeights &r, int32_t set) {
    channel = set % r.channel_sets * r.channels;
    filter = set / r.channel_sets % r.filter_sets * r.filters;
    group = set / r.channel_sets / r.filter_sets;
  }
};

// Copies a chunk: planes of the input, and of the gradient. What lies to the left and right of the image has been
// written before.
__device__ inline void stage_bands(const Conv<int32_t> &p, const PairsWeights &r, const PairsSet &set, int32_t chunk,
                                   const float *x, const float *dy, float *to) {
  const int32_t row = chunk % r.row_chunks * r.rows, image = chunk / r.row_chunks * r.images;
  const int32_t images = min(r.images, p.input.size[0] - image), channels = p.weights.size[1];
  const int32_t filters = p.output.size[1] / p.groups, left = p.pad[2];
  copy_band<1>(p.input, x,
               {image, set.group * channels + set.channel, row * p.stride[1] - p.pad[1], 0, images,
                min(r.channels, channels - set.channel), r.input_rows, min(p.input.size[4], r.input_pitch - left)},
               to + left, {r.input_pitch, r.input_rows * r.input_pitch, r.input_plane}, p.padding<float>());
  copy_band<1>(p.output, dy,
               {image, set.group * filters + set.filter, row, 0, images, min(r.filters, filters - set.filter),
                min(r.rows, p.output.size[3] - row), p.output.size[4]},
               to + r.output_begin(), {r.output_pitch, r.rows * r.output_pitch, r.output_plane}, 0);
}

template <int Taps, int Step, int Filters>
__global__ void __launch_bounds__(kPairThreads, 2)
    sum_pairs(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ PairsWeights r, const float *x,
              const float *dy) {
  constexpr int kRows = rows_of_thread(Taps);
  using Products = RowProducts<Taps, Step, kRows, Filters>;
  ptx::await_previous();
  extern __shared__ __align__(16) float buffers[];
  const auto thread = static_cast<int32_t>(threadIdx.x), block = static_cast<int32_t>(blockIdx.x);
  const int32_t part = block / r.sets, team = thread / r.team, member = thread - team * r.team;
  const PairsSet set(r, block - part * r.sets);
  const Pair mine(r, member, Taps, kRows);
  const float padding = p.padding<float>();
  for (int32_t i = thread; i < 2 * r.buffer; i += static_cast<int32_t>(blockDim.x)) buffers[i] = padding;
  __syncthreads();

  Products products;
  const auto begin = static_cast<int32_t>(int64_t{r.chunks} * part / r.parts);
  const auto end = static_cast<int32_t>(int64_t{r.chunks} * (part + 1) / r.parts);
  stage_bands(p, r, set, begin, x, dy, buffers);
#pragma unroll 1
  for (int32_t chunk = begin; chunk < end; ++chunk) {
    await_copies();
    __syncthreads(); // this chunk is there, and nobody reads the last one any more
    const int32_t now = (chunk - begin) % 2;
    if (chunk + 1 < end) stage_bands(p, r, set, chunk + 1, x, dy, buffers + (1 - now) * r.buffer);
    if (!mine.exists) continue;
    const float *const inputs = buffers + now * r.buffer + mine.channel * r.input_plane + mine.row * r.input_pitch;
    const float *const gradients = buffers + now * r.buffer + r.output_begin() + mine.filter * r.output_plane;
    const int32_t rows = min(r.rows, p.output.size[3] - chunk % r.row_chunks * r.rows), width = p.output.size[4];
    const int32_t images = min(r.images, p.output.size[0] - chunk / r.row_chunks * r.images);
    for (int32_t line = team; line < images * rows; line += r.teams) {
      const int32_t image = line / rows, row = line - image * rows;
      const float *from = inputs + (image * r.input_rows + row * Step) * r.input_pitch;
      const float *gradient = gradients + (image * r.rows + row) * r.output_pitch;
#pragma unroll 1
      for (int32_t there = width; there > 0; there -= kStrip, from += kStrip * Step, gradient += kStrip) {
        float4 y[Filters];
#pragma unroll
        for (int k = 0; k < Filters; ++k)
          y[k] = *reinterpret_cast<const float4 *>(gradient + k * r.filter_lanes * r.output_plane);
#pragma unroll
        for (int s = 0; s < kRows; ++s)
          if (kRows == Taps || mine.row + s < Taps) products.multiply(s, from + s * r.input_pitch, y, there);
      }
    }
  }
  const int32_t place = (block - part * r.sets) * r.parts + part;
  float *const to =
      r.partials + (int64_t{place} * r.teams * r.team + thread / 32 * 32) * Products::kCount + thread % 32;
#pragma unroll
  for (int i = 0; i < Products::kCount; ++i) to[i * 32] = (&products.sums[0][0][0])[i];
}

inline constexpr int kAddSlices = 8;

// Adds the parts of one product of a warp's pairs: slices of threads take every eighth, then the slices are added in
// order.
template <int Taps, int Filters>
__global__ void __launch_bounds__(32 * kAddSlices)
    add_pairs(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ PairsWeights r, void *w) {
  ptx::await_previous();
  constexpr int kRows = rows_of_thread(Taps), kCount = Filters * kRows * Taps;
  __shared__ float totals[kAddSlices][32];
  const auto lane = static_cast<int32_t>(threadIdx.x) % 32, slice = static_cast<int32_t>(threadIdx.x) / 32;
  const auto line = static_cast<int32_t>(blockIdx.x), number = static_cast<int32_t>(blockIdx.y);
  const int32_t parts = r.parts * r.teams, step = r.team * kCount;
  const float *const from = r.partials + int64_t{number} * parts * step + line * 32 + lane;
  float sum = 0;
#pragma unroll 4
  for (int32_t part = slice; part < parts; part += kAddSlices) sum += from[int64_t{part} * step];
  totals[slice][lane] = sum;
  __syncthreads();
  if (slice > 0) return;
#pragma unroll
  for (int s = 1; s < kAddSlices; ++s) sum += totals[s][lane];
  const PairsSet set(r, number);
  const int32_t product = line % kCount;
  const Pair mine(r, line / kCount * 32 + lane, Taps, kRows);
  const int32_t row = mine.row + product / Taps % kRows,
                filter = mine.filter + product / (kRows * Taps) * r.filter_lanes;
  const int32_t filters = p.output.size[1] / p.groups, k = set.filter + filter, c = set.channel + mine.channel;
  if (row >= Taps || filter >= r.filters || k >= filters || c >= p.weights.size[1]) return;
  store(w, p.epilogue.result_type, p.result.at(set.group * filters + k, c, 0, row, product % Taps), sum);
}

// ---------------------------------------------------------------- launch

template <int Taps, int Step, int Filters>
PairsInstance pairs_instance() {
  const auto prepare = [](int32_t bytes) { allow_shared(sum_pairs<Taps, Step, Filters>, bytes); };
  const auto launch = [](const Conv<int32_t> &p, const PairsWeights &r, const float *x, const float *dy, void *w,
                         cudaStream_t stream) {
    const auto sets = static_cast<unsigned>(r.sets), parts = static_cast<unsigned>(r.parts);
    launch_waiting(sum_pairs<Taps, Step, Filters>, sets * parts, r.team * r.teams,
                   static_cast<size_t>(r.shared_bytes()), stream, p, r, x, dy);
    constexpr int kCount = RowProducts<Taps, Step, rows_of_thread(Taps), Filters>::kCount;
    const auto blocks = static_cast<unsigned>(r.team / 32 * kCount);
    launch_waiting(add_pairs<Taps, Filters>, dim3(blocks, sets), 32 * kAddSlices, 0, stream, p, r, w);
  };
  return {prepare, launch};
}

template <int n>
PairsInstance find_pairs(int64_t step, int filters) {
  if (step == 1) return filters == 3 ? pairs_instance<n, 1, 3>() : pairs_instance<n, 1, 4>();
  return filters == 3 ? pairs_instance<n, 2, 3>() : pairs_instance<n, 2, 4>();
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(n) template shared::PairsInstance shared::find_pairs<n>(int64_t, int);
