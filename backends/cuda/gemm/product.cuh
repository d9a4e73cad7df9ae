// product.cuh - the tiled matrix product: a block computes a tile of pixels x channels, a thread a part of it in
// registers, over blocks of k that alternate between two halves of shared memory: one is filled while the other is
// multiplied. Included by one file a type, which makes the kernels of its tiles.
//
// Floor: 2 N K P Q C R S at the FMA rate. A thread of 8 x 8 sums loads 16 operands from shared memory, in 4 loads of 16
// bytes, for 64 FMAs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/check.hpp"
#include "common/epilogue.cuh"
#include "sources.cuh"

namespace polyconv::cuda::gemm {

// What is the same for every thread, and where threads stand in a tile. Sums lie in vectors of 16 bytes: vector v of a
// thread's pixels is at pixel(v), and consecutive lanes have consecutive vectors.
template <class T, class Tile>
struct Frame {
  static constexpr int vector = 16 / sizeof(T);
  static constexpr int row = Tile::pixels + vector; // of activations in shared memory; more than the tile, so that
                                                    // turned vectors spread over the banks
  static constexpr int pixel_vectors = Tile::thread_pixels / vector;
  static constexpr int channel_vectors = Tile::thread_channels / vector;
  static constexpr int activations = Tile::depth * row, weights = Tile::depth * Tile::channels;
  static constexpr int stage = activations + weights; // elements of a half
  // The sums leave in parts, staged in shared memory.
  static constexpr int parts = channel_vectors > 1 ? 2 : 1, part = Tile::channels / parts;
  static constexpr int staged_pixels = Tile::pixels + vector, staged_channels = part + vector; // rows, both ways
  static constexpr int staged =
      staged_pixels * part > staged_channels *Tile::pixels ? staged_pixels *part : staged_channels *Tile::pixels;
  static constexpr int places_bytes = Tile::pixels * (sizeof(Pixel) + sizeof(int64_t));

  // Blocks that share a multiprocessor: what the registers of the sums allow.
  static constexpr int sum_bytes = Tile::thread_pixels * Tile::thread_channels * sizeof(T);
  static constexpr int blocks = (sum_bytes > 256 ? 256 : sum_bytes > 128 ? 512 : 640) / Tile::threads;

  int pixel, channel; // of the thread's first vectors

  __device__ Frame() {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Pairs of lanes share pixels, so that every quarter of a warp reads few different addresses of either operand.
    pixel = warp % Tile::warps_along * Tile::warp_pixels + (lane >> 1 & 7) * vector;
    channel = warp / Tile::warps_along * Tile::warp_channels + ((lane & 1) | lane >> 4 << 1) * vector;
  }
};

template <class T>
struct alignas(16) Vector {
  T element[16 / sizeof(T)];
};

// The packed weights of a block of k, 16 bytes a copy.
template <class T, class Tile>
class Weights {
  static constexpr int vector = 16 / sizeof(T), lanes = Tile::channels / vector;
  static constexpr int step = Tile::threads / lanes, count = Tile::depth / step;
  static_assert(step >= 1 && count * step == Tile::depth, "threads have whole rows");

 public:
  __device__ Weights(const Product &p, int32_t channel, int32_t group)
      : row_(p.weights_row), inside_(channel + column() < p.weights_row) {
    const auto *weights = static_cast<const T *>(p.weights) + static_cast<int64_t>(group) * p.depth * row_;
    from_ = inside_ ? weights + static_cast<int64_t>(line()) * row_ + channel + column() : weights;
  }
  __device__ void fetch(T *to, int32_t first, int32_t rows) const {
    const T *from = from_ + static_cast<int64_t>(first) * row_;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int k = line() + i * step;
      const bool inside = inside_ && k < rows;
      copy_async<16>(to + k * Tile::channels + column(), inside ? from + static_cast<int64_t>(i * step) * row_ : from_,
                     inside);
    }
  }

 private:
  __device__ static int column() {
    return static_cast<int>(threadIdx.x) % lanes * vector;
  }
  __device__ static int line() {
    return static_cast<int>(threadIdx.x) / lanes;
  }

  const T *from_;
  int32_t row_;
  bool inside_;
};

