// product.cuh - the tiled matrix product: a block computes a tile of pixels x channels, a thread a part of it in
// registers, over blocks of k that go round in the stages of shared memory: while one is multiplied, a later one is
// fetched, a part after each row of products, so that neither waits for the other. Included by one file a type, which
// makes the kernels of its tiles.
//
// Floor: 2 N K P Q C R S at the FMA rate. A multiprocessor's scheduler issues one instruction a clock, FMA or not: a
// thread of 16 x 8 sums loads its 24 operands of a row in 6 loads of 16 bytes for 128 FMAs, and fetches with about 50
// instructions for 2048.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/ptx/grid.cuh"
#include "product/sources.cuh"
#include "product/sums.cuh"

namespace polyconv::cuda::gemm {

// The packed weights of a block of k, 16 bytes a copy.
template <class T, class Tile>
class Weights {
  static constexpr int vector = 16 / sizeof(T), lanes = Tile::channels / vector;
  static constexpr int step = Tile::threads / lanes;

 public:
  static constexpr int parts = Tile::depth / step;
  static_assert(step >= 1 && parts * step == Tile::depth, "threads have whole rows");

  __device__ Weights(const Product &p, int32_t channel, int32_t group)
      : row_(p.weights_row), inside_(channel + column() < p.weights_row) {
    const auto *weights = static_cast<const T *>(p.weights) + static_cast<int64_t>(group) * p.depth * row_;
    from_ = inside_ ? weights + static_cast<int64_t>(line()) * row_ + channel + column() : weights;
  }
  // Part i of the block whose first row is `first`.
  __device__ void fetch(T *to, int i, int32_t first, int32_t rows) const {
    const int k = line() + i * step;
    const bool inside = inside_ && k < rows;
    copy_async<16>(to + k * Tile::channels + column(),
                   inside ? from_ + static_cast<int64_t>(first + i * step) * row_ : from_, inside);
  }

 private:
  __device__ static int column() { return static_cast<int>(threadIdx.x) % lanes * vector; }
  __device__ static int line() { return static_cast<int>(threadIdx.x) / lanes; }

  const T *from_;
  int32_t row_;
  bool inside_;
};

// The operands of a thread in one row of k.
template <class T, class Tile>
struct Operands {
  using F = Frame<T, Tile>;
  Vector<T> a[F::pixel_vectors], b[F::channel_vectors];

