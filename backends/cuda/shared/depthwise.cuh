// depthwise.cuh - the kernel of cuda-shared/depthwise as a template; depthwise_<type>.cu instantiate it.
//
// A block stages whole rows of some neighbouring planes into a tile whose border already holds the padding, so that no
// product asks where it lies, and takes several images one after the other: the next image is copied while this one is
// summed, and the filter stays in registers for all of them. A thread computes Rows x Columns outputs, and reads each
// row of its window once, as vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/async.cuh"
#include "common/epilogue.cuh"
#include "depthwise.hpp"

namespace polyconv::cuda::shared {

// Elements of T in a word of 32 bits, as floats.
__device__ inline void unpack(uint32_t word, float (&v)[1], float) {
  v[0] = __uint_as_float(word);
}
__device__ inline void unpack(uint32_t word, float (&v)[2], __half) {
  const float2 pair = __half22float2(*reinterpret_cast<const __half2 *>(&word));
  v[0] = pair.x, v[1] = pair.y;
}
__device__ inline void unpack(uint32_t word, float (&v)[2], __nv_bfloat16) {
  v[0] = __uint_as_float(word << 16), v[1] = __uint_as_float(word & 0xffff0000u);
}

__device__ inline uint32_t pack(const float *v, float) {
  return __float_as_uint(v[0]);
}
__device__ inline uint32_t pack(const float *v, __half) {
  const __half2 pair = __floats2half2_rn(v[0], v[1]);
  return *reinterpret_cast<const uint32_t *>(&pair);
}
__device__ inline uint32_t pack(const float *v, __nv_bfloat16) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(v[0], v[1]);
  return *reinterpret_cast<const uint32_t *>(&pair);
}

__device__ inline float as_stored(float v, float) {
  return v;
}
__device__ inline __half as_stored(float v, __half) {
  return __float2half_rn(v);
}
__device__ inline __nv_bfloat16 as_stored(float v, __nv_bfloat16) {
  return __float2bfloat16_rn(v);
}

template <int words>
struct alignas(words * 4) Words {
  uint32_t word[words];
};

// Copies the rows of a block's planes that exist into their tile. A thread keeps to one place along the rows.
template <class T>
struct Copier {
  const T *from; // image 0, first row
  int32_t to, row, rows, plane, planes, row_step, plane_step, column, first_channel;

  __device__ Copier(const Conv<int32_t> &p, const Depthwise &d, const T *x, int32_t channel, int32_t top) {
    const int32_t chunks = p.input.size[4] / d.chunk, step = max(static_cast<int32_t>(blockDim.x) / chunks, 1);
    const int32_t first = max(top, 0);
    const auto thread = static_cast<int32_t>(threadIdx.x);
    column = thread % chunks * d.chunk;
    rows = max(min(top + d.tile_rows, p.input.size[3]) - first, 0);
    planes = thread < step * chunks && rows > 0 ? min(d.planes, p.output.size[1] - channel) : 0;
    row = thread / chunks % max(rows, 1), plane = thread / chunks / max(rows, 1);
    row_step = step % max(rows, 1), plane_step = step / max(rows, 1);
    from = x + p.input.offset + first * p.input.stride[3] + column;
    to = (first - top) * d.pitch + d.left + column;
    first_channel = channel;
  }

  template <int bytes>
  __device__ void copy(const Conv<int32_t> &p, const Depthwise &d, T *tile, int32_t image) const {
    int32_t r = row, q = plane;
    while (q < planes) {
      const int32_t k = first_channel + q, c = d.multiplier == 1 ? k : k / d.multiplier;
      const T *source = from + image * p.input.stride[0] + c * p.input.stride[1] + r * p.input.stride[3];
      T *target = tile + to + q * d.plane + r * d.pitch;
      for (int32_t i = 0; column + i < p.input.size[4]; i += static_cast<int32_t>(blockDim.x) * d.chunk) {
        if constexpr (bytes >= 4)
          copy_async<bytes>(target + i, source + i, true);
        else
          target[i] = source[i];
      }
      r += row_step, q += plane_step;
      if (r >= rows) r -= rows, ++q;
    }
  }

  __device__ void operator()(const Conv<int32_t> &p, const Depthwise &d, T *tile, int32_t image) const {
    switch (d.chunk * sizeof(T)) {
      case 16: return copy<16>(p, d, tile, image);
      case 8: return copy<8>(p, d, tile, image);
      case 4: return copy<4>(p, d, tile, image);
      default: return copy<sizeof(T)>(p, d, tile, image);
    }
  }
};

