// deep.cuh - the gradient of weights where pixels are neighbours in memory (channels first, f32): both factors
// lie in shared memory as they do outside, pixel beside pixel, so that nothing is turned on the way. A thread reads
// four pixels of a column at once, and multiplies them one after the other.
//
// Floor: 2 N K P Q C R S at the FMA rate. A scheduler issues one instruction a clock: 4 pixels of a thread of 16 x 8
// sums are 512 FMAs, 24 loads from shared memory and, with 256 threads, 4 copies of an element at 4 to 5 instructions:
// where a column lies is one addition, and whether its tap is inside one test of bits that were found once a pixel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/launch.hpp"
#include "common/ptx/cluster.cuh"
#include "common/ptx/grid.cuh"
#include "common/ptx/shared.cuh"
#include "gradient/leave.cuh"
#include "product/product.cuh"

namespace polyconv::cuda::gemm {

// A tile of columns x filters. A warp is 8 threads of columns by 4 of filters; a thread's are 8 and 4 apart. Where a
// tile is small, `Ways` times as many warps share the pixels of each block of depth.
template <int Columns, int Filters, int ThreadColumns, int Blocks, int Stages, int Ways = 1>
struct DeepTile {
  static constexpr int columns = Columns, filters = Filters, blocks = Blocks, stages = Stages, ways = Ways;
  static constexpr bool taps_inside = true; // of neighbouring columns
  static constexpr int thread_columns = ThreadColumns, thread_filters = Filters % 32 == 0 ? 8 : Filters / 4;
  static constexpr int warp_columns = 8 * thread_columns, warp_filters = 4 * thread_filters;
  static constexpr int warps_along = columns / warp_columns;
  static constexpr int way_threads = 32 * warps_along * (filters / warp_filters);
  static constexpr int threads = way_threads * ways, warps = threads / 32, quads = columns * filters / 4;
  static constexpr int fetched_filters = (filters + 31) / 32 * 32; // so that threads fetch alike
  static constexpr int pitch = kDeepDepth + 4;                     // columns side by side spread over the banks
  static constexpr int stage = (columns + fetched_filters) * pitch;

  // The first column and filter of a thread of a way.
  __device__ static int column_of(int thread) { return thread / 32 % warps_along * warp_columns + (thread >> 1 & 7); }
  __device__ static int filter_of(int thread) {
    return thread / 32 / warps_along * warp_filters + ((thread & 1) | (thread >> 4 & 1) << 1);
  }
  // Those of value e of quad i of a piece: a way's threads in turn, each four columns of a filter.
  __device__ static int column_at(int i, int e) {
    return column_of(i % way_threads) + (i / way_threads % (thread_columns / 4) * 4 + e) * 8;
  }
  __device__ static int filter_at(int i, int) {
    return filter_of(i % way_threads) + i / way_threads / (thread_columns / 4) * 4;
  }
};

// Where the window of a pixel begins, and which of its taps are outside (common/places.cuh).
struct alignas(16) Window {
  const float *at;
  uint32_t outside;
};
// A column: its distance from the window's begin, and its tap's bits.
struct alignas(8) Column {
  int32_t distance;
  uint32_t bits;
};

// Of the input, and of the output's gradient, whose window is the pixel.
__device__ inline Window window_at(const Factor &f, const float *data, const Pixel &o) {
  const int32_t first[3] = {o.d * f.step[0] - f.pad[0], o.h * f.step[1] - f.pad[1], o.w * f.step[2] - f.pad[2]};
  int64_t offset = o.n * f.image_stride;
#pragma unroll
  for (int axis = 0; axis < 3; ++axis) offset += int64_t{first[axis]} * f.stride[axis];
  return {data + offset, f.outside(first)};
}
__device__ inline Window place_at(const Factor &f, const float *data, const Pixel &o) {
  return {data + o.n * f.image_stride + int64_t{o.d} * f.stride[0] + int64_t{o.h} * f.stride[1] +
              int64_t{o.w} * f.stride[2],
          kNowhere};
}

__device__ inline Column deep_column(const Factor &f, int32_t column) {
  if (column >= f.columns) return {0, kNowhere};
  const ColumnPlace at(f, column, true);
  return {at.channel * f.channel_stride + at.tap[0] * f.dilation[0] * f.stride[0] +
              at.tap[1] * f.dilation[1] * f.stride[1] + at.tap[2] * f.dilation[2] * f.stride[2],
          f.of(at.tap[0], at.tap[1], at.tap[2])};
}
__device__ inline Column deep_filter(const Factor &f, int32_t filter) {
  return filter < f.columns ? Column{filter * f.channel_stride, 1} : Column{0, kNowhere};
}

__device__ inline const float *group_of(const Factor &f, int32_t group) {
  return static_cast<const float *>(f.data) + int64_t{group} * f.channels * f.channel_stride;
}

// The windows of blocks of pixels, of as many as a tile has warps twice: some are read while the next are described.
template <class Tile>
using Windows = Window[2 * Tile::warps][kDeepDepth];

// A factor on its way into shared memory: the threads of a warp have neighbouring pixels, Run of them each.
template <class Tile, int Width, int Run>
class DeepSource {
  static constexpr int lanes = kDeepDepth / Run, step = Tile::threads / lanes;

