// windows.cuh - the kernel of cuda-shared/windows_data as a template; windows_<n>.cu instantiate it for a filter size
// each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "band.cuh"
#include "common/device/check.hpp"
#include "common/epilogue.cuh"
#include "windows/windows.hpp"

namespace polyconv::cuda::shared {

// Where a block works, and which part of what it stages of a plane there is. The rest stays zero.
struct WindowsPlace {
  int32_t image, group, channel;                // of the group
  int32_t top, left;                            // places
  int32_t from_row, from_column, rows, columns; // of the gradient
  int32_t to_row, to_column;                    // in shared memory

  __device__ WindowsPlace(const Conv<int32_t> &p, const Windows &s, int32_t reach, int32_t shift, int32_t high,
                          int32_t wide) {
    auto block = static_cast<int32_t>(blockIdx.x); // neighbouring blocks read the same gradients
    channel = block % s.sets * s.channels, block /= s.sets;
    left = s.first_column + block % s.tiles_w * wide, block /= s.tiles_w;
    top = s.first_row + block % s.tiles_h * high, block /= s.tiles_h;
    group = block % p.groups, image = block / p.groups * s.images;
    const int32_t row = top - reach + 1, column = left - reach + 1 - shift;
    from_row = max(row, 0), from_column = max(column, 0);
    rows = min(row + s.rows, p.output.size[3]) - from_row,
    columns = min(column + s.pitch, p.output.size[4]) - from_column;
    to_row = from_row - row, to_column = from_column - column;
  }
};

// Stages filters [first, first + count): their gradients, ...
__device__ inline void stage_gradients(const Conv<int32_t> &p, const Windows &s, const WindowsPlace &at,
                                       const float *dy, float *to, int32_t first, int32_t count) {
  const int32_t images = min(s.images, p.output.size[0] - at.image), channel = at.group * s.filters + first;
  const Band band = {at.image, channel, at.from_row, at.from_column, images, count, at.rows, at.columns};
  const BandSteps steps = {s.pitch, s.plane, s.images * s.plane};
  to += at.to_row * s.pitch + at.to_column;
  if (s.copies == 4) return copy_band<4>(p.output, dy, band, to, steps, 0);
  if (s.copies == 2) return copy_band<2>(p.output, dy, band, to, steps, 0);
  copy_band<1>(p.output, dy, band, to, steps, 0);
}

// ... and their weights, [filter][channel][tap].
template <int Taps>
__device__ inline void stage_filters(const Conv<int32_t> &p, const Windows &s, const WindowsPlace &at, const float *w,
                                     float *to, int32_t first, int32_t count) {
  constexpr int32_t kArea = Taps * Taps;
  const int32_t present = p.weights.size[1] - at.channel;
  const float *const from = w + p.weights.at(at.group * s.filters + first, at.channel, 0, 0, 0);
  for (int32_t i = threadIdx.x; i < count * s.channels * kArea; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t pair = i / kArea, tap = i - pair * kArea, k = s.by_channels(pair), c = pair - k * s.channels;
    const int32_t offset = k * p.weights.stride[0] + (c < present ? c : 0) * p.weights.stride[1] +
                           tap / Taps * p.weights.stride[3] + tap % Taps * p.weights.stride[4];
    copy_async<4>(to + pair * padded_taps(Taps) + tap, from + offset, c < present);
  }
}

template <int Width>
struct alignas(4 * Width) Floats {
  float element[Width];
};

// From an aligned place.
template <int Width, int Count>
__device__ inline void read(const float *from, float (&to)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += Width) {
    const auto floats = *reinterpret_cast<const Floats<Width> *>(from + i);
#pragma unroll
    for (int e = 0; e < Width; ++e) to[i + e] = floats.element[e];
  }
}

// The input's gradients at a thread's places.
template <int Taps, int Step, int Down>
struct Collected {
  static constexpr int kAcross = places_across(Step), kReach = reach_of(Taps, Step), kColumns = Step * kAcross;
  static constexpr int kShift = window_shift(Taps, Step);
  static constexpr int kCount = Step * Down * kColumns;
  float sums[Step * Down][kColumns] = {};

