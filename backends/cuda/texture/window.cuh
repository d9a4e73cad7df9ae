// window.cuh - the kernel of cuda-texture as a template; taps<n>.cu instantiate it for a filter size each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/ptx/grid.cuh"
#include "march.cuh"
#include "readers.cuh"

namespace polyconv::cuda::texture {

// Blocks that shall fit on a multiprocessor. Waiting for texels is what costs time, so the more warps the better; but
// no register may spill. What a thread needs: sums, weights, a row of texels, the next one and what locates them, and
// the rest, which is least (lean) where there is one channel and one way to store.
template <int n, int Q, int F, bool lean>
inline constexpr int kRegisters = (n > 0 ? n : 1) * Q *F + (n == 3 && F == 1 ? 9 : 2 * F) + 3 * (Q + n - 1) + 21 + n +
                                  (lean ? 0 : 24) + (F > 1 ? 10 : 0);
template <int n, int Q, int F, bool lean>
inline constexpr int kBlocks = std::min(65536 / kMaxThreads / kRegisters<n, Q, F, lean>, lean ? (n < 7 ? 8 : 6) : 5);

// ---------------------------------------------------------------- results

template <class T>
__device__ inline T as(float v) {
  if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(v);
  else if constexpr (std::is_same_v<T, uint8_t>)
    return static_cast<uint8_t>(round_to_integer(v, 0, 255));
  else
    return v;
}

// Bias and relu.
__device__ inline float activated(const Epilogue &e, float sum, float bias) {
  const float v = e.bias ? add(sum, bias) : sum;
  return e.activation == POLYCONV_ACT_RELU && v < 0 ? 0.0f : v;
}

__device__ inline float bias_of(const Epilogue &e, int32_t c) {
  return e.bias ? static_cast<const float *>(e.bias)[c] : 0.0f;
}

// Stores a row of a patch: as vectors where it is whole and aligned.
template <class T, int Q>
struct alignas(Q * sizeof(T) < 16 ? Q * sizeof(T) : 16) Vector {
  T of[Q];

  __device__ void store(T *to, int32_t width, int32_t step) const {
    if (step == 1 && Q <= width && reinterpret_cast<uintptr_t>(to) % alignof(Vector) == 0) {
      *reinterpret_cast<Vector *>(to) = *this;
    } else {
#pragma unroll
      for (int q = 0; q < Q; ++q)
        if (q < width) to[q * step] = of[q];
    }
  }
};

template <class T, int Q, int F>
__device__ inline void store_plain(const Conv<int32_t> &p, T *y, const float (&sum)[F][Q], const Place<int32_t> &at,
                                   int32_t filters) {
  T *to = y + p.result.at(at);
#pragma unroll
  for (int f = 0; f < F; ++f, to += p.result.stride[1]) {
    if (f >= filters) break;
    const float bias = bias_of(p.epilogue, at.c + f);
    Vector<T, Q> v;
#pragma unroll
    for (int q = 0; q < Q; ++q) v.of[q] = as<T>(activated(p.epilogue, sum[f][q], bias));
    v.store(to, p.result.size[4] - at.w, p.result.stride[4]);
  }
}

// Pools windows of 2 x 2: an even row is kept, an odd one completes its windows. Elements are taken in the order of
// pool_and_put.
template <int Q, int F>
__device__ inline void store_pooled(const Conv<int32_t> &p, float *y, const float (&sum)[F][Q],
                                    float (&above)[F][Q / 2], const Place<int32_t> &at, int32_t filters) {
  const bool average = p.pool.kind == POLYCONV_POOL_AVERAGE, odd = at.h % 2 != 0;
  float *to = y + p.result.at(at.n, at.c, 0, at.h / 2, at.w / 2);
#pragma unroll
  for (int f = 0; f < F; ++f, to += p.result.stride[1]) {
    if (f >= filters) break;
    const float bias = bias_of(p.epilogue, at.c + f);
    Vector<float, Q / 2> v;
#pragma unroll
    for (int q = 0; q < Q / 2; ++q) {
      const float a = activated(p.epilogue, sum[f][2 * q], bias), b = activated(p.epilogue, sum[f][2 * q + 1], bias);
      float best = odd ? above[f][q] : a;
      if (average) {
        best = odd ? add(add(best, a), b) : add(best, b);
      } else {
        if (odd && pool_better(a, best)) best = a;
        if (pool_better(b, best)) best = b;
      }
      above[f][q] = best;
      v.of[q] = average ? multiply(best, 0.25f) : best;
    }
    if (odd) v.store(to, p.result.size[4] - at.w / 2, p.result.stride[4]);
  }
}

// Where a thread and its block stand.
struct Spot {
  int32_t image, group, chunk, tile_h, tile_w; // of the block
  int32_t my_image, row, col;                  // of the thread, in patches
  bool active;

