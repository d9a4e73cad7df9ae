// gradient.cuh - the tiled matrix product of the gradient of weights: product.cuh's, with pixels as its depth and both
// factors gathered. Included by one file a type.
//
// Floor: 2 N K P Q C R S at the FMA rate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/ptx/grid.cuh"
#include "gradient/leave.cuh"
#include "gradient/sources.cuh"
#include "product/product.cuh"

namespace polyconv::cuda::gemm {

template <class From, class T, class Tile, Reach Kind>
struct GradientLayout {
  static constexpr int x_row = Tile::pixels + 4, y_row = Tile::channels + 4; // turned rows spread over the banks
  using X = FactorSource<From, T, Tile::pixels, x_row, Tile::threads, Kind>;
  using Y = FactorSource<From, T, Tile::channels, y_row, Tile::threads, Kind>;
  static constexpr int y_at = Tile::depth * x_row, stage = y_at + Tile::depth * y_row; // elements
  static constexpr int places_at = Tile::stages * stage * sizeof(T);
  static constexpr int x_table_at = places_at + 2 * sizeof(Places), y_table_at = x_table_at + X::table_bytes;
  static constexpr int bytes = y_table_at + Y::table_bytes;
  static_assert(Tile::depth == kGradientDepth, "blocks of depth are those of the tables");
};

// Both factors on their way into the stages of shared memory.
template <class From, class T, class Tile, Reach Kind>
class Fetches {
  using L = GradientLayout<From, T, Tile, Kind>;
  using X = typename L::X;
  using Y = typename L::Y;
  static constexpr int kLag = X::held ? 2 : 0; // rows between a load and its deposit

 public:
  __device__ Fetches(const Gradient &g, const GradientPlace &at, int32_t last, unsigned char *shared)
      : g_(g),
        places_(reinterpret_cast<Places *>(shared + L::places_at)),
        last_(last),
        x_(g.x, at.group, at.column, places_, shared + L::x_table_at),
        y_(g.y, at.group, at.filter, places_ + 1, shared + L::y_table_at) {}
  // The first threads describe a block of pixels for either factor; behind the last there are none.
  __device__ void describe(int32_t block) const {
    const int which = static_cast<int>(threadIdx.x) / kGradientDepth;
    if (which < 2)
      places_[which].describe(g_, which == 0 ? g_.x : g_.y, block, block < last_,
                              static_cast<int>(threadIdx.x) % kGradientDepth);
  }
  __device__ void begin(int32_t block) { x_.begin(block), y_.begin(block); }
  __device__ void fetch_all(T *to) {
#pragma unroll
    for (int i = 0; i < X::parts; ++i) x_.fetch(to, i);
#pragma unroll
    for (int i = 0; i < Y::parts; ++i) y_.fetch(to + L::y_at, i);
#pragma unroll
    for (int i = 0; i < X::parts; ++i) x_.deposit(to, i);
#pragma unroll
    for (int i = 0; i < Y::parts; ++i) y_.deposit(to + L::y_at, i);
  }
  // What is due at row k of the block that is being multiplied.
  __device__ void fetch_at(T *to, int k) {
    parts_at<X::parts>(k, Tile::depth - kLag, [&](int i) { x_.fetch(to, i); });
    parts_at<Y::parts>(k, Tile::depth - kLag, [&](int i) { y_.fetch(to + L::y_at, i); });
    if (!X::held) return;
    parts_at<X::parts>(k - kLag, Tile::depth - kLag, [&](int i) { x_.deposit(to, i); });
    parts_at<Y::parts>(k - kLag, Tile::depth - kLag, [&](int i) { y_.deposit(to + L::y_at, i); });
  }

