// cells.cuh - the kernel of cuda-shared/strided_last_data as a template; cells_<type>.cu instantiate it.
//
// Input row 2 i + e - pad is reached through tap e + 2 t from output row i - t, and likewise columns: so the four
// pixels of cell (i, j) take all taps between them, each once, from the same few outputs. A thread keeps those outputs
// in registers as it goes down, the next row on its way from memory meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/grid.cuh"
#include "depthwise/filters.cuh"
#include "windows/cells.hpp"

namespace polyconv::cuda::shared {

// Outputs that reach a row of cells of a thread.
template <class T, int N, int V>
class CellOutputs {
 public:
  static constexpr int kReach = (N + 1) / 2, kWidth = kCellColumns + kReach - 1;

  // `column`: of the first cell.
  __device__ CellOutputs(const Conv<int32_t> &p, const T *y, int32_t n, int32_t channel, int32_t column)
      : p_(p),
        y_(y + p.output.offset + n * p.output.stride[0] + channel * p.output.stride[1]),
        first_(column - (kReach - 1)) {
#pragma unroll
    for (int o = 0; o < kWidth; ++o)
      columns_ |= static_cast<uint32_t>(first_ + o) < static_cast<uint32_t>(p.output.size[4]) ? 1u << o : 0;
  }

  // Starts loading a row.
  __device__ void load(int32_t row) {
    next_there_ = static_cast<uint32_t>(row) < static_cast<uint32_t>(p_.output.size[3]) ? 1 : 0;
#pragma unroll
    for (int o = 0; o < kWidth; ++o) {
      next_[o] = {};
      if (next_there_ && columns_ >> o & 1)
        next_[o] = __ldg(reinterpret_cast<const Channels<T, V> *>(y_ + row * p_.output.stride[3] +
                                                                  (first_ + o) * p_.output.stride[4]));
    }
  }
  // Takes it as the newest.
  __device__ void take() {
#pragma unroll
    for (int t = kReach - 1; t > 0; --t)
#pragma unroll
      for (int o = 0; o < kWidth; ++o)
#pragma unroll
        for (int c = 0; c < V; ++c) v_[t][o][c] = v_[t - 1][o][c];
#pragma unroll
    for (int o = 0; o < kWidth; ++o) unpack<T>(next_[o], v_[0][o]);
    rows_ = rows_ << 1 | next_there_;
  }
  __device__ bool all() const {
    return (rows_ & ((1u << kReach) - 1)) == (1u << kReach) - 1 && columns_ == (1u << kWidth) - 1;
  }

  // Pixel (e, f) of cell `j`. Not `All`: no product with an output that is not there, for weights may be infinite.
  template <bool All>
  __device__ void sum(const float (&w)[N * N][V], int e, int f, int j, float (&sums)[V]) const {
#pragma unroll
    for (int t = 0; t < kReach; ++t)
#pragma unroll
      for (int u = 0; u < kReach; ++u) {
        const int r = e + 2 * t, s = f + 2 * u, o = j - u + kReach - 1;
        if (r >= N || s >= N) continue;
        if (!All && !(rows_ >> t & columns_ >> o & 1)) continue;
#pragma unroll
        for (int c = 0; c < V; ++c) sums[c] = fmaf(v_[t][o][c], w[r * N + s][c], sums[c]);
      }
  }

 private:
  const Conv<int32_t> &p_;
  const T *y_;
  const int32_t first_;
  uint32_t columns_ = 0, rows_ = 0; // a bit for each that exists; of rows the newest is bit 0
  uint32_t next_there_ = 0;
  Channels<T, V> next_[kWidth];
  float v_[kReach][kWidth][V] = {};
};

// Chunk of channels, strip, stretch and image of a thread.
struct CellPlace {
  int32_t chunk, strip, stretch, n;