  template <int Row = Tile::channels> // of weights
  __device__ void load(const T *activations, const T *weights, int k) {
#pragma unroll
    for (int v = 0; v < F::pixel_vectors; ++v)
      a[v] = *reinterpret_cast<const Vector<T> *>(activations + k * F::row + v * 8 * F::vector);
#pragma unroll
    for (int v = 0; v < F::channel_vectors; ++v)
      b[v] = *reinterpret_cast<const Vector<T> *>(weights + k * Row + v * 4 * F::vector);
  }
  // There and back along the channels, so that every product has an operand in common with the one before: registers
  // of the same bank are read one a clock, and three for an FMA would be too many.
  __device__ void multiply(Sums<T, Tile> &sums) const {
#pragma unroll
    for (int i = 0; i < Tile::thread_pixels; ++i)
#pragma unroll
      for (int q = 0; q < Tile::thread_channels; ++q) {
        const int j = i % 2 ? Tile::thread_channels - 1 - q : q;
        sums[i][j] = fma(a[i / F::vector].element[i % F::vector], b[j / F::vector].element[j % F::vector], sums[i][j]);
      }
  }
};

// Spreads the parts of a fetch over `rows` rows of a block of k: body(i) for those that are at row k.
template <int Parts, class Body>
__device__ inline void parts_at(int k, int rows, const Body &body) {
#pragma unroll
  for (int i = 0; i < Parts; ++i)
    if (i * rows / Parts == k) body(i);
}

template <class From, class T, class Tile, Source Kind>
__device__ inline void multiply_all(Sums<T, Tile> &sums, const Product &p, int64_t pixel, int32_t channel,
                                    int32_t group, T *stages, void *table) {
  using F = Frame<T, Tile>;
  using A = Activations<From, T, Tile, F::row, Kind>;
  using W = Weights<T, Tile>;
  A activations(p, pixel, group, table);
  const W weights(p, channel, group);
  const int32_t blocks = activations.blocks();
  const auto fetch_weights = [&](T *to, int i) {
    weights.fetch(to + F::activations, i, activations.first(), activations.rows());
  };
#pragma unroll 1
  for (int s = 0; s < Tile::stages - 1; ++s) {
    if (s > 0) __syncthreads(), activations.next();
    activations.begin();
    T *const to = stages + s * F::stage;
#pragma unroll
    for (int i = 0; i < A::parts; ++i) activations.fetch(to, i);
#pragma unroll
    for (int i = 0; i < W::parts; ++i) fetch_weights(to, i);
#pragma unroll
    for (int i = 0; i < A::parts; ++i) activations.deposit(to, i);
    commit_copies();
  }
  await_groups<Tile::stages - 2>();
  __syncthreads();

  const F at;
  const T *const a = stages + at.pixel, *const b = stages + F::activations + at.channel;
  int now = 0, then = (Tile::stages - 1) * F::stage; // stages that are multiplied and fetched
  // Rows between a load and its deposit, and rows whose operands are under way: where tiles are small few warps share a
  // scheduler, and what one waits for no other hides.
  constexpr int kRows = Tile::depth, kLag = !A::held ? 0 : Tile::pixels <= 64 ? 10 : 2;
  constexpr int kAhead = Tile::pixels < 64 ? 3 : 1, kRing = kAhead + 1;
  static_assert(kRows % kRing == 0, "the last row of a block is not where the next block's first ones go");
  Operands<T, Tile> operands[kRing];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) operands[k].load(a, b, k);
#pragma unroll 1
  for (int32_t left = blocks; left > 0; --left) {
    activations.next();
    activations.begin();
    T *const to = stages + then;
    then = now;
    const int next = now + F::stage == Tile::stages * F::stage ? 0 : now + F::stage;
    const auto fetch_at = [&](int k) {
      parts_at<A::parts>(k, kRows - kLag, [&](int i) { activations.fetch(to, i); });
      parts_at<W::parts>(k, kRows, [&](int i) { fetch_weights(to, i); });
      if (A::held) parts_at<A::parts>(k - kLag, kRows - kLag, [&](int i) { activations.deposit(to, i); });
    };
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (k + kAhead < kRows) operands[(k + kAhead) % kRing].load(a + now, b + now, k + kAhead);
      fetch_at(k);
      if (k + 1 == kRows) {
        commit_copies();
        await_groups<Tile::stages - 2>();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kAhead; ++i) operands[i].load(a + next, b + next, i); // after the last block: not used
      }
      operands[k % kRing].multiply(sums);
    }
    now = next;
  }
  await_copies();
  __syncthreads();
}

template <class From, class T, class Tile, Source Kind>
struct Layout {
  using F = Frame<T, Tile>;
  using A = Activations<From, T, Tile, F::row, Kind>;
  static constexpr int table_at = Tile::stages * F::stage * sizeof(T); // of the source
  static constexpr int table_bytes = [] {
    if constexpr (Kind == Source::kTaps)
      return 0;
    else
      return A::table_bytes;
  }();
  static constexpr int loop_bytes = table_at + table_bytes, end_bytes = sizeof(Leaving<T, Tile>);
  static constexpr int bytes = loop_bytes > end_bytes ? loop_bytes : end_bytes;
};

