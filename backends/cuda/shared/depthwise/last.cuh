// last.cuh - the kernel of cuda-shared/depthwise_last as a template; last_<type>.cu instantiate it.
//
// A thread has some neighbouring channels of a strip of columns, and marches down a band of rows. Of every output that
// has begun it keeps the sum: a row of inputs is loaded once, converted once, and added to each of them. Sums move on
// by a row where their first product is added, which costs nothing. The rows to come are on their way meanwhile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/grid.cuh"
#include "common/ptx/numbers.cuh"
#include "depthwise/channels.cuh"
#include "depthwise/filters.cuh"
#include "depthwise/last.hpp"

namespace polyconv::cuda::shared {

// Rows of inputs under a strip, `step` of them at a time, with zeros where there is padding: copied ahead of time into
// a ring of the thread's own places in shared memory, so that nobody waits for anybody.
template <class T, int n, int step, int channels, int columns, int ahead>
class Rows {
  using Word = Channels<T, channels>;

 public:
  static constexpr int kWidth = (columns - 1) * step + n;
  static constexpr int kSlots = ahead + 1, kSlot = step * kWidth * kMarchThreads; // words of a slot
  using Some = Word[step][kWidth];

  // `at`: the first input of the first output, perhaps in the padding; `count`: rows that its outputs read.
  __device__ Rows(const Conv<int32_t> &p, const T *x, Word *ring, const Place<int32_t> &at, int32_t count)
      : from_(reinterpret_cast<const char *>(x + p.input.at(at))),
        ring_(ring + threadIdx.x),
        row_(at.h),
        end_(min(at.h + count, p.input.size[3])),
        pitch_(p.input.stride[3] * static_cast<int32_t>(sizeof(T))),
        pixel_(p.input.stride[4] * static_cast<int32_t>(sizeof(T))) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j)
      inside_ |= static_cast<uint32_t>(at.w + j) < static_cast<uint32_t>(p.input.size[4]) ? 1u << j : 0;
    asm volatile("" : "+r"(pixel_), "+r"(pitch_)); // else they are loaded again for every element
#pragma unroll
    for (int i = 0; i < ahead; ++i) fetch();
  }

  // The next rows, while later ones are on their way.
  __device__ void next(Some &rows) {
    await_groups<ahead - 1>();
    fetch(); // into the slot that was read last
#pragma unroll
    for (int e = 0; e < step; ++e)
#pragma unroll
      for (int j = 0; j < kWidth; ++j) rows[e][j] = ring_[read_ + (e * kWidth + j) * kMarchThreads];
    read_ = read_ == ahead * kSlot ? 0 : read_ + kSlot;
  }

 private:
  __device__ void fetch() {
#pragma unroll
    for (int e = 0; e < step; ++e) {
      const uint32_t inside = row_ >= 0 && row_ < end_ ? inside_ : 0;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        Word *const to = ring_ + write_ + (e * kWidth + j) * kMarchThreads;
        const char *const from = from_ + int64_t{pixel_} * j;
        if constexpr (sizeof(Word) >= 4)
          copy_async_or_zero<sizeof(Word)>(to, from, inside & 1u << j);
        else
          *to = inside >> j & 1 ? __ldg(reinterpret_cast<const Word *>(from)) : Word{};
      }
      ++row_, from_ += pitch_;
    }
    commit_copies();
    write_ = write_ == ahead * kSlot ? 0 : write_ + kSlot;
  }

  const char *from_; // the next row, first column
  Word *ring_;
  int32_t row_, end_, pitch_, pixel_; // bytes
  int32_t read_ = 0, write_ = 0;
  uint32_t inside_ = 0; // a bit for each column that is in the image
};

// The sums of outputs that have begun: [q] has its first (q + 1) * step rows of inputs, or all of them.
template <int n, int step, int channels, int columns>
struct Begun {
  static constexpr int kRows = (n - 1) / step + 1;
  float sum[kRows][columns][channels] = {};

  // The next rows of inputs, of which the first is the first of output `newest` of `outputs`; sum[kRows - 1] is done
  // then. A sum moves on where its first product is added. Where a filter has many rows, outputs that do not exist are
  // left out.
  template <class T, int width>
  __device__ void add(const Channels<T, channels> (&rows)[step][width], const float (&w)[n * n][channels],
                      int32_t newest, int32_t outputs) {
#pragma unroll
    for (int e = 0; e < step; ++e) {
      float x[width][channels];
#pragma unroll
      for (int j = 0; j < width; ++j) unpack<T>(rows[e][j], x[j]);
#pragma unroll
      for (int q = kRows - 1; q >= 0; --q) {
        if (q * step + e >= n) continue;
        if (n > 3 && (newest < q || newest - q >= outputs)) continue;
#pragma unroll
        for (int j = 0; j < width; ++j)
#pragma unroll
          for (int i = 0; i < columns; ++i) {
            const int s = j - i * step;
            if (s < 0 || s >= n) continue;
#pragma unroll
            for (int c = 0; c < channels; ++c) {
              const float before = e > 0 || s > 0 ? sum[q][i][c] : q > 0 ? sum[q - 1][i][c] : 0.0f;
              sum[q][i][c] = fmaf(x[j][c], w[(q * step + e) * n + s][c], before);
            }
          }
      }
    }
  }
};