  __device__ CellPlace(const Cells &s, int32_t thread) {
    const int32_t strips = s.lanes(thread), stretches = s.strips(strips), sets = s.stretches(stretches);
    n = s.sets(sets);
    strip = strips - stretches * s.strips.by, stretch = stretches - sets * s.stretches.by;
    chunk = (sets - n * s.sets.by) * s.lanes.by + thread - strips * s.lanes.by;
  }
};

template <class T, int N, int V>
__global__ void __launch_bounds__(kCellThreads, N == 7 ? 2 : 4)
    sum_cells(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Cells s, const T *y, const T *weights,
              T *x) {
  ptx::await_previous();
  const int32_t thread = static_cast<int32_t>(blockIdx.x) * kCellThreads + static_cast<int32_t>(threadIdx.x);
  const bool raw = s.filters.raw != 0;
  if (thread >= s.threads && !raw) return;
  const CellPlace at(s, min(thread, s.threads - 1));
  const int32_t channel = at.chunk * V, n = at.n;
  const int32_t column = s.first[1] + at.strip * kCellColumns;
  const int32_t begin = s.first[0] + at.stretch * s.rows, end = min(begin + s.rows, s.end);
  using Outputs = CellOutputs<T, N, V>;
  Outputs outputs(p, y, n, channel, column);
  outputs.load(begin - (Outputs::kReach - 1));
  float w[N * N][V];
  if (raw) {
    extern __shared__ __align__(16) unsigned char room[];
    T *const filters = reinterpret_cast<T *>(room);
    const int32_t block = static_cast<int32_t>(blockIdx.x) * kCellThreads, lane = block - s.lanes(block) * s.lanes.by;
    const int32_t first = first_staged<T, V>(CellPlace(s, block).chunk, lane, s.lanes.by);
    stage_filters<T, V>(s.filters, first, weights, filters);
    await_copies();
    __syncthreads();
    if (thread >= s.threads) return; // it has helped
    const int32_t place = place_among_staged(s.filters, at.chunk, first);
    load_staged<T, N * N, V>(s.filters, filters + place * (N * N * V), w);
  } else {
#pragma unroll
    for (int tap = 0; tap < N * N; ++tap)
      unpack<T>(__ldg(reinterpret_cast<const Channels<T, V> *>(weights + tap * p.weights.size[0] + channel)), w[tap]);
  }
#pragma unroll 1
  for (int32_t row = begin - (Outputs::kReach - 1); row < end; ++row) {
    outputs.take();
    if (row + 1 < end) outputs.load(row + 1);
    if (row < begin) continue;
    const bool all = outputs.all();
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int32_t h = 2 * row + e - p.pad[1];
      if (h < 0 || h >= p.result.size[3]) continue;
#pragma unroll
      for (int j = 0; j < kCellColumns; ++j)
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          const int32_t at = 2 * (column + j) + f - p.pad[2];
          if (at < 0 || at >= p.result.size[4]) continue;
          float sums[V] = {};
          if (all)
            outputs.template sum<true>(w, e, f, j, sums);
          else
            outputs.template sum<false>(w, e, f, j, sums);
          if constexpr (V == 1)
            finish_and_store(p, x, sums[0], Place<int32_t>{n, channel, 0, h, at});
          else
            *reinterpret_cast<Channels<T, V> *>(x + p.result.at(n, channel, 0, h, at)) = pack<T>(sums);
        }
    }
  }
}

template <class T, int N, int V>
void launch_cells(const Conv<int32_t> &p, const Cells &s, const void *y, const void *weights, void *x,
                  cudaStream_t stream) {
  launch_waiting(sum_cells<T, N, V>, static_cast<unsigned>(ceil_div(s.threads, kCellThreads)), kCellThreads,
                 static_cast<size_t>(s.filters.room), stream, p, s, static_cast<const T *>(y),
                 static_cast<const T *>(weights), static_cast<T *>(x));
}

template <class T, int N>
CellsLaunch cells_by_channels(int channels) {
  if (channels == 1) return launch_cells<T, N, 1>;
  if (channels == 2) return launch_cells<T, N, 2>;
  if constexpr (N < 4)
    if (channels == 4) return launch_cells<T, N, 4>;
  return nullptr;
}

template <class T>
CellsLaunch find_cells(int n, int channels) {
  switch (n) {
    case 2: return cells_by_channels<T, 2>(channels);
    case 3: return cells_by_channels<T, 3>(channels);
    case 4: return cells_by_channels<T, 4>(channels);
    case 5: return cells_by_channels<T, 5>(channels);
    case 7: return cells_by_channels<T, 7>(channels);
    default: return nullptr;
  }
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(T) template shared::CellsLaunch shared::find_cells<T>(int, int);