  // What one filter adds: every row of the window is read once, for all rows of taps.
  __device__ void add(const float *window, int32_t pitch, const float *taps) {
    float w[padded_taps(Taps)];
    read<4>(taps, w);
#pragma unroll
    for (int y = 0; y < Down + kReach - 1; ++y) {
      float v[window_across(Taps, Step)];
      read<kAcross>(window + y * pitch, v);
#pragma unroll
      for (int i = 0; i < Step * Down; ++i) {
        const int r = i % Step + Step * (i / Step + kReach - 1 - y);
        if (r < 0 || r >= Taps || i / Step + kReach - 1 < y) continue;
#pragma unroll
        for (int u = 0; u < kReach; ++u)
#pragma unroll
          for (int j = 0; j < kColumns; ++j) {
            const int s = j % Step + Step * u;
            if (s < Taps) sums[i][j] = fmaf(v[j / Step - u + kReach - 1 + kShift], w[r * Taps + s], sums[i][j]);
          }
      }
    }
  }
  // Adds the other teams' sums to those of the first, in order.
  __device__ void gather(const Windows &s, float *buffer, int32_t team, int32_t member) {
    for (int32_t other = 1; other < s.teams; ++other) {
      __syncthreads();
      if (team == other)
#pragma unroll
        for (int i = 0; i < kCount; ++i) buffer[i * s.team + member] = sums[i / kColumns][i % kColumns];
      __syncthreads();
      if (team == 0)
#pragma unroll
        for (int i = 0; i < kCount; ++i) sums[i / kColumns][i % kColumns] += buffer[i * s.team + member];
    }
  }
  __device__ bool is_finite() const {
    float zero = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) zero = fmaf(sums[i / kColumns][i % kColumns], 0, zero);
    return zero == 0;
  }
};

// One gradient by itself, without products of weights that may be infinite and outputs that are not there.
static __device__ __noinline__ float collect_alone(const Conv<int32_t> *conv, const float *dy, const float *w,
                                                   Place<int32_t> at) {
  const Conv<int32_t> &p = *conv;
  const int32_t channels = p.weights.size[1], filters = p.output.size[1] / p.groups, group = at.c / channels;
  float sum = 0;
  for (int32_t k = group * filters; k < (group + 1) * filters; ++k)
    for (int32_t r = 0; r < p.weights.size[3]; ++r) {
      const int32_t h = at.h + p.pad[1] - r;
      if (h < 0 || h % p.stride[1] != 0 || h / p.stride[1] >= p.output.size[3]) continue;
      for (int32_t s = 0; s < p.weights.size[4]; ++s) {
        const int32_t v = at.w + p.pad[2] - s;
        if (v < 0 || v % p.stride[2] != 0 || v / p.stride[2] >= p.output.size[4]) continue;
        sum = fmaf(dy[p.output.at(at.n, k, 0, h / p.stride[1], v / p.stride[2])],
                   w[p.weights.at(k, at.c - group * channels, 0, r, s)], sum);
      }
    }
  return sum;
}

static __device__ __noinline__ void finish_one(const Conv<int32_t> *p, void *x, float sum, Place<int32_t> at) {
  finish_and_store(*p, x, sum, at);
}

template <int Width, int Count>
__device__ inline void write(float *to, const float (&from)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += Width) {
    Floats<Width> floats;
#pragma unroll
    for (int e = 0; e < Width; ++e) floats.element[e] = from[i + e];
    *reinterpret_cast<Floats<Width> *>(to + i) = floats;
  }
}

// A row of four from `at` on, of which some columns may lie outside.
template <int Columns>
__device__ inline void store_row(const Conv<int32_t> &p, const Windows &s, void *x, const float (&sums)[Columns],
                                 const Place<int32_t> &at) {
  auto *const to = static_cast<float *>(x) + p.result.at(at);
  const bool inside = at.w >= 0 && at.w + Columns <= p.result.size[4];
  if (s.vectors == 4 && inside) return write<4>(to, sums);
  if (s.vectors == 2 && inside) return write<2>(to, sums);
#pragma unroll
  for (int j = 0; j < Columns; ++j) {
    if (at.w + j < 0 || at.w + j >= p.result.size[4]) continue;
    if (s.vectors > 0)
      to[j * p.result.stride[4]] = sums[j];
    else
      finish_one(&p, x, sums[j], {at.n, at.c, 0, at.h, at.w + j});
  }
}

