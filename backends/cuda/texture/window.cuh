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
template <int n, int Q, bool lean>
inline constexpr int kRegisters = (n > 0 ? n : 1) * Q + (n == 3 ? 9 : 2) + 3 * (Q + n - 1) + 21 + n + (lean ? 0 : 26);
template <int n, int Q, bool lean>
inline constexpr int kBlocks = std::min(65536 / kMaxThreads / kRegisters<n, Q, lean>, lean ? (n < 7 ? 8 : 6) : 5);

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

template <class T, int Q>
__device__ inline void store_row(const Conv<int32_t> &p, T *y, const float (&sum)[Q], const Place<int32_t> &at) {
  const float bias = p.epilogue.bias ? static_cast<const float *>(p.epilogue.bias)[at.c] : 0.0f;
  Vector<T, Q> v;
#pragma unroll
  for (int q = 0; q < Q; ++q) v.of[q] = as<T>(activated(p.epilogue, sum[q], bias));
  v.store(y + p.result.at(at), p.result.size[4] - at.w, p.result.stride[4]);
}

// Any epilogue, an output after the other.
template <int Q>
__device__ inline void store_each(const Conv<int32_t> &p, void *y, const float (&sum)[Q], const Place<int32_t> &at) {
#pragma unroll 1
  for (int q = 0; q < min(Q, p.output.size[4] - at.w); ++q) {
    float v = sum[0]; // registers have no index
#pragma unroll
    for (int i = 1; i < Q; ++i) v = i == q ? sum[i] : v;
    finish_and_store(p, y, v, Place<int32_t>{at.n, at.c, 0, at.h, at.w + q});
  }
}

// Where a thread and its block stand.
struct Spot {
  int32_t image, filter, tile_h, tile_w; // of the block
  int32_t my_image, row, col;            // of the thread, in patches
  bool active;

  __device__ Spot(const Conv<int32_t> &p, const Tiling &t) {
    int32_t rest = blockIdx.x;
    tile_w = rest % t.tiles_w, rest /= t.tiles_w;
    tile_h = rest % t.tiles_h, rest /= t.tiles_h;
    filter = rest % p.weights.size[0], image = rest / p.weights.size[0] * t.images;
    rest = threadIdx.x / t.cols;
    col = threadIdx.x % t.cols, row = rest % t.rows, my_image = image + rest / t.rows;
    active = rest < t.rows * t.images && my_image < p.input.size[0];
  }
};

// ---------------------------------------------------------------- the kernel

template <template <class> class Reader, class Texel, int n, int Q, bool one_channel, bool to_f32>
__global__ void __launch_bounds__(kMaxThreads, kBlocks<n, Q, one_channel && to_f32>)
    window(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Launch launch,
           const __grid_constant__ Objects objects, const void *w, int32_t weights_type, void *y) {
  ptx::await_previous();
  extern __shared__ float weights[];
  const Tiling &t = launch.tile;
  const Spot spot(p, t);
  const int32_t channels = p.weights.size[1], first_channel = spot.filter / (p.weights.size[0] / p.groups) * channels;
  const int32_t top = spot.tile_h * t.out_rows, left = spot.tile_w * t.out_cols;
  const int32_t in_top = top * p.stride[1] - p.pad[1], in_left = left * p.stride[2] - p.pad[2];
  auto *map = reinterpret_cast<int32_t *>(weights + channels * p.weights.size[3] * p.weights.size[4]);
  fill_weights(p, w, weights_type, weights, spot.filter);
  if constexpr (std::is_same_v<Reader<Texel>, LinearReader<Texel>>) fill_maps(p, t, map, in_top, in_left);
  __syncthreads();

  const Place<int32_t> at{spot.my_image, spot.filter, 0, top + spot.row * t.down, left + spot.col * Q};
  if (!spot.active || at.h >= p.output.size[3] || at.w >= p.output.size[4]) return;
  Reader<Texel> read(p, launch, objects, map, spot.image, in_top, in_left, spot.my_image);
  const Job job{spot.row * t.down * p.stride[1], spot.col * Q * p.stride[2], min(t.down, p.output.size[3] - at.h),
                first_channel, channels};
  const auto emit = [&](int32_t row, const float(&sum)[Q]) {
    const Place<int32_t> here{at.n, at.c, 0, at.h + row, at.w};
    if (to_f32 || launch.store == kStoreF32) return store_row(p, static_cast<float *>(y), sum, here);
    if (launch.store == kStoreF16) return store_row(p, static_cast<__half *>(y), sum, here);
    if (launch.store == kStoreU8) return store_row(p, static_cast<uint8_t *>(y), sum, here);
    store_each(p, y, sum, here);
  };
  if constexpr (n > 0)
    march<n, Q, one_channel>(job, read, weights, emit);
  else
    visit<Q>(p, job, read, weights, emit);
}

template <template <class> class Reader, class Texel, int n, int Q, bool one_channel, bool to_f32>
void launch_window(const Conv<int32_t> &p, const Launch &launch, const Objects &objects, const void *w,
                   int32_t weights_type, void *y, cudaStream_t stream) {
  const Tiling &t = launch.tile;
  launch_waiting(window<Reader, Texel, n, Q, one_channel, to_f32>, static_cast<unsigned>(t.blocks), t.threads(),
                 static_cast<size_t>(launch.shared), stream, p, launch, objects, w, weights_type, y);
}

template <template <class> class Reader, class Texel, int n, int Q, bool to_f32>
LaunchFunction by_channels(bool one_channel) {
  if constexpr (n > 0) {
    if (one_channel) return launch_window<Reader, Texel, n, Q, true, to_f32>;
  }
  return launch_window<Reader, Texel, n, Q, false, to_f32>;
}

// The usual way to f32 has instances of its own: all stores together would cost it registers.
template <template <class> class Reader, int n, int Q>
LaunchFunction by_types(const Wanted &wanted) {
  if (wanted.integers) return by_channels<Reader, unsigned, n, Q, false>(wanted.one_channel);
  return wanted.store == kStoreF32 ? by_channels<Reader, float, n, Q, true>(wanted.one_channel)
                                   : by_channels<Reader, float, n, Q, false>(wanted.one_channel);
}

template <int size, int Q>
LaunchFunction by_path(const Wanted &wanted) {
  return wanted.path == kPlane ? by_types<PlaneReader, size, Q>(wanted) : by_types<LinearReader, size, Q>(wanted);
}

// The patches that are compiled, by their outputs across.
template <int size>
LaunchFunction find_instance(const Wanted &wanted) {
  switch (wanted.patch.across) {
    case 1: return by_types<LinearReader, size, 1>(wanted); // alone: no layer takes planes so
    case 4: return by_path<size, 4>(wanted);
    default: return by_path<size, 8>(wanted);
  }
}

} // namespace polyconv::cuda::texture

#define POLYCONV_INSTANCE(n) template texture::LaunchFunction texture::find_instance<n>(const Wanted &);