 public:
  static constexpr int parts = Width / step;
  static_assert(parts * step == Width && 32 % lanes == 0, "threads have whole columns");

  __device__ DeepSource(const Windows<Tile> *windows, const Column *columns, int32_t block)
      : columns_(columns + line()), window_((*windows)[block & (2 * Tile::warps - 1)][pixel()]) {}
  __device__ void fetch(float *to, int i) const {
    const Column column = columns_[i * step];
    copy_async<4 * Run>(to + (line() + i * step) * Tile::pitch + pixel(), window_.at + column.distance,
                        (window_.outside & column.bits) == 0);
  }

 private:
  __device__ static int pixel() { return static_cast<int>(threadIdx.x) % lanes * Run; }
  __device__ static int line() { return static_cast<int>(threadIdx.x) / lanes; }

  const Column *columns_;
  const Window window_;
};

template <class Tile>
struct DeepShared {
  float stages[Tile::stages][Tile::stage];
  Windows<Tile> x, y;
  Column columns[Tile::columns], filters[Tile::fetched_filters];
};

// Every warp describes a block of pixels of a group of blocks; behind the last block there are none.
template <class Tile>
__device__ inline void describe(const Gradient &g, const GradientPlace &at, DeepShared<Tile> &s, int32_t group,
                                int32_t last) {
  static_assert((Tile::warps & (Tile::warps - 1)) == 0 && Tile::stages <= Tile::warps + 1, "two groups are enough");
  const int32_t lane = static_cast<int>(threadIdx.x) % 32;
  const int32_t block = group * Tile::warps + static_cast<int>(threadIdx.x) / 32, pixel = block * kDeepDepth + lane;
  Window x = {group_of(g.x, at.group), ~0u}, y = {group_of(g.y, at.group), ~0u};
  if (block < last && pixel < g.pixels) {
    const Pixel o = pixel_at(g, pixel);
    x = window_at(g.x, x.at, o), y = place_at(g.y, y.at, o);
  }
  const int32_t slot = block & (2 * Tile::warps - 1);
  s.x[slot][lane] = x, s.y[slot][lane] = y;
}

// Body(integral_constant i) for i below Count: unrolled for certain.
template <int Count, int From = 0, class Body>
__device__ __forceinline__ void unrolled(const Body &body) {
  if constexpr (From < Count) {
    body(std::integral_constant<int, From>{});
    unrolled<Count, From + 1>(body);
  }
}

// Four pixels of a thread's columns and filters. `between(i)` comes after the products of column i.
template <class Tile>
class DeepSums {
 public:
  float sums[Tile::thread_columns][Tile::thread_filters] = {};