 private:
  const Gradient &g_;
  Places *const places_;
  const int32_t last_;
  X x_;
  Y y_;
};

// Blocks [first, last) of a tile's depth.
template <class From, class T, class Tile, Reach Kind>
__device__ inline void sum_pixels(Sums<T, Tile> &sums, const Gradient &g, int32_t tile, int32_t first, int32_t last,
                                  unsigned char *shared) {
  using L = GradientLayout<From, T, Tile, Kind>;
  T *const stages = reinterpret_cast<T *>(shared);
  Fetches<From, T, Tile, Kind> fetches(g, GradientPlace(g, tile, Tile::pixels, Tile::channels), last, shared);
  fetches.describe(first), fetches.describe(first + 1);
  __syncthreads();
#pragma unroll 1
  for (int s = 0; s < Tile::stages - 1; ++s) {
    fetches.begin(first + s);
    fetches.fetch_all(stages + s * L::stage);
    commit_copies();
    if (s + 2 == Tile::stages) break;
    __syncthreads();
    fetches.describe(first + s + 2);
  }
  await_groups<Tile::stages - 2>();
  __syncthreads();

  const Frame<T, Tile> at;
  const T *const a = stages + at.pixel, *const b = stages + L::y_at + at.channel;
  int now = 0, then = (Tile::stages - 1) * L::stage; // stages that are multiplied and fetched
  Operands<T, Tile> operands[2];
  operands[0].template load<L::y_row>(a, b, 0);
#pragma unroll 1
  for (int32_t block = first; block < last; ++block) {
    fetches.begin(block + Tile::stages - 1);
    fetches.describe(block + Tile::stages);
    T *const to = stages + then;
    then = now;
    const int next = now + L::stage == Tile::stages * L::stage ? 0 : now + L::stage;
#pragma unroll
    for (int k = 0; k < Tile::depth; ++k) {
      if (k + 1 < Tile::depth) {
        operands[(k + 1) % 2].template load<L::y_row>(a + now, b + now, k + 1);
        fetches.fetch_at(to, k);
      } else {
        fetches.fetch_at(to, k);
        commit_copies();
        await_groups<Tile::stages - 2>();
        __syncthreads();
        operands[0].template load<L::y_row>(a + next, b + next, 0); // after the last block: not used
      }
      operands[k % 2].multiply(sums);
    }
    now = next;
  }
  await_copies();
  __syncthreads();
}

// ---------------------------------------------------------------- pieces

// Quad i of a piece: the block's threads in turn, each four filters of a column.
template <class Tile>
struct GatheredTile {
  using F = Frame<float, Tile>;
  static constexpr int columns = Tile::pixels, filters = Tile::channels;
  static constexpr bool taps_inside = false;

  __device__ static int column_at(int i, int) {
    const int pixel = i / Tile::threads / F::channel_vectors;
    return F(i % Tile::threads).pixel + pixel / 4 * 32 + pixel % 4;
  }
  __device__ static int filter_at(int i, int e) {
    return F(i % Tile::threads).channel + i / Tile::threads % F::channel_vectors * 16 + e;
  }
};

// Blocks that share a multiprocessor: as kGradientShapes says.
template <class Tile>
inline constexpr int kGradientBlocks = Tile::threads == 256         ? 1
                                       : Tile::thread_channels == 8 ? 2
                                                                    : 3;

template <class From, class Tile, Reach Kind>
__global__ void __launch_bounds__(Tile::threads, kGradientBlocks<Tile>)
    multiply_pixels(const __grid_constant__ Gradient g) {
  ptx::await_previous();
  using F = Frame<float, Tile>;
  extern __shared__ __align__(16) unsigned char shared[];
  for_pieces(g.shares, static_cast<int>(blockIdx.x), [&](int32_t tile, int32_t first, int32_t last, int64_t piece) {
    Sums<float, Tile> sums = {};
    sum_pixels<From, float, Tile, Kind>(sums, g, tile, first, last, shared);
    auto *to = reinterpret_cast<float4 *>(g.pieces) + piece * (Tile::pixels * Tile::channels / 4) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < Tile::thread_pixels; ++i)
#pragma unroll
      for (int j = 0; j < F::channel_vectors * 4; j += 4, to += Tile::threads)
        *to = make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
  });
}

// ---------------------------------------------------------------- launch

template <class From, class Tile, Reach Kind>
GradientLauncher gradient_launcher() {
  using L = GradientLayout<From, float, Tile, Kind>;
  const auto prepare = [] { allow_shared(multiply_pixels<From, Tile, Kind>, L::bytes); };
  const auto launch = [](const Gradient &g, cudaStream_t stream) {
    launch_waiting(multiply_pixels<From, Tile, Kind>, static_cast<unsigned>(g.shares.workers), Tile::threads, L::bytes,
                   stream, g);
    launch_add_pieces(g.shares, g.pieces, Tile::pixels * Tile::channels / 4, GradientLeave<GatheredTile<Tile>>{g},
                      stream);
  };
  return {prepare, launch, L::bytes};
}

template <class From, class Tile>
GradientLauncher by_reach(Reach reach) {
  if constexpr (std::is_same_v<From, float>) {
    if (reach == Reach::kVectors) return gradient_launcher<From, Tile, Reach::kVectors>();
  }
  return gradient_launcher<From, Tile, Reach::kColumns>();
}
template <class From>
GradientLauncher gradient_of(int tile, Reach reach) {
  if (reach == Reach::kPixels) return gradient_launcher<From, GradientTile64x64, Reach::kPixels>();
  if constexpr (std::is_same_v<From, float>) {
    if (tile == kGradient128x128) return by_reach<From, GradientTile128x128>(reach);
    if (tile == kGradient128x64) return by_reach<From, GradientTile128x64>(reach);
  }
  return by_reach<From, GradientTile64x64>(reach);
}

} // namespace polyconv::cuda::gemm

#undef POLYCONV_INSTANCE // the product's
#define POLYCONV_INSTANCE(From) template gemm::GradientLauncher gemm::gradient_of<From>(int, gemm::Reach);