  __device__ Spot(const Conv<int32_t> &p, const Tiling &t) {
    int32_t rest = blockIdx.x;
    tile_w = rest % t.tiles_w, rest /= t.tiles_w;
    tile_h = rest % t.tiles_h, rest /= t.tiles_h;
    chunk = rest % t.chunks, rest /= t.chunks;
    group = rest % p.groups, image = rest / p.groups * t.images;
    rest = threadIdx.x / t.cols;
    col = threadIdx.x % t.cols, row = rest % t.rows, my_image = image + rest / t.rows;
    active = rest < t.rows * t.images && my_image < p.input.size[0];
  }
};

// Everything else: the sums of a block lie in shared memory, where the window of a pooled result lies together, and its
// threads take a result each.
__device__ inline void store_any(const Conv<int32_t> &p, const Tiling &t, void *y, const float *sums, const Spot &spot,
                                 int32_t top, int32_t left, int32_t first, int32_t filters) {
  const int32_t results = t.result_rows * t.result_cols;
  for (int32_t i = threadIdx.x; i < results * t.images * filters; i += blockDim.x) {
    const int32_t plane = i / results, image = plane % t.images, f = plane / t.images;
    const int32_t row = i % results / t.result_cols, col = i % t.result_cols;
    const Place<int32_t> at{spot.image + image, first + f, 0, spot.tile_h * t.result_rows + row,
                            spot.tile_w * t.result_cols + col};
    if (at.n >= p.result.size[0] || at.h >= p.result.size[3] || at.w >= p.result.size[4]) continue;
    const float *of_plane = sums + plane * t.out_rows * t.out_cols;
    const auto sum_at = [&](const Place<int32_t> &o) { return of_plane[(o.h - top) * t.out_cols + o.w - left]; };
    pool_and_store<float>(p, y, at, p.output, sum_at);
  }
}

// ---------------------------------------------------------------- the kernel

template <template <class> class Reader, class Texel, int n, int Q, int F, bool one_channel, Store store>
__global__ void __launch_bounds__(kMaxThreads, kBlocks<n, Q, F, one_channel && store != kStoreAny>)
    window(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Launch launch,
           const __grid_constant__ Objects objects, const void *w, int32_t weights_type, void *y) {
  ptx::await_previous();
  extern __shared__ float4 shared[];
  const Tiling &t = launch.tile;
  const Spot spot(p, t);
  const int32_t channels = p.weights.size[1], of_group = p.weights.size[0] / p.groups;
  const int32_t first = spot.group * of_group + spot.chunk * F, filters = min(F, of_group - spot.chunk * F);
  const int32_t top = t.first_row + spot.tile_h * t.row_step, left = t.first_col + spot.tile_w * t.col_step;
  const int32_t in_top = top * p.stride[1] - p.pad[1], in_left = left * p.stride[2] - p.pad[2];
  auto *weights = reinterpret_cast<float *>(shared);
  auto *map = reinterpret_cast<int32_t *>(weights + channels * p.weights.size[3] * p.weights.size[4] * F);
  float *sums = weights + launch.sums;
  fill_weights<F>(p, w, weights_type, weights, first, filters);
  if constexpr (std::is_same_v<Reader<Texel>, LinearReader<Texel>>) fill_maps(p, t, map, in_top, in_left);
  __syncthreads();

  const Place<int32_t> at{spot.my_image, first, 0, top + spot.row * t.down, left + spot.col * Q};
  if (spot.active && at.h < p.output.size[3] && at.w < p.output.size[4]) {
    Reader<Texel> read(p, launch, objects, map, spot.image, in_top, in_left, spot.my_image);
    const Job job{spot.row * t.down * p.stride[1], spot.col * Q * p.stride[2], min(t.down, p.output.size[3] - at.h),
                  spot.group * channels, channels};
    float *mine = sums + ((spot.my_image - spot.image) * t.out_rows + spot.row * t.down) * t.out_cols + spot.col * Q;
    [[maybe_unused]] float above[F][Q > 1 ? Q / 2 : 1]; // the upper halves of the windows that are being pooled
    const auto emit = [&](int32_t row, const float(&sum)[F][Q]) {
      const Place<int32_t> here{at.n, at.c, 0, at.h + row, at.w};
      if constexpr (store == kStorePooled) {
        store_pooled(p, static_cast<float *>(y), sum, above, here, filters);
      } else {
        if (store == kStoreF32 || launch.store == kStoreF32)
          return store_plain(p, static_cast<float *>(y), sum, here, filters);
        if (launch.store == kStoreF16) return store_plain(p, static_cast<__half *>(y), sum, here, filters);
        if (launch.store == kStoreU8) return store_plain(p, static_cast<uint8_t *>(y), sum, here, filters);
#pragma unroll
        for (int f = 0; f < F; ++f)
#pragma unroll
          for (int q = 0; q < Q; ++q) mine[(f * t.images * t.out_rows + row) * t.out_cols + q] = sum[f][q];
      }
    };
    const auto *taps = reinterpret_cast<const Taps<F> *>(weights);
    if constexpr (n > 0)
      march<n, Q, F, one_channel>(job, read, taps, emit);
    else
      visit<Q, F>(p, job, read, taps, emit);
  }
  if (store != kStoreAny || launch.store != kStoreAny) return;
  __syncthreads();
  store_any(p, t, y, sums, spot, top, left, first, filters);
}

template <template <class> class Reader, class Texel, int n, int Q, int F, bool one_channel, Store store>
void launch_window(const Conv<int32_t> &p, const Launch &launch, const Objects &objects, const void *w,
                   int32_t weights_type, void *y, cudaStream_t stream) {
  const Tiling &t = launch.tile;
  launch_waiting(window<Reader, Texel, n, Q, F, one_channel, store>, static_cast<unsigned>(t.blocks), t.threads(),
                 static_cast<size_t>(launch.shared), stream, p, launch, objects, w, weights_type, y);
}

template <template <class> class Reader, class Texel, int n, int Q, int F, Store store>
LaunchFunction by_channels(bool one_channel) {
  if constexpr (n > 0) {
    if (one_channel) return launch_window<Reader, Texel, n, Q, F, true, store>;
  }
  return launch_window<Reader, Texel, n, Q, F, false, store>;
}

// The usual ways to f32 have instances of their own: all stores together would cost them registers.
template <template <class> class Reader, int n, int Q, int F>
LaunchFunction by_types(const Wanted &wanted) {
  if (wanted.integers) return by_channels<Reader, unsigned, n, Q, F, kStoreAny>(wanted.one_channel);
  if (wanted.store == kStoreF32) return by_channels<Reader, float, n, Q, F, kStoreF32>(wanted.one_channel);
  if constexpr (Q % 2 == 0) {
    if (wanted.store == kStorePooled) return by_channels<Reader, float, n, Q, F, kStorePooled>(wanted.one_channel);
  }
  return by_channels<Reader, float, n, Q, F, kStoreAny>(wanted.one_channel);
}

// The patches that are compiled: outputs across, filters.
#define POLYCONV_TEXTURE_PATCHES(X) X(1, 1) X(4, 1) X(8, 1) X(4, 4)

#define POLYCONV_TEXTURE_PATCH(Q, F)                                         \
  if (wanted.patch.across == Q && wanted.patch.filters == F)                 \
    return wanted.path == kPlane ? by_types<PlaneReader, size, Q, F>(wanted) \
                                 : by_types<LinearReader, size, Q, F>(wanted);
template <int size>
LaunchFunction find_instance(const Wanted &wanted) {
  POLYCONV_TEXTURE_PATCHES(POLYCONV_TEXTURE_PATCH)
  return nullptr;
}

} // namespace polyconv::cuda::texture

#define POLYCONV_INSTANCE(n) template texture::LaunchFunction texture::find_instance<n>(const Wanted &);