  __device__ void load(const float *x, const float *y) {
    x_[0] = four(x);
#pragma unroll
    for (int f = 0; f < Tile::thread_filters; ++f) y_[0][f] = four(y + f * 4 * Tile::pitch);
  }
  // `x` and `y` are where these pixels lie, of the thread's first column and filter; loads the next ones.
  template <int Now, class Between>
  __device__ void multiply(const float *x, const float *y, const Between &between) {
    constexpr int kColumns = Tile::thread_columns, kFilters = Tile::thread_filters;
    unrolled<kColumns>([&](auto column) {
      constexpr int i = decltype(column)::value;
      // Filters with the last columns; of few columns, several with each.
      constexpr int kEach = (kFilters + kColumns - 1) / kColumns, kFirst = i * kEach - (kColumns * kEach - kFilters);
      x_[(i + 1) % 2] = four(i + 1 < kColumns ? x + (i + 1) * 8 * Tile::pitch : x + 4);
#pragma unroll
      for (int j = kFirst; j < kFirst + kEach; ++j)
        if (j >= 0) y_[1 - Now][j] = four(y + j * 4 * Tile::pitch + 4);
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int q = 0; q < Tile::thread_filters; ++q) { // there and back: an operand in common with the product before
          const int f = k % 2 ? Tile::thread_filters - 1 - q : q;
          sums[i][f] = fmaf(element(x_[i % 2], k), element(y_[Now][f], k), sums[i][f]);
        }
      between(column);
    });
  }

 private:
  __device__ static float4 four(const float *from) {
    return *reinterpret_cast<const float4 *>(from);
  }
  __device__ static float element(const float4 &v, int k) {
    return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w;
  }
  float4 x_[2], y_[2][Tile::thread_filters];
};

// A block of pixels on its way into a stage.
template <class Tile, int XRun, int YRun>
__device__ inline void fetch_deep(DeepShared<Tile> &s, int32_t block, int32_t last, float *to) {
  if (block >= last) return;
  using X = DeepSource<Tile, Tile::columns, XRun>;
  using Y = DeepSource<Tile, Tile::fetched_filters, YRun>;
  const X x(&s.x, s.columns, block);
  const Y y(&s.y, s.filters, block);
#pragma unroll 4
  for (int i = 0; i < X::parts; ++i) x.fetch(to, i);
#pragma unroll 4
  for (int i = 0; i < Y::parts; ++i) y.fetch(to + Tile::columns * Tile::pitch, i);
}

// Describes columns, filters and the first groups of blocks of pixels, and starts to fetch these: one is there in the
// end.
template <class Tile, int XRun, int YRun>
__device__ inline void begin_deep(const Gradient &g, const GradientPlace &at, int32_t first, int32_t last,
                                  DeepShared<Tile> &s) {
  for (int i = threadIdx.x; i < Tile::columns; i += Tile::threads) s.columns[i] = deep_column(g.x, at.column + i);
  for (int i = threadIdx.x; i < Tile::fetched_filters; i += Tile::threads)
    s.filters[i] = deep_filter(g.y, at.filter + i);
  describe(g, at, s, first / Tile::warps, last), describe(g, at, s, first / Tile::warps + 1, last);
  __syncthreads();
#pragma unroll 1
  for (int stage = 0; stage < Tile::stages - 1; ++stage) {
    fetch_deep<Tile, XRun, YRun>(s, first + stage, last, s.stages[stage]);
    commit_copies();
  }
  await_groups<Tile::stages - 2>();
  __syncthreads();
}