template <int Taps, int Step, int Down>
__global__ void __launch_bounds__(kWindowThreads, 2)
    collect(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Windows s, const float *dy, const float *w,
            void *x) {
  using Mine = Collected<Taps, Step, Down>;
  extern __shared__ __align__(16) float buffers[];
  const WindowsPlace at(p, s, Mine::kReach, Mine::kShift, s.down * Down, s.across * Mine::kAcross);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t team = thread / s.team, member = thread - team * s.team;
  int32_t rest = member / s.across;
  const int32_t column = member - rest * s.across, row = rest % s.down;
  rest /= s.down;
  const int32_t channel = rest / s.images, image = rest - channel * s.images;
  const bool active = channel < s.channels && at.channel + channel < p.weights.size[1];
  const int32_t planes = s.chunk * s.channels * padded_taps(Taps); // behind the weights
  const int32_t window = planes + image * s.plane + row * Down * s.pitch + column * Mine::kAcross;

  for (int32_t i = thread; i < s.buffers * s.buffer; i += static_cast<int32_t>(blockDim.x)) buffers[i] = 0;
  __syncthreads();
  Mine mine;
  const auto stage = [&](float *buffer, int32_t first) {
    const int32_t count = min(s.chunk, s.filters - first);
    stage_filters<Taps>(p, s, at, w, buffer, first, count);
    stage_gradients(p, s, at, dy, buffer + planes, first, count);
  };
  stage(buffers, 0);
#pragma unroll 1
  for (int32_t first = 0, part = 0; first < s.filters; first += s.chunk, part ^= 1) {
    await_copies();
    __syncthreads(); // this chunk is there, and nobody reads the last one any more
    if (first + s.chunk < s.filters) stage(buffers + (part ^ 1) * s.buffer, first + s.chunk);
    if (!active) continue;
    const float *const buffer = buffers + part * s.buffer;
    const int32_t count = min(s.chunk, s.filters - first);
#pragma unroll 1
    for (int32_t k = team; k < count; k += s.teams)
      mine.add(buffer + window + k * s.images * s.plane, s.pitch,
               buffer + (k * s.channels + channel) * padded_taps(Taps));
  }
  mine.gather(s, buffers, team, member);
  if (!active || team > 0 || at.image + image >= p.result.size[0]) return;

  Place<int32_t> to{at.image + image, at.group * p.weights.size[1] + at.channel + channel, 0, 0, 0};
  const int32_t top = (at.top + row * Down) * Step - p.pad[1];
  to.w = (at.left + column * Mine::kAcross) * Step - p.pad[2];
  const bool again = !mine.is_finite();
#pragma unroll
  for (int i = 0; i < Step * Down; ++i) {
    to.h = top + i;
    if (to.h < 0 || to.h >= p.result.size[3]) continue;
    if (again)
#pragma unroll
      for (int j = 0; j < Mine::kColumns; ++j)
        if (mine.sums[i][j] != mine.sums[i][j])
          mine.sums[i][j] = collect_alone(&p, dy, w, {to.n, to.c, 0, to.h, to.w + j});
    store_row(p, s, x, mine.sums[i], to);
  }
}

template <int Taps, int Step, int Down>
WindowsInstance windows_instance() {
  const auto prepare = [](int32_t bytes) { allow_shared(collect<Taps, Step, Down>, bytes); };
  const auto launch = [](const Conv<int32_t> &p, const Windows &s, const float *dy, const float *w, void *x,
                         cudaStream_t stream) {
    collect<Taps, Step, Down><<<static_cast<unsigned>(s.blocks), static_cast<unsigned>(s.threads()),
                                static_cast<size_t>(s.shared_bytes), stream>>>(p, s, dy, w, x);
    check_launch("cuda-shared/windows_data");
  };
  return {prepare, launch};
}

template <int n>
WindowsInstance find_windows(int64_t step, bool tall) {
  if (step == 1) return tall ? windows_instance<n, 1, 7>() : windows_instance<n, 1, 4>();
  return tall ? windows_instance<n, 2, 4>() : windows_instance<n, 2, 3>();
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(n) template shared::WindowsInstance shared::find_windows<n>(int64_t, bool);