// NaN stays.
__device__ inline float bound(float v, float low, float high) {
#if __CUDA_ARCH__ >= 800
  return ptx::lesser(ptx::greater(v, low), high);
#else
  return v < low ? low : v > high ? high : v;
#endif
}

// Results of a strip, a row at a time.
template <class T, int channels, int columns, bool plain>
class Results {
  using Word = Channels<T, channels>;

 public:
  __device__ Results(const Conv<int32_t> &p, const March &m, void *y, const Place<int32_t> &at)
      : to_(reinterpret_cast<char *>(static_cast<T *>(y) + p.result.at(at))),
        pitch_(p.result.stride[3] * static_cast<int32_t>(sizeof(T))),
        pixel_(p.result.stride[4] * static_cast<int32_t>(sizeof(T))),
        there_((1u << min(columns, p.result.size[4] - at.w)) - 1) {
    asm volatile("" : "+r"(pixel_), "+r"(pitch_));
    const auto *biases = static_cast<const float *>(p.epilogue.bias);
#pragma unroll
    for (int c = 0; c < channels; ++c)
      bias_[c] = (plain || m.activates) && biases ? biases[at.c + c] : -0.0f; // which changes nothing
  }

  __device__ void store(const Conv<int32_t> &p, const March &m, void *y, float (&sum)[columns][channels],
                        const Place<int32_t> &at) {
    if constexpr (!plain) {
      if (!finish_one_by_one(p, m, y, sum, at)) return;
    } else if (m.bounded) {
#pragma unroll
      for (int i = 0; i < columns; ++i)
#pragma unroll
        for (int c = 0; c < channels; ++c) sum[i][c] = bound(cuda::add(sum[i][c], bias_[c]), m.low, m.high);
    }
#pragma unroll
    for (int i = 0; i < columns; ++i)
      if (there_ >> i & 1) *reinterpret_cast<Word *>(to_ + int64_t{pixel_} * i) = pack<T>(sum[i]);
    to_ += pitch_;
  }

 private:
  // In the thread's own places in shared memory, so that what an ending needs is compiled once. False: they are stored
  // too, for they are no vectors of T.
  __device__ bool finish_one_by_one(const Conv<int32_t> &p, const March &m, void *y, float (&sum)[columns][channels],
                                    const Place<int32_t> &at) {
    __shared__ float sums[columns * channels][kMarchThreads];
#pragma unroll
    for (int i = 0; i < columns * channels; ++i) {
      const float v = sum[i / channels][i % channels];
      sums[i][threadIdx.x] = m.activates ? cuda::add(v, bias_[i % channels]) : v;
    }
    const int there = min(columns, p.result.size[4] - at.w) * channels;
#pragma unroll 1
    for (int i = 0; i < there; ++i) {
      const Place<int32_t> place{at.n, at.c + i % channels, 0, at.h, at.w + i / channels};
      const float v = m.activates ? activate(sums[i][threadIdx.x], p.epilogue.activation, p.epilogue.alpha)
                                  : finish(p, sums[i][threadIdx.x], place);
      if (m.vectors)
        sums[i][threadIdx.x] = v;
      else
        put(p, y, v, place);
    }
#pragma unroll
    for (int i = 0; i < columns * channels; ++i) sum[i / channels][i % channels] = sums[i][threadIdx.x];
    return m.vectors != 0;
  }

  char *to_;
  int32_t pitch_, pixel_; // bytes
  uint32_t there_;        // a bit for each column that is in the image
  float bias_[channels];
};

// The first output of a thread.
template <int channels, int columns>
__device__ inline Place<int32_t> first_output(const March &m, int32_t thread) {
  const int32_t strips = m.lanes(thread), sets = m.strips(strips), bands = m.sets(sets), image = m.bands(bands);
  const int32_t chunk = (sets - bands * m.sets.by) * m.lanes.by + thread - strips * m.lanes.by;
  return {image, chunk * channels, 0, (bands - image * m.bands.by) * m.rows, (strips - sets * m.strips.by) * columns};
}

// The first chunk of channels of which a block stages the filters.
template <class T, int channels>
__device__ inline int32_t first_filters(const March &m) {
  const int32_t thread = static_cast<int32_t>(blockIdx.x) * kMarchThreads;
  const int32_t lane = thread - m.lanes(thread) * m.lanes.by;
  return first_staged<T, channels>(first_output<channels, 1>(m, thread).c / channels, lane, m.lanes.by);
}