// Blocks [first, last) of a tile's depth.
template <class Tile, int XRun, int YRun>
__device__ inline void sum_deep(DeepSums<Tile> &sums, const Gradient &g, const GradientPlace &at, int32_t first,
                                int32_t last, DeepShared<Tile> &s) {
  using X = DeepSource<Tile, Tile::columns, XRun>;
  using Y = DeepSource<Tile, Tile::fetched_filters, YRun>;
  constexpr int kSteps = 2, kGroups = kDeepDepth / Tile::ways / 4 / kSteps; // steps of a group
  constexpr int kXParts = X::parts / kGroups, kYParts = Y::parts / kGroups, kSlots = kSteps * Tile::thread_columns;
  static_assert(kXParts * kGroups == X::parts && kYParts * kGroups == Y::parts, "groups fetch alike");
  constexpr int kYAt = Tile::columns * Tile::pitch;
  begin_deep<Tile, XRun, YRun>(g, at, first, last, s);
  const int way = static_cast<int>(threadIdx.x) / Tile::way_threads, thread = threadIdx.x - way * Tile::way_threads;
  const int pixel = way * (kDeepDepth / Tile::ways);
  const int column = Tile::column_of(thread) * Tile::pitch + pixel;
  const int filter = Tile::filter_of(thread) * Tile::pitch + pixel + kYAt;
  int now = 0, then = Tile::stages - 1; // stages that are multiplied and fetched
#pragma unroll 1
  for (int32_t block = first; block < last; ++block) {
    const X x(&s.x, s.columns, block + Tile::stages - 1);
    const Y y(&s.y, s.filters, block + Tile::stages - 1);
    if ((block + Tile::stages) % Tile::warps == 0) describe(g, at, s, (block + Tile::stages) / Tile::warps, last);
    // To fetch nothing takes as long as to fetch, which shallow shares feel; large tiles have no register for a test.
    const bool more = block + Tile::stages - 1 < last;
    const float *a = s.stages[now] + column, *b = s.stages[now] + filter;
    float *const to = s.stages[then];
    sums.load(a, b);
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group, a += 4 * kSteps, b += 4 * kSteps) {
      const auto fetch_at = [&](auto slot) { // not in the last slots, so that nobody waits for what comes last
        constexpr int kSlot = decltype(slot)::value;
        if constexpr (kSlot < kSlots) {
          if (Tile::ways > 1 && !more) return;
          constexpr int kX = kSlot * kXParts / kSlots, kY = kSlot * kYParts / kSlots;
          unrolled<(kSlot + 1) * kXParts / kSlots - kX>(
              [&](auto i) { x.fetch(to, group * kXParts + kX + decltype(i)::value); });
          unrolled<(kSlot + 1) * kYParts / kSlots - kY>(
              [&](auto i) { y.fetch(to + kYAt, group * kYParts + kY + decltype(i)::value); });
        }
      };
      sums.template multiply<0>(a, b, fetch_at);
      sums.template multiply<1>(a + 4, b + 4, [&](auto i) {
        fetch_at(std::integral_constant<int, Tile::thread_columns + decltype(i)::value>{});
      });
    }
    commit_copies();
    await_groups<Tile::stages - 2>();
    __syncthreads();
    then = now;
    now = now + 1 == Tile::stages ? 0 : now + 1;
  }
  await_copies();
  __syncthreads();
}

// ---------------------------------------------------------------- pieces

// Body(i, value) for the quads of a way's thread.
template <class Tile, class Body>
__device__ inline void for_quads(const DeepSums<Tile> &sums, const Body &body) {
  int quad = static_cast<int>(threadIdx.x) % Tile::way_threads;
#pragma unroll
  for (int f = 0; f < Tile::thread_filters; ++f)
#pragma unroll
    for (int i = 0; i < Tile::thread_columns; i += 4, quad += Tile::way_threads)
      body(quad, make_float4(sums.sums[i][f], sums.sums[i + 1][f], sums.sums[i + 2][f], sums.sums[i + 3][f]));
}

__device__ inline void add_to(float4 &sum, const float4 &v) {
  sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
}

// Likewise of a block: what its ways have summed, added in their order. `laid`: where the stages were, of every way all
// quads; thread and quad are the same in every call.
template <class Tile, class Body>
__device__ inline void for_block_quads(const DeepSums<Tile> &sums, float4 *laid, const Body &body) {
  if constexpr (Tile::ways == 1) {
    for_quads(sums, body);
  } else {
    static_assert(sizeof(float4) * Tile::ways * Tile::quads <= sizeof(DeepShared<Tile>::stages), "lies there");
    float4 *const mine = laid + static_cast<int>(threadIdx.x) / Tile::way_threads * Tile::quads;
    for_quads(sums, [&](int quad, const float4 &v) { mine[quad] = v; });
    __syncthreads();
#pragma unroll
    for (int quad = threadIdx.x; quad < Tile::quads; quad += Tile::threads) {
      float4 sum = laid[quad];
#pragma unroll
      for (int way = 1; way < Tile::ways; ++way) add_to(sum, laid[way * Tile::quads + quad]);
      body(quad, sum);
    }
  }
}