// Adds a window to the sums, row by row.
template <class T, int n, int step, int Columns, int Rows>
__device__ inline void accumulate(const T *window, int32_t pitch, const float (&w)[n * n],
                                  float (&sum)[Rows][Columns]) {
  constexpr Reading kRead = reading(sizeof(T), n, step, Columns);
#pragma unroll
  for (int row = 0; row < (Rows - 1) * step + n; ++row) {
    float v[kRead.vectors * kRead.vector];
#pragma unroll
    for (int i = 0; i < kRead.vectors; ++i) {
      const auto words = *reinterpret_cast<const Words<kRead.words> *>(window + row * pitch + i * kRead.vector);
#pragma unroll
      for (int j = 0; j < kRead.words; ++j) {
        constexpr int kInWord = 4 / sizeof(T);
        float few[kInWord];
        unpack(words.word[j], few, T());
#pragma unroll
        for (int e = 0; e < kInWord; ++e) v[i * kRead.vector + j * kInWord + e] = few[e];
      }
    }
#pragma unroll
    for (int r = 0; r < n; ++r) {
      if (row < r || (row - r) % step != 0 || (row - r) / step >= Rows) continue;
#pragma unroll
      for (int s = 0; s < n; ++s)
#pragma unroll
        for (int i = 0; i < Columns; ++i)
          sum[(row - r) / step][i] = fmaf(v[kRead.lead + i * step + s], w[r * n + s], sum[(row - r) / step][i]);
    }
  }
}

// Bias and relu at most, and a result of the input's type: a row of outputs at once.
template <class T, int Columns, int Rows>
__device__ inline void store_plain(const Conv<int32_t> &p, const Depthwise &d, T *y, float (&sum)[Rows][Columns],
                                   const Place<int32_t> &at, int32_t rows) {
  const bool biased = p.epilogue.bias != nullptr, relu = p.epilogue.activation == POLYCONV_ACT_RELU;
  const float bias = biased ? static_cast<const float *>(p.epilogue.bias)[at.c] : 0;
  T *to = y + p.result.at(at);
  const int32_t columns = p.result.size[4] - at.w;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int i = 0; i < Columns; ++i) {
      if (biased) sum[r][i] = add(sum[r][i], bias);
      if (relu && sum[r][i] < 0) sum[r][i] = 0;
    }
    if (r < rows) {
      if (d.vector_stores && columns >= Columns) {
        constexpr int kInWord = 4 / sizeof(T);
        constexpr int kWords = Columns / kInWord < 4 ? Columns / kInWord : 4;
#pragma unroll
        for (int i = 0; i < Columns; i += kWords * kInWord) {
          Words<kWords> words;
#pragma unroll
          for (int j = 0; j < kWords; ++j) words.word[j] = pack(&sum[r][i + j * kInWord], T());
          *reinterpret_cast<Words<kWords> *>(to + i) = words;
        }
      } else {
#pragma unroll
        for (int i = 0; i < Columns; ++i)
          if (i < columns) to[i] = as_stored(sum[r][i], T());
      }
    }
    to += p.result.stride[3];
  }
}

// Everything else: the sums lie in shared memory, where the window of a pooled result is together, and the block's
// threads take a result each. Not inlined: what it needs would cost registers where it is not called.
static __device__ __noinline__ void store_any(const Conv<int32_t> *conv, const Depthwise *depthwise, void *y,
                                              const float *sums, Place<int32_t> first, int32_t first_result) {
  const Conv<int32_t> &p = *conv;
  const int32_t width = depthwise->width, height = depthwise->height;
  const int32_t columns = p.result.size[4], results = depthwise->result_rows * columns;
  for (int32_t i = threadIdx.x; i < depthwise->planes * results; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t plane = i / results, row = i % results / columns;
    const Place<int32_t> at{first.n, first.c + plane, 0, first_result + row, i % columns};
    if (at.c >= p.result.size[1] || at.h >= p.result.size[3]) continue;
    const float *of_plane = sums + (plane * height - first.h) * width;
    pool_and_store<float>(p, y, at, p.output, [&](const Place<int32_t> &o) { return of_plane[o.h * width + o.w]; });
  }
}

