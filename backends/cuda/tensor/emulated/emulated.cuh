// emulated.cuh - the Hopper product (wgmma/product.cuh) of f32 factors as three bf16 each. Weights lie in memory
// as parts; activations arrive as they are, and each warpgroup splits its pixels of a stage into parts in registers,
// from where the products take them. Of the nine products of parts the six of at least 2^-16 of the first are summed.
//
// The matrix units cut off what they add below the last bits of the largest term. So the sums of a stage, 32 channels
// deep, begin at zero with the products of lesser parts, the two instructions of first parts come last, and what is
// summed is added in registers to sums that round to nearest.
//
// While the products of one warpgroup run, another adds its sums and splits its next activations; nothing makes them
// take turns, but they do.
//
// An infinite factor has NaN in its second part. A warp whose sums are not finite keeps them to itself, and its block
// goes over its tiles once more when it is through: with all parts, then with first parts alone, in which Inf and NaN
// are. Sums of those that are not finite are what f32 products would have left.
//
// Floor: 6 x 2 N K P Q C R S at the rate of the tensor cores. A tile of 128 x 128 fetches 40 KiB for 1536 clocks of
// products; 128 x 32 activations take about 120 instructions of a thread to split.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "emulated/parts.cuh"
#include "wgmma/product.cuh"

namespace polyconv::cuda::wgmma {

inline constexpr int kPartRow = 64; // bytes of a channel's part of a block of depth

template <int Pixels, int Channels, int Groups, int Teams, int Blocks>
using SplitTileOf = TileOf<float, Pixels, Channels, Groups, Teams, Blocks, false, 128, kParts * kPartRow>;

// Whether all of a block's sums were finite: known when every warp has told.
template <class Tile>
class Verdict {
 public:
  __device__ explicit Verdict(uint32_t barrier) : barrier_(barrier) {}
  __device__ void init() const {
    ptx::barrier_init(barrier_, 4 * Tile::groups);
    ptx::store_word(barrier_ + 8, 0);
  }
  __device__ void tell(bool finite) const {
    if (threadIdx.x % 32 != 0) return;
    if (!finite) ptx::store_word(barrier_ + 8, 1);
    ptx::barrier_arrive(barrier_);
  }
  __device__ bool finite() const {
    ptx::barrier_wait(barrier_, 0);
    return ptx::load_word(barrier_ + 8) == 0;
  }

 private:
  uint32_t barrier_;
};

// ---------------------------------------------------------------- products

// A thread's activations of a stage: of rows t / 4 and 8 on of its warp's pixels the 8 neighbouring channels
// 8 (t % 4) to 8 (t % 4) + 7. The first 4 of each thread are one instruction's 16 of depth, the others the next one's;
// packed weights are in that order too (emulated.cu). Eight threads that read at once find all banks.
struct Factors {
  uint32_t part[2][kParts][4];

  // `pixels`: of the warpgroup in a stage.
  template <bool All>
  __device__ void load(uint32_t pixels) {
    const uint32_t row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    const uint32_t from = pixels + row * 128 + (threadIdx.x % 4 * 2 ^ row % 8) * 16; // swizzled
#pragma unroll
    for (int k = 0; k < 2; ++k)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float4 x = ptx::load_vector((from ^ k * 16) + half * 8 * 128);
#pragma unroll
        for (int i = 0; i < (All ? kParts : 1); ++i) {
          part[k][i][half] = tensor::take_part(x.x, x.y, i == 0);
          part[k][i][2 + half] = tensor::take_part(x.z, x.w, i == 0);
        }
      }
  }
};

// The sums of a thread: for each 64 pixels of its warpgroup.
template <class Tile>
using TileSums = float[Tile::rows][Tile::channels / 2];

// Starts the products of a stage.
template <class Tile, bool All>
__device__ inline void multiply_parts(TileSums<Tile> &sums, const Factors (&x)[Tile::rows], uint32_t weights) {
  constexpr int kStep = 32 >> 4, kPart = Tile::channels * kPartRow >> 4; // of a descriptor
  const uint64_t w = ptx::narrow_descriptor(weights);
  const auto add = [&](int row, int k, int of_x, int of_w, bool accumulate) {
    ptx::multiply_held<__nv_bfloat16, Tile::channels>(sums[row], x[row].part[k][of_x], w + k * kStep + of_w * kPart,
                                                      accumulate);
  };
  ptx::products_fence();
#pragma unroll
  for (int row = 0; row < Tile::rows; ++row) {
    if constexpr (All) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        add(row, k, 1, 1, k > 0);
        add(row, k, 0, 2, true), add(row, k, 2, 0, true);
        add(row, k, 0, 1, true), add(row, k, 1, 0, true);
      }
    }
    add(row, 0, 0, 0, All), add(row, 1, 0, 0, true);
  }
  ptx::products_commit();
}