// sums += activations * weights over one block of k. The operands of the next k are loaded before the products of this.
template <class T, class Tile>
__device__ inline void multiply(T (&sums)[Tile::thread_pixels][Tile::thread_channels], const T *activations,
                                const T *weights) {
  using F = Frame<T, Tile>;
  Vector<T> a[2][F::pixel_vectors], b[2][F::channel_vectors];
  const auto load_operands = [&](int k, int into) {
#pragma unroll
    for (int v = 0; v < F::pixel_vectors; ++v)
      a[into][v] = *reinterpret_cast<const Vector<T> *>(activations + k * F::row + v * 8 * F::vector);
#pragma unroll
    for (int v = 0; v < F::channel_vectors; ++v)
      b[into][v] = *reinterpret_cast<const Vector<T> *>(weights + k * Tile::channels + v * 4 * F::vector);
  };
  load_operands(0, 0);
#pragma unroll
  for (int k = 0; k < Tile::depth; ++k) {
    if (k + 1 < Tile::depth) load_operands(k + 1, (k + 1) % 2);
#pragma unroll
    for (int i = 0; i < Tile::thread_pixels; ++i)
#pragma unroll
      for (int j = 0; j < Tile::thread_channels; ++j)
        sums[i][j] = fma(a[k % 2][i / F::vector].element[i % F::vector], b[k % 2][j / F::vector].element[j % F::vector],
                         sums[i][j]);
  }
}

// Puts one part of the thread's sums where threads that are neighbours in memory find them.
template <class T, class Tile, int Part>
__device__ inline void stage_part(T *staged, const T (&sums)[Tile::thread_pixels][Tile::thread_channels],
                                  bool channels_inner) {
  using F = Frame<T, Tile>;
  const F at;
  constexpr int vectors = F::channel_vectors / F::parts;
  const int warp_channel = at.channel / Tile::warp_channels * (Tile::warp_channels / F::parts);
#pragma unroll
  for (int pv = 0; pv < F::pixel_vectors; ++pv)
#pragma unroll
    for (int cv = 0; cv < vectors; ++cv) {
      const int pixel = at.pixel + pv * 8 * F::vector;
      const int channel = warp_channel + at.channel % Tile::warp_channels + cv * 4 * F::vector;
#pragma unroll
      for (int line = 0; line < F::vector; ++line) {
        Vector<T> v;
#pragma unroll
        for (int e = 0; e < F::vector; ++e)
          v.element[e] = channels_inner ? sums[pv * F::vector + line][(Part * vectors + cv) * F::vector + e]
                                        : sums[pv * F::vector + e][(Part * vectors + cv) * F::vector + line];
        T *to = channels_inner ? staged + (pixel + line) * F::staged_channels + channel
                               : staged + (channel + line) * F::staged_pixels + pixel;
        *reinterpret_cast<Vector<T> *>(to) = v;
      }
    }
}

// The epilogue of a part, element by element from shared memory, neighbouring threads at neighbouring addresses.
template <class T, class Tile>
__device__ inline void store_part(const Product &p, const T *staged, const Pixel *places, const int64_t *offsets,
                                  int part, int64_t pixel, int32_t channel, int32_t group) {
  using F = Frame<T, Tile>;
  const bool inner = p.conv.channels_inner;
  constexpr int warp_part = Tile::warp_channels / F::parts;
#pragma unroll 1
  for (int i = threadIdx.x; i < Tile::pixels * F::part; i += Tile::threads) {
    const int x = inner ? i / F::part : i % Tile::pixels, y = inner ? i % F::part : i / Tile::pixels;
    const int32_t k = channel + y / warp_part * Tile::warp_channels + part * warp_part + y % warp_part;
    if (pixel + x >= p.pixels || k >= p.group_out) continue;
    const T sum = inner ? staged[x * F::staged_channels + y] : staged[y * F::staged_pixels + x];
    const Pixel o = places[x];
    const int64_t c = static_cast<int64_t>(group) * p.group_out + k;
    const T v = finish(p.conv, sum, Place<int64_t>{o.n, c, o.d, o.h, o.w});
    store(p.result, p.conv.epilogue.result_type, offsets[x] + c * p.conv.result.stride[1], v);
  }
}

template <class From, class T, class Tile, Source Kind>
struct Layout {
  using F = Frame<T, Tile>;
  using A = Activations<From, T, Tile, F::row, Kind>;
  static constexpr int table_at = 2 * F::stage * sizeof(T); // of the source
  static constexpr int places_at = F::staged * sizeof(T);   // when the sums leave
  static constexpr int table_bytes = [] {
    if constexpr (Kind == Source::kTaps)
      return 0;
    else
      return A::table_bytes;
  }();
  static constexpr int loop_bytes = table_at + table_bytes, end_bytes = places_at + F::places_bytes;
  static constexpr int bytes = loop_bytes > end_bytes ? loop_bytes : end_bytes;
};

