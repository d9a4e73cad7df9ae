// depthwise.cuh - the kernel of cuda-shared/depthwise as a template; <type>.cu instantiate it.
//
// A block stages whole rows of some neighbouring planes into a tile whose border already holds the padding, so that no
// product asks where it lies, and takes several images one after the other: the next image is copied while this one is
// summed, and the filter stays in registers for all of them. A thread computes Rows x Columns outputs, and reads each
// row of its window once, as vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/grid.cuh"
#include "depthwise/depthwise.hpp"

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

// Starts copying all of so many bytes to an address of shared memory.
template <int bytes>
__device__ inline void copy_to_shared(uint32_t to, const void *from) {
#if __CUDA_ARCH__ >= 800
  copy_async_all<bytes>(to, from);
#else
  copy_async<bytes>(__cvta_shared_to_generic(to), from, true);
#endif
}

// Copies the rows of a block's planes that exist into their tile, an image at a time. A thread keeps to one chunk of
// the rows, or, where a row has more chunks than the block has threads, to some of each row, and steps from row to row
// and from plane to plane by additions: copies are as many as products are few.
template <class T>
struct Copier {
  const T *from;                // in image 0
  uint32_t to;                  // bytes in the tile
  int32_t row;                  // among the rows that exist: where the thread begins
  int32_t count;                // rows that it copies its chunks of
  int32_t rows, step;           // rows that exist; rows to the thread's next, less whole planes
  bool straight;                // its rows lie at one distance
  int32_t next_from, wrap_from; // elements to the thread's next row, and from there to the same row of the next plane
  uint32_t next_to, wrap_to;    // bytes

  __device__ Copier(const Conv<int32_t> &p, const Depthwise &d, const T *x, int32_t channel, int32_t top) {
    const auto thread = static_cast<int32_t>(threadIdx.x);
    const auto threads = static_cast<int32_t>(blockDim.x);
    const int32_t abreast = min(d.chunks, threads);
    const int32_t first = max(top, 0), exist = min(top + d.tile_rows, p.input.size[3]) - first;
    const int32_t index = thread / abreast, column = thread % abreast * d.chunk,
                  planes = min(d.planes, p.output.size[1] - channel);
    int32_t side = threads / abreast; // rows copied at a time
    rows = max(exist, 1);
    if (planes > 1 && side >= rows) side -= side % rows; // whole planes
    row = index % rows, step = side % rows, straight = planes == 1 || step == 0;
    count = index < side && exist > 0 ? max(planes * rows - index + side - 1, 0) / side : 0;
    const int32_t plane = index / rows, planes_on = side / rows;
    from = x + p.input.at(0, channel / d.multiplier + plane, 0, first + row, column);
    to = (plane * d.plane + (first - top + row) * d.pitch + d.left + column) * sizeof(T);
    next_from = planes_on * p.input.stride[1] + step * p.input.stride[3];
    next_to = (planes_on * d.plane + step * d.pitch) * sizeof(T);
    wrap_from = p.input.stride[1] - rows * p.input.stride[3], wrap_to = (d.plane - rows * d.pitch) * sizeof(T);
  }

  template <int bytes>
  __device__ void copy(const T *source, uint32_t target) const {
    if (straight) {
#pragma unroll 4
      for (int32_t i = 0; i < count; ++i, source += next_from, target += next_to) copy_to_shared<bytes>(target, source);
      return;
    }
    int32_t r = row;
#pragma unroll 2
    for (int32_t i = 0; i < count; ++i) {
      copy_to_shared<bytes>(target, source);
      r += step, source += next_from, target += next_to;
      if (r >= rows) r -= rows, source += wrap_from, target += wrap_to;
    }
  }

  // `offset` is that of the image, `tile` an address of shared memory.
  __device__ void operator()(const Depthwise &d, int32_t offset, uint32_t tile) const {
    const auto threads = static_cast<int32_t>(blockDim.x), bytes = static_cast<int32_t>(sizeof(T)) * d.chunk;
    int32_t first = 0;
#pragma unroll 1
    do {
      const T *const source = from + offset + first * d.chunk;
      const uint32_t target = tile + to + first * bytes;
      switch (bytes) {
        case 16: copy<16>(source, target); break;
        case 8: copy<8>(source, target); break;
        default: copy<4>(source, target);
      }
      first += threads;
    } while (first + static_cast<int32_t>(threadIdx.x) < d.chunks);
  }
};