template <class T, int n, int step, int Columns, int Rows>
__global__ void __launch_bounds__(kMostThreads, n == 3 ? 3 : 2)
    convolve_planes(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Depthwise d, const T *x,
                    const T *weights, void *y) {
  extern __shared__ __align__(16) unsigned char memory[];
  float *const sums = reinterpret_cast<float *>(memory); // none where plain
  T *const tiles = reinterpret_cast<T *>(memory + d.sums_bytes);
  const int32_t tile_size = d.planes * d.plane, buffers = d.images > 1 ? 2 : 1;

  // Whose outputs.
  auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t strip = block % d.strips;
  block /= d.strips;
  const int32_t first_channel = block % d.channel_blocks * d.planes, first_image = block / d.channel_blocks * d.images;
  const int32_t images = min(d.images, p.output.size[0] - first_image);
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t column = thread % d.columns, group = thread / d.columns % d.groups;
  const int32_t plane = thread / d.columns / d.groups, k = first_channel + plane;
  const int32_t top = strip * d.row_step - d.pool_pad; // outputs; above the first where pooling pads
  const bool active = plane < d.planes && k < p.output.size[1];

  // Padding everywhere; images overwrite the same places again and again.
  constexpr int kInWord = 4 / sizeof(T);
  float padding[kInWord];
#pragma unroll
  for (int i = 0; i < kInWord; ++i) padding[i] = p.padding<float>();
  auto *const words = reinterpret_cast<uint32_t *>(tiles);
  for (int32_t i = thread; i < buffers * tile_size / kInWord; i += static_cast<int32_t>(blockDim.x))
    words[i] = pack(padding, T());
  float w[n * n] = {};
  if (active) {
#pragma unroll
    for (int i = 0; i < n * n; ++i) w[i] = value(weights[p.weights.at(k, 0, 0, i / n, i % n)]);
  }
  const Copier<T> copier(p, d, x, first_channel, top * step - p.pad[1]);
  __syncthreads();

  const int32_t window = plane * d.plane + group * Rows * step * d.pitch + column * Columns * step;
  copier(p, d, tiles, first_image);
#pragma unroll 1
  for (int32_t i = 0; i < images; ++i) {
    await_copies();
    __syncthreads(); // this image is there, and nobody reads the last one any more
    if (i + 1 < images) copier(p, d, tiles + (i + 1) % 2 * tile_size, first_image + i + 1);
    float sum[Rows][Columns] = {};
    if (active) accumulate<T, n, step, Columns, Rows>(tiles + i % 2 * tile_size + window, d.pitch, w, sum);
    const Place<int32_t> at{first_image + i, k, 0, top + group * Rows, column * Columns};
    if (d.plain) {
      if (active) store_plain<T, Columns, Rows>(p, d, static_cast<T *>(y), sum, at, p.result.size[3] - at.h);
      continue;
    }
    if (active) {
      float *mine = sums + thread / d.columns * Rows * d.width + column * Columns;
#pragma unroll
      for (int r = 0; r < Rows; ++r)
#pragma unroll
        for (int c = 0; c < Columns; ++c) mine[r * d.width + c] = sum[r][c];
    }
    __syncthreads();
    store_any(&p, &d, y, sums, Place<int32_t>{at.n, first_channel, 0, top, 0}, strip * d.result_rows);
  }
}

template <class T, int n, int step, int Columns, int Rows>
void launch_planes(const Conv<int32_t> &p, const Depthwise &d, const void *x, const void *weights, void *y,
                   cudaStream_t stream) {
  convolve_planes<T, n, step, Columns, Rows>
      <<<static_cast<unsigned>(d.blocks), d.threads, static_cast<size_t>(d.shared_bytes), stream>>>(
          p, d, static_cast<const T *>(x), static_cast<const T *>(weights), y);
  check_launch("cuda-shared/depthwise");
}

template <class T, int n, int step>
DepthwiseLaunch by_shape(int columns, int rows) {
  if (columns == 4 && rows == 4) return launch_planes<T, n, step, 4, 4>;
  if constexpr (step == 1) {
    if (columns == 4 && rows == 8) return launch_planes<T, n, step, 4, 8>;
    if (columns == 8 && rows == 4) return launch_planes<T, n, step, 8, 4>;
    if (columns == 2 && rows == 7) return launch_planes<T, n, step, 2, 7>;
    if (columns == 2 && rows == 14) return launch_planes<T, n, step, 2, 14>;
  } else {
    if (columns == 2 && rows == 4) return launch_planes<T, n, step, 2, 4>;
  }
  return nullptr;
}

template <class T>
DepthwiseLaunch by_filter(int n, int step, int columns, int rows) {
  if (step == 1) {
    if (n == 3) return by_shape<T, 3, 1>(columns, rows);
    if (n == 5) return by_shape<T, 5, 1>(columns, rows);
    if (n == 7) return by_shape<T, 7, 1>(columns, rows);
  }
  if (step == 2) {
    if (n == 3) return by_shape<T, 3, 2>(columns, rows);
    if (n == 5) return by_shape<T, 5, 2>(columns, rows);
  }
  return nullptr;
}

} // namespace polyconv::cuda::shared