template <class From, class T, class Tile, Source Kind>
__global__ void __launch_bounds__(Tile::threads, (Frame<T, Tile>::blocks))
    multiply_tiles(const __grid_constant__ Product p) {
  using F = Frame<T, Tile>;
  using L = Layout<From, T, Tile, Kind>;
  extern __shared__ __align__(16) unsigned char shared[];
  T *const stages = reinterpret_cast<T *>(shared);
  // Blocks that run together share activations: channels go first.
  const unsigned rest = blockIdx.x / p.channel_tiles;
  const auto channel = static_cast<int32_t>(blockIdx.x % p.channel_tiles) * Tile::channels;
  const int64_t pixel = p.first_pixel + static_cast<int64_t>(rest % p.pixel_tiles) * Tile::pixels;
  const auto group = static_cast<int32_t>(rest / p.pixel_tiles);

  T sums[Tile::thread_pixels][Tile::thread_channels] = {};
  {
    typename L::A activations(p, pixel, group, shared + L::table_at);
    const Weights<T, Tile> weights(p, channel, group);
    const F at;
    const auto fetch = [&](T *to) {
      activations.fetch(to);
      weights.fetch(to + F::activations, activations.first(), activations.rows());
    };
    fetch(stages);
    activations.deposit(stages);
    await_copies();
    __syncthreads();
    int now = 0;
    for (bool more = true; more;) {
      activations.next();
      more = !activations.done();
      const int then = F::stage - now;
      if (more) fetch(stages + then);
      multiply<T, Tile>(sums, stages + now + at.pixel, stages + now + F::activations + at.channel);
      if (more) activations.deposit(stages + then);
      await_copies();
      __syncthreads();
      now = then;
    }
  }

  auto *const places = reinterpret_cast<Pixel *>(shared + L::places_at);
  auto *const offsets = reinterpret_cast<int64_t *>(places + Tile::pixels);
  for (int i = threadIdx.x; i < Tile::pixels; i += Tile::threads) {
    places[i] = pixel_at(p, min(pixel + i, p.pixels - 1));
    const Pixel &o = places[i];
    offsets[i] = p.conv.result.at(o.n, 0, o.d, o.h, o.w);
  }
  const auto leave = [&](auto part) {
    if (p.conv.channels_inner)
      stage_part<T, Tile, decltype(part)::value>(stages, sums, true);
    else
      stage_part<T, Tile, decltype(part)::value>(stages, sums, false);
    __syncthreads();
    store_part<T, Tile>(p, stages, places, offsets, decltype(part)::value, pixel, channel, group);
    __syncthreads();
  };
  leave(std::integral_constant<int, 0>{});
  if constexpr (F::parts == 2) leave(std::integral_constant<int, 1>{});
}

// ---------------------------------------------------------------- launch

template <class From, class T, class Tile, Source Kind>
Launcher launcher() {
  using L = Layout<From, T, Tile, Kind>;
  const auto prepare = [] {
    check(cudaFuncSetAttribute(multiply_tiles<From, T, Tile, Kind>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               L::bytes),
          "asking for shared memory");
  };
  const auto launch = [](const Product &given, cudaStream_t stream) {
    Product p = given;
    p.pixel_tiles = static_cast<int32_t>((p.pixels - p.first_pixel + Tile::pixels - 1) / Tile::pixels);
    p.channel_tiles = (p.group_out + Tile::channels - 1) / Tile::channels;
    const auto blocks =
        static_cast<unsigned>(p.pixel_tiles) * static_cast<unsigned>(p.channel_tiles) * static_cast<unsigned>(p.groups);
    multiply_tiles<From, T, Tile, Kind><<<blocks, Tile::threads, L::bytes, stream>>>(p);
    check_launch("cuda-gemm");
  };
  return {prepare, launch};
}

// Every source of a tile; kMatrix only for the types that are unfolded into.
template <class From, class T, class Tile>
Launcher by_source(Source source) {
  switch (source) {
    case Source::kTaps: return launcher<From, T, Tile, Source::kTaps>();
    case Source::kScattered: return launcher<From, T, Tile, Source::kScattered>();
    case Source::kVectors: return launcher<From, T, Tile, Source::kVectors>();
    default:
      if constexpr (std::is_same_v<From, T> &&
                    (std::is_same_v<Tile, Tile64x64x16> || std::is_same_v<Tile, Tile128x64x16>))
        return launcher<From, T, Tile, Source::kMatrix>();
      return {};
  }
}

} // namespace polyconv::cuda::gemm