// The same where rows do not consist of words of memory: element by element, and waiting for each.
template <class T>
__device__ __noinline__ void copy_elements(const Conv<int32_t> *conv, const Depthwise *depthwise, const T *x, T *tile,
                                           Place<int32_t> first) {
  const Conv<int32_t> &p = *conv;
  const Depthwise &d = *depthwise;
  const int32_t width = p.input.size[4], planes = min(d.planes, p.output.size[1] - first.c);
  for (int32_t i = threadIdx.x; i < planes * d.tile_rows * width; i += static_cast<int32_t>(blockDim.x)) {
    const int32_t column = i % width, row = i / width % d.tile_rows, plane = i / width / d.tile_rows, h = first.h + row;
    if (h < 0 || h >= p.input.size[3]) continue;
    tile[plane * d.plane + row * d.pitch + d.left + column] =
        x[p.input.at(first.n, (first.c + plane) / d.multiplier, 0, h, column)];
  }
}

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

template <class T, int Columns>
__device__ inline void store_row(T *to, const float (&v)[Columns]) {
  constexpr int kInWord = 4 / sizeof(T), kWords = Columns / kInWord < 4 ? Columns / kInWord : 4;
#pragma unroll
  for (int i = 0; i < Columns; i += kWords * kInWord) {
    Words<kWords> words;
#pragma unroll
    for (int j = 0; j < kWords; ++j) words.word[j] = pack(&v[i + j * kInWord], T());
    *reinterpret_cast<Words<kWords> *>(to + i) = words;
  }
}

// Bias and relu at most, and a result of the input's type: rows of outputs at once where all are in the image.
template <class T, int Columns, int Rows>
__device__ inline void store_plain(const Conv<int32_t> &p, bool vectors, T *y, float (&sum)[Rows][Columns],
                                   const Place<int32_t> &at) {
  const bool relu = p.epilogue.activation == POLYCONV_ACT_RELU;
  if (p.epilogue.bias != nullptr || relu) {
    const auto *biases = static_cast<const float *>(p.epilogue.bias);
    const float bias = biases ? biases[at.c] : -0.0f; // which changes nothing
#pragma unroll
    for (int r = 0; r < Rows; ++r)
#pragma unroll
      for (int i = 0; i < Columns; ++i) {
        sum[r][i] = add(sum[r][i], bias);
        if (relu && sum[r][i] < 0) sum[r][i] = 0;
      }
  }
  T *to = y + p.result.at(at);
  const int32_t rows = p.result.size[3] - at.h, columns = p.result.size[4] - at.w;
  if (vectors && columns >= Columns && rows >= Rows) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) store_row<T, Columns>(to + r * p.result.stride[3], sum[r]);
    return;
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r)
    if (r < rows) {
      if (vectors && columns >= Columns) {
        store_row<T, Columns>(to + r * p.result.stride[3], sum[r]);
        continue;
      }
#pragma unroll
      for (int i = 0; i < Columns; ++i)
        if (i < columns) to[r * p.result.stride[3] + i] = as_stored(sum[r][i], T());
    }
}

// A thread's sums to shared memory, for store_any.
template <int Columns, int Rows>
__device__ inline void keep(const float (&sum)[Rows][Columns], float *to, int32_t width) {
#pragma unroll
  for (int r = 0; r < Rows; ++r)
#pragma unroll
    for (int c = 0; c < Columns; ++c) to[r * width + c] = sum[r][c];
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

// Padding everywhere in a block's tiles; images overwrite the same places again and again.
template <class T>
__device__ inline void fill_with_padding(const Conv<int32_t> &p, const Depthwise &d, unsigned char *tiles) {
  constexpr int kInWord = 4 / sizeof(T);
  float padding[kInWord];
#pragma unroll
  for (int i = 0; i < kInWord; ++i) padding[i] = p.padding<float>();
  const uint32_t word = pack(padding, T());
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t i = thread; i < d.buffers * d.tile_bytes / 16; i += static_cast<int32_t>(blockDim.x))
    reinterpret_cast<uint4 *>(tiles)[i] = uint4{word, word, word, word};
}