template <class T, int n, int step, int channels, int columns, int ahead, bool plain>
__global__ void __launch_bounds__(kMarchThreads, plain ? 1 : 4)
    march(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ March m, const T *x, const T *weights,
          void *y) {
  ptx::await_previous();
  const int32_t thread = static_cast<int32_t>(blockIdx.x) * kMarchThreads + static_cast<int32_t>(threadIdx.x);
  const bool raw = plain && m.filters.raw != 0;
  if (thread >= m.threads && !raw) return;
  Place<int32_t> at = first_output<channels, columns>(m, min(thread, m.threads - 1));
  const int32_t outputs = min(m.rows, p.output.size[3] - at.h);

  using Input = Rows<T, n, step, channels, columns, ahead>;
  __shared__ Channels<T, channels> ring[Input::kSlots * Input::kSlot];
  Input input(p, x, ring, Place<int32_t>{at.n, at.c, 0, at.h * step - p.pad[1], at.w * step - p.pad[2]},
              (outputs - 1) * step + n);
  float w[n * n][channels];
  if (raw) {
    extern __shared__ __align__(16) unsigned char room[];
    T *const filters = reinterpret_cast<T *>(room);
    const int32_t first = first_filters<T, channels>(m);
    stage_filters<T, channels>(m.filters, first, weights, filters);
    await_copies();
    __syncthreads();
    if (thread >= m.threads) return; // it has helped
    const int32_t place = place_among_staged(m.filters, at.c / channels, first);
    load_staged<T, n * n, channels>(m.filters, filters + place * (n * n * channels), w);
  } else {
#pragma unroll
    for (int i = 0; i < n * n; ++i)
      unpack<T>(__ldg(reinterpret_cast<const Channels<T, channels> *>(weights + i * p.output.size[1] + at.c)), w[i]);
  }

  Begun<n, step, channels, columns> begun;
  Results<T, channels, columns, plain> results(p, m, y, at);
  constexpr int kBefore = begun.kRows - 1; // rows of inputs before those that finish an output
  at.h -= kBefore;
#pragma unroll 1
  for (int32_t i = 0; i < outputs + kBefore; ++i, ++at.h) {
    typename Input::Some rows;
    input.next(rows);
    begun.template add<T>(rows, w, i, outputs);
    if (i >= kBefore) results.store(p, m, y, begun.sum[kBefore], at);
  }
}

template <class T, int n, int step, int channels, int columns, bool plain>
MarchInstance march_instance() {
  constexpr int kAhead = march_ahead(step, channels, columns, sizeof(T));
  return {[](const Conv<int32_t> &p, const March &m, const void *x, const void *weights, void *y, cudaStream_t stream) {
            launch_waiting(march<T, n, step, channels, columns, kAhead, plain>,
                           static_cast<unsigned>(ceil_div(m.threads, kMarchThreads)), kMarchThreads,
                           static_cast<size_t>(m.filters.room), stream, p, m, static_cast<const T *>(x),
                           static_cast<const T *>(weights), y);
          },
          reinterpret_cast<const void *>(march<T, n, step, channels, columns, kAhead, plain>)};
}

// Shapes that registers hold, and that are the fastest for some layer.
template <class T, int n, int step>
MarchInstance march_by_shape(const MarchShape &shape) {
  const int channels_columns = shape.channels * 10 + shape.columns;
  if (channels_columns == 14)
    return shape.plain ? march_instance<T, n, step, 1, 4, true>() : march_instance<T, n, step, 1, 4, false>();
  if constexpr (n == 3) {
    if (channels_columns == 24 && !shape.plain) return march_instance<T, n, step, 2, 4, false>();
  }
  if (!shape.plain) return {};
  if (channels_columns == 24) return march_instance<T, n, step, 2, 4, true>();
  if constexpr (sizeof(T) == 2 && n < 7) {
    if (channels_columns == 27) return march_instance<T, n, step, 2, 7, true>();
  }
  if constexpr (n == 7 || sizeof(T) == 4) {
    if (channels_columns == 17) return march_instance<T, n, step, 1, 7, true>();
  }
  if constexpr (n == 3) {
    if (channels_columns == 42) return march_instance<T, n, step, 4, 2, true>();
  }
  if constexpr (sizeof(T) == 2 && (n == 3 || (n == 5 && step == 2))) {
    if (channels_columns == 44) return march_instance<T, n, step, 4, 4, true>();
  }
  if constexpr (sizeof(T) == 2 && n == 3 && step == 1) {
    if (channels_columns == 47) return march_instance<T, n, step, 4, 7, true>();
  }
  if constexpr (sizeof(T) == 2 && n == 3 && step == 2) {
    if (channels_columns == 82) return march_instance<T, n, step, 8, 2, true>();
  }
  return {};
}

template <class T>
MarchInstance march_by_filter(const MarchShape &shape) {
  switch (shape.n * 10 + shape.step) {
    case 31: return march_by_shape<T, 3, 1>(shape);
    case 32: return march_by_shape<T, 3, 2>(shape);
    case 51: return march_by_shape<T, 5, 1>(shape);
    case 52: return march_by_shape<T, 5, 2>(shape);
    case 71: return march_by_shape<T, 7, 1>(shape);
    case 72: return march_by_shape<T, 7, 2>(shape);
    default: return {};
  }
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(T) template shared::MarchInstance shared::march_by_filter<T>(const MarchShape &);