template <class Tile, int XRun, int YRun>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) multiply_deep(const __grid_constant__ Gradient g) {
  ptx::await_previous();
  extern __shared__ __align__(16) unsigned char shared[];
  auto &s = *reinterpret_cast<DeepShared<Tile> *>(shared);
  for_pieces(g.shares, static_cast<int>(blockIdx.x), [&](int32_t tile, int32_t first, int32_t last, int64_t piece) {
    DeepSums<Tile> sums;
    sum_deep<Tile, XRun, YRun>(sums, g, GradientPlace(g, tile, Tile::columns, Tile::filters), first, last, s);
    auto *to = reinterpret_cast<float4 *>(g.pieces) + piece * Tile::quads;
    for_block_quads(sums, reinterpret_cast<float4 *>(shared), [&](int quad, const float4 &v) { to[quad] = v; });
    if constexpr (Tile::ways > 1) __syncthreads(); // nobody reads what was laid there any more
  });
}

// The blocks of a cluster share the depth of a tile: each lays its sums into its shared memory, where the stages were;
// then each reads a part of the tile from all of them, adds in the order of depth, and stores it. No pieces, and no
// second launch.
template <class Tile, int XRun, int YRun>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) multiply_shared(const __grid_constant__ Gradient g) {
#if __CUDA_ARCH__ >= 900
  ptx::await_previous();
  extern __shared__ __align__(16) unsigned char shared[];
  auto *const laid = reinterpret_cast<float4 *>(shared);
  const auto worker = static_cast<int32_t>(blockIdx.x);
  const int32_t tile = worker / kSharing, at = tile * g.shares.blocks;
  {
    DeepSums<Tile> sums;
    sum_deep<Tile, XRun, YRun>(sums, g, GradientPlace(g, tile, Tile::columns, Tile::filters),
                               g.shares.begin(worker) - at, g.shares.begin(worker + 1) - at,
                               *reinterpret_cast<DeepShared<Tile> *>(shared));
    for_block_quads(sums, laid, [&](int quad, const float4 &v) { laid[quad] = v; });
  }
  ptx::cluster_arrive_released(), ptx::cluster_wait();
  constexpr int kEach = Tile::quads / kSharing;
  if (threadIdx.x < kEach) {
    const int32_t quad = worker % kSharing * kEach + static_cast<int32_t>(threadIdx.x);
    const uint32_t from = ptx::shared_address(laid + quad);
    float4 v[kSharing], half[2] = {}; // as two ways of add_pieces: chips without clusters have the same bits
#pragma unroll
    for (int32_t block = 0; block < kSharing; ++block)
      v[block] = ptx::load_in_cluster(ptx::address_in_cluster(from, block));
#pragma unroll
    for (int block = 0; block < kSharing; ++block) add_to(half[block / (kSharing / 2)], v[block]);
    add_to(half[0], half[1]);
    GradientLeave<Tile>{g}.store(tile, quad, half[0]);
  }
  ptx::cluster_arrive(), ptx::cluster_wait(); // nobody goes before all have read its sums
#endif
}

// ---------------------------------------------------------------- launch

// The smallest tiles alone: of larger ones a GPU has too few for clusters of all of its multiprocessors.
template <class Tile>
inline constexpr bool kShares = Tile::columns == 32;

template <class Tile, int XRun, int YRun>
GradientLauncher deep_launcher() {
  constexpr int kBytes = sizeof(DeepShared<Tile>);
  const auto prepare = [] {
    allow_shared(multiply_deep<Tile, XRun, YRun>, kBytes);
    if constexpr (kShares<Tile>) allow_shared(multiply_shared<Tile, XRun, YRun>, kBytes);
  };
  const auto launch = [](const Gradient &g, cudaStream_t stream) {
    if constexpr (kShares<Tile>) {
      if (g.sharing > 1)
        return launch_clusters(multiply_shared<Tile, XRun, YRun>, kSharing, static_cast<unsigned>(g.shares.workers),
                               Tile::threads, kBytes, stream, g);
    }
    launch_waiting(multiply_deep<Tile, XRun, YRun>, static_cast<unsigned>(g.shares.workers), Tile::threads, kBytes,
                   stream, g);
    launch_add_pieces(g.shares, g.pieces, Tile::quads, GradientLeave<Tile>{g}, stream);
  };
  return {prepare, launch, kBytes};
}

} // namespace polyconv::cuda::gemm