template <class T, int n, int step, int Columns, int Rows>
__global__ void __launch_bounds__(kMostThreads, n == 3 && Columns * Rows <= 32 ? 3 : 2)
    convolve_planes(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Depthwise d, const T *x,
                    const T *weights, void *y) {
  ptx::await_previous();
  extern __shared__ __align__(16) unsigned char memory[];
  float *const sums = reinterpret_cast<float *>(memory); // none where plain
  unsigned char *const tiles = memory + d.sums_bytes;

  // Whose outputs.
  auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t strip = block % d.strips;
  block /= d.strips;
  const int32_t first_channel = block % d.channel_blocks * d.planes;
  const int64_t part = block / d.channel_blocks;
  const auto first_image = static_cast<int32_t>(part * p.output.size[0] / d.parts);
  const int32_t images = static_cast<int32_t>((part + 1) * p.output.size[0] / d.parts) - first_image;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t column = thread % d.columns, group = thread / d.columns % d.groups;
  const int32_t plane = thread / d.columns / d.groups, k = first_channel + plane;
  const int32_t top = strip * d.row_step - d.pool_pad; // outputs; above the first where pooling pads
  const bool active = plane < d.planes && k < p.output.size[1];

  fill_with_padding<T>(p, d, tiles);
  float w[n * n] = {};
  if (active) {
#pragma unroll
    for (int i = 0; i < n * n; ++i) w[i] = value(weights[p.weights.at(k, 0, 0, i / n, i % n)]);
  }
  const int32_t in_top = top * step - p.pad[1]; // input row of the tile's first
  const Copier<T> copier(p, d, x, first_channel, in_top);
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(tiles));
  const int32_t window = plane * d.plane + group * Rows * step * d.pitch + column * Columns * step;
#pragma unroll 1
  for (int32_t i = -1; i < images; ++i) {
    await_copies();
    __syncthreads(); // image i is there, and nobody reads the last one any more
    if (i + 1 < images) {
      const int32_t image = first_image + i + 1, buffer = (i + 1) % 2 * d.tile_bytes;
      if (d.chunk > 0)
        copier(d, image * p.input.stride[0], address + buffer);
      else
        copy_elements(&p, &d, x, reinterpret_cast<T *>(tiles + buffer),
                      Place<int32_t>{image, first_channel, 0, in_top, 0});
    }
    if (i < 0) continue;
    float sum[Rows][Columns] = {};
    if (active)
      accumulate<T, n, step, Columns, Rows>(reinterpret_cast<const T *>(tiles + i % 2 * d.tile_bytes) + window, d.pitch,
                                            w, sum);
    const Place<int32_t> at{first_image + i, k, 0, top + group * Rows, column * Columns};
    if (d.plain) {
      if (active) store_plain<T, Columns, Rows>(p, d.vector_stores != 0, static_cast<T *>(y), sum, at);
      continue;
    }
    if (active) keep(sum, sums + thread / d.columns * Rows * d.width + column * Columns, d.width);
    __syncthreads();
    store_any(&p, &d, y, sums, Place<int32_t>{at.n, first_channel, 0, top, 0}, strip * d.result_rows);
  }
}

template <class T, int n, int step, int Columns, int Rows>
void launch_planes(const Conv<int32_t> &p, const Depthwise &d, const void *x, const void *weights, void *y,
                   cudaStream_t stream) {
  launch_waiting(convolve_planes<T, n, step, Columns, Rows>, static_cast<unsigned>(d.pairs() * d.parts), d.threads,
                 static_cast<size_t>(d.shared_bytes()), stream, p, d, static_cast<const T *>(x),
                 static_cast<const T *>(weights), y);
}

template <class T, int n, int step, int Columns, int Rows>
DepthwiseInstance instance() {
  return {launch_planes<T, n, step, Columns, Rows>,
          reinterpret_cast<const void *>(convolve_planes<T, n, step, Columns, Rows>)};
}

template <class T, int n, int step>
DepthwiseInstance by_shape(int columns, int rows) {
  if (columns == 4 && rows == 4) return instance<T, n, step, 4, 4>();
  if constexpr (step == 1) {
    if (columns == 4 && rows == 7) return instance<T, n, step, 4, 7>();
    if (columns == 2 && rows == 7) return instance<T, n, step, 2, 7>();
  } else {
    if (columns == 2 && rows == 4) return instance<T, n, step, 2, 4>();
  }
  return {};
}

template <class T>
DepthwiseInstance by_filter(int n, int step, int columns, int rows) {
  if (step == 1) {
    if (n == 3) return by_shape<T, 3, 1>(columns, rows);
    if (n == 5) return by_shape<T, 5, 1>(columns, rows);
    if (n == 7) return by_shape<T, 7, 1>(columns, rows);
  }
  if (step == 2) {
    if (n == 3) return by_shape<T, 3, 2>(columns, rows);
    if (n == 5) return by_shape<T, 5, 2>(columns, rows);
  }
  return {};
}

} // namespace polyconv::cuda::shared

#define POLYCONV_INSTANCE(T) template shared::DepthwiseInstance shared::by_filter<T>(int, int, int, int);
