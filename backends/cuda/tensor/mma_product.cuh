// mma_product.cuh - the tiled matrix product by mma.sync: blocks of k go round in the stages of shared memory; while one
// is multiplied, a later one is copied in, and the operands of the next half of a block are loaded while those of this
// one are multiplied. Included by one file a type, which makes the kernels of its tiles.
//
// Floor: 2 N K P Q C R S at the rate of mma.sync; on chips of 9.0 that is about 60 % of what wgmma reaches, on older
// ones and on 12.0 it is all that there is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/check.hpp"
#include "mma_leave.cuh"
#include "mma_sources.cuh"

namespace polyconv::cuda::tensor {

// Calls body(i) for those of Parts that belong to a half of a block.
template <int Parts, class Body>
__device__ inline void parts_of(int half, const Body &body) {
#pragma unroll
  for (int i = 0; i < Parts; ++i)
    if (i * 2 / Parts == half) body(i);
}

template <class From, class T, class Tile, Source Kind>
__device__ inline void multiply_all(MmaSums<Tile> &sums, const MmaProduct &p, unsigned char *stages,
                                    const Corner &corner) {
  using F = Frame<Tile>;
  using A = Activations<From, T, Tile, Kind>;
  using W = Weights<Tile>;
  const Share share(p, p.blocks);
  A activations(p, corner.pixel, corner.group, share.first_block());
  W weights(p, corner.channel, corner.group, share.first_block());
  const auto fetch = [&](unsigned char *to, int half) {
    parts_of<A::parts>(half, [&](int i) { activations.fetch(to, i); });
    parts_of<W::parts>(half, [&](int i) { weights.fetch(to + F::activations, i); });
  };
  const auto deposit = [&](unsigned char *to, int half) {
    parts_of<A::parts>(half, [&](int i) { activations.deposit(to, i); });
  };
#pragma unroll 1
  for (int s = 0; s < Tile::stages - 1; ++s) {
    unsigned char *const to = stages + s * F::stage;
#pragma unroll
    for (int half = 0; half < 2; ++half) fetch(to, half), deposit(to, half);
    activations.next(), weights.next();
    commit_copies();
  }
  await_groups<Tile::stages - 2>();
  __syncthreads();

  const typename Fragments<T, Tile>::At at(static_cast<uint32_t>(__cvta_generic_to_shared(stages)));
  int now = 0, then = (Tile::stages - 1) * F::stage; // stages that are multiplied and fetched
  Fragments<T, Tile> operands[2];
  operands[0].load(at, 0, 0);
#pragma unroll 1
  for (int32_t left = share.blocks(); left > 0; --left) {
    unsigned char *const to = stages + then;
    operands[1].load(at, now, 1);
    fetch(to, 0);
    operands[0].multiply(sums);
    deposit(to, 0);
    fetch(to, 1);
    activations.next(), weights.next();
    commit_copies();
    await_groups<Tile::stages - 2>();
    __syncthreads();
    then = now;
    now = now + F::stage == Tile::stages * F::stage ? 0 : now + F::stage;
    operands[0].load(at, now, 0); // after the last block: not used
    operands[1].multiply(sums);
    deposit(to, 1); // read after the next barrier at the earliest: there are three stages or more
  }
  await_copies();
  __syncthreads();
}

template <class Tile>
struct Layout {
  static_assert(Tile::stages >= 3, "see deposit");
  static constexpr int loop_bytes = Tile::stages * Frame<Tile>::stage, end_bytes = sizeof(Leaving<Tile>);
  static constexpr int bytes = loop_bytes > end_bytes ? loop_bytes : end_bytes;
};

template <class From, class T, class Tile, Source Kind>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) multiply_mma(const __grid_constant__ MmaProduct p) {
  extern __shared__ __align__(128) unsigned char shared[];
  // Blocks that run together share activations: channels go first.
  const unsigned rest = blockIdx.x / p.channel_tiles;
  Corner corner;
  corner.channel = static_cast<int32_t>(blockIdx.x % p.channel_tiles) * Tile::channels;
  corner.pixel = p.first_pixel + static_cast<int64_t>(rest % p.pixel_tiles) * Tile::pixels;
  corner.group = static_cast<int32_t>(rest / p.pixel_tiles);

  MmaSums<Tile> sums = {};
  multiply_all<From, T, Tile, Kind>(sums, p, shared, corner);
  leave<Tile>(p, sums, shared, corner);
}

// ---------------------------------------------------------------- launch

template <class From, class T, class Tile, Source Kind>
MmaLauncher mma_launcher() {
  const auto prepare = [] {
    check(cudaFuncSetAttribute(multiply_mma<From, T, Tile, Kind>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               Layout<Tile>::bytes),
          "asking for shared memory");
  };
  const auto launch = [](const MmaProduct &given, cudaStream_t stream) {
    MmaProduct p = given;
    p.pixel_tiles = static_cast<int32_t>((p.pixels - p.first_pixel + Tile::pixels - 1) / Tile::pixels);
    p.channel_tiles = (p.group_out + Tile::channels - 1) / Tile::channels;
    const auto blocks =
        static_cast<unsigned>(p.pixel_tiles) * static_cast<unsigned>(p.channel_tiles) * static_cast<unsigned>(p.groups);
    multiply_mma<From, T, Tile, Kind>
        <<<dim3(blocks, static_cast<unsigned>(p.splits)), Tile::threads, Layout<Tile>::bytes, stream>>>(p);
    check_launch("cuda-tensor/mma");
  };
  return {prepare, launch};
}

template <class From, class T, class Tile>
MmaLauncher mma_by_source(Source source) {
  return source == Source::kVectors ? mma_launcher<From, T, Tile, Source::kVectors>()
                                    : mma_launcher<From, T, Tile, Source::kGathered>();
}

// Every tile; those that do not gather take vectors alone (gathers()).
template <class From, class T>
MmaLauncher mma_by_tile(int tile, Source source) {
  switch (tile) {
    case k256x128: return mma_launcher<From, T, Mma256x128, Source::kVectors>();
    case k128x128: return mma_launcher<From, T, Mma128x128, Source::kVectors>();
    case k128x128w8: return mma_by_source<From, T, Mma128x128w8>(source);
    case k128x64: return mma_by_source<From, T, Mma128x64>(source);
    default: return mma_by_source<From, T, Mma64x64>(source);
  }
}

} // namespace polyconv::cuda::tensor