template <class From, class T, class Tile, Source Kind>
__global__ void __launch_bounds__(Tile::threads, (Frame<T, Tile>::blocks))
    multiply_tiles(const __grid_constant__ Product p) {
  ptx::await_previous();
  using F = Frame<T, Tile>;
  using L = Layout<From, T, Tile, Kind>;
  extern __shared__ __align__(16) unsigned char shared[];
  T *const stages = reinterpret_cast<T *>(shared);
  // Blocks that run together share activations: channels go first.
  const unsigned rest = blockIdx.x / p.channel_tiles;
  const auto channel = static_cast<int32_t>(blockIdx.x % p.channel_tiles) * Tile::channels;
  const int64_t pixel = p.first_pixel + static_cast<int64_t>(rest % p.pixel_tiles) * Tile::pixels;
  const auto group = static_cast<int32_t>(rest / p.pixel_tiles);

  Sums<T, Tile> sums = {};
  multiply_all<From, T, Tile, Kind>(sums, p, pixel, channel, group, stages, shared + L::table_at);
  leave<T, Tile>(p, sums, shared, pixel, channel, group);
}

// ---------------------------------------------------------------- launch

template <class From, class T, class Tile, Source Kind>
Launcher launcher() {
  using L = Layout<From, T, Tile, Kind>;
  const auto prepare = [] { allow_shared(multiply_tiles<From, T, Tile, Kind>, L::bytes); };
  const auto launch = [](const Product &given, cudaStream_t stream) {
    Product p = given;
    p.pixel_tiles = static_cast<int32_t>((p.pixels - p.first_pixel + Tile::pixels - 1) / Tile::pixels);
    p.channel_tiles = (p.group_out + Tile::channels - 1) / Tile::channels;
    const auto blocks =
        static_cast<unsigned>(p.pixel_tiles) * static_cast<unsigned>(p.channel_tiles) * static_cast<unsigned>(p.groups);
    launch_waiting(multiply_tiles<From, T, Tile, Kind>, dim3(blocks, static_cast<unsigned>(p.splits)), Tile::threads,
                   L::bytes, stream, p);
  };
  static_assert(!std::is_same_v<Tile, Tile64x64x16> || L::bytes <= 64 << 10, "what every chip lends a block");
  return {prepare, launch, L::bytes};
}

// Every source of a tile; kMatrix only for the types that are unfolded into, kRows for f32.
template <class From, class T, class Tile>
Launcher by_source(Source source) {
  switch (source) {
    case Source::kTaps: return launcher<From, T, Tile, Source::kTaps>();
    case Source::kScattered: return launcher<From, T, Tile, Source::kScattered>();
    case Source::kVectors: return launcher<From, T, Tile, Source::kVectors>();
    case Source::kRows:
      if constexpr (std::is_same_v<From, float>) return launcher<From, T, Tile, Source::kRows>();
      return {};
    default:
      if constexpr (std::is_same_v<From, T> &&
                    (std::is_same_v<Tile, Tile64x64x16> || std::is_same_v<Tile, Tile128x64x16>))
        return launcher<From, T, Tile, Source::kMatrix>();
      return {};
  }
}

// The tiles of a type (has_tile).
template <class From>
Launcher product_of(int tile, Source source) {
  using T = std::conditional_t<std::is_same_v<From, double>, double, float>;
  if constexpr (std::is_same_v<From, float>) {
    if (tile == k128x256x16) return by_source<From, T, Tile128x256x16>(source);
    if (tile == k256x128x16) return by_source<From, T, Tile256x128x16>(source);
    if (tile == k128x32x16) return by_source<From, T, Tile128x32x16>(source);
    if (tile == k32x32x16) return by_source<From, T, Tile32x32x16>(source);
  }
  if constexpr (std::is_same_v<From, T>) {
    if (tile == k128x64x16) return by_source<From, T, Tile128x64x16>(source);
  }
  return by_source<From, T, Tile64x64x16>(source);
}

} // namespace polyconv::cuda::gemm

#define POLYCONV_INSTANCE(From) template gemm::Launcher gemm::product_of<From>(int, gemm::Source);