template <class Tile, bool All>
__device__ inline void sum_parts(TileSums<Tile> &sums, const Turn<Tile> &turn, Ring<Tile> &ring, int member) {
#pragma unroll
  for (auto &row : sums)
#pragma unroll
    for (float &sum : row) sum = 0;
#pragma unroll 1
  for (int32_t block = turn.first; block < turn.last; ++block) {
    ring.await_full();
    Factors x[Tile::rows];
#pragma unroll
    for (int row = 0; row < Tile::rows; ++row)
      x[row].template load<All>(ring.activations() + (member * Tile::rows + row) * 64 * 128);
    TileSums<Tile> part;
    multiply_parts<Tile, All>(part, x, ring.weights());
    ring.next();
    ptx::products_wait<0>();
    ring.release_before();
#pragma unroll
    for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
      for (int i = 0; i < Tile::channels / 2; ++i) sums[row][i] += part[row][i];
  }
}

// Whether all sums of a warp are finite.
template <int Rows, int Count>
__device__ inline bool all_finite(const float (&sums)[Rows][Count]) {
  bool finite = true;
#pragma unroll
  for (const auto &row : sums)
#pragma unroll
    for (const float &sum : row) finite = finite && fabsf(sum) < INFINITY;
  return __all_sync(~0u, finite);
}

// A tile of the second time: sums of all parts become those of first parts where those are not finite.
template <class Tile>
__device__ inline void sum_not_finite(TileSums<Tile> &sums, const Turn<Tile> &turn, Ring<Tile> &ring, int member,
                                      uint32_t boxes) {
  static_assert(Tile::boxes * Tile::box == Tile::rows * Tile::channels, "a warp's sums lie in its boxes meanwhile");
  constexpr int kRow = Tile::channels / 2 * 128;
  const uint32_t mine = boxes + threadIdx.x / 32 * Tile::boxes * Tile::box_bytes + threadIdx.x % 32 * 4;
#pragma unroll
  for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
    for (int i = 0; i < Tile::channels / 2; ++i)
      ptx::store_word(mine + row * kRow + i * 128, __float_as_uint(sums[row][i]));
  sum_parts<Tile, false>(sums, turn, ring, member);
#pragma unroll
  for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
    for (int i = 0; i < Tile::channels / 2; ++i) {
      const uint32_t of_all_parts = ptx::load_word(mine + row * kRow + i * 128);
      if (fabsf(sums[row][i]) < INFINITY) sums[row][i] = __uint_as_float(of_all_parts);
    }
  __syncwarp();
}

// ---------------------------------------------------------------- the kernel

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) multiply_split_tiles(const __grid_constant__ Product p) {
  extern __shared__ unsigned char unaligned[];
  const uint32_t shared = (ptx::shared_address(unaligned) + 1023) / 1024 * 1024; // swizzled memory begins at 1024 bytes
  const uint32_t behind = shared + Tile::leave_bytes + Tile::stages * Tile::stage_bytes + 8 * (2 * Tile::stages + 1);
  const auto group = static_cast<int>(threadIdx.x / 128);
  Ring<Tile> ring(shared + Tile::leave_bytes);
  const Verdict<Tile> verdict(behind);
  if (threadIdx.x == 0) verdict.init(), ring.init();
  if (threadIdx.x == 32) ptx::prefetch(&p.activations[0]), ptx::prefetch(&p.weights), ptx::prefetch(&p.results);
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it

  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const int32_t turns = Turn<Tile>::count(p);
  if (group == Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    if (!fetches()) return;
    for (int32_t i = begin; i < turns; i += step) fetch<Tile>(p, Turn<Tile>(p, i), ring, false);
    if (verdict.finite()) return;
    for (int32_t i = begin; i < turns; i += step)
      for (int twice = 0; twice < 2; ++twice) fetch<Tile>(p, Turn<Tile>(p, i), ring, false);
  } else {
    ptx::take_registers<Tile::consumer_registers>();
    TileSums<Tile> sums;
    Outlet<Tile> outlet(shared);
    bool finite = true;
    for (int32_t i = begin; i < turns; i += step) {
      const Turn<Tile> turn(p, i);
      sum_parts<Tile, true>(sums, turn, ring, group);
      if (all_finite(sums))
        leave<Tile>(p, sums, turn, group, outlet);
      else
        finite = false;
    }
    outlet.close();
    verdict.tell(finite);
    if (verdict.finite()) return;
    for (int32_t i = begin; i < turns; i += step) {
      const Turn<Tile> turn(p, i);
      sum_parts<Tile, true>(sums, turn, ring, group);
      const bool left = all_finite(sums);
      outlet.close();
      __syncwarp();
      sum_not_finite<Tile>(sums, turn, ring, group, shared);
      if (!left) leave<Tile>(p, sums, turn, group, outlet);
    }
    outlet.close();
  }
}

template <class Tile>
Launcher split_launcher() {
  static_assert(8 * (2 * Tile::stages + 3) <= 256, "not a tile of parts");
  return launcher<Tile, multiply_split_tiles<Tile> >();
}

} // namespace polyconv::cuda::wgmma
