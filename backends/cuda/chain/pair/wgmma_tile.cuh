// wgmma_tile.cuh - the tiles of wgmma.cuh: where a block has what, how warps go round its rings, and which
// results a tile has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/pipeline.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/hopper.cuh"
#include "mobile/mobile.cuh"
#include "pair/wgmma.hpp"

namespace polyconv::cuda::piped {

using mobile::Bounds;

// Where a block has what. Inputs are full when their bytes are there, and empty when kBands warps have filtered them;
// products are full when their weights are there and kBands warps have filtered, and empty when they are multiplied.
// The residual of one tile is there at a time.
template <class T_, int which>
struct Tile {
  using T = T_;
  static constexpr Shape shape = kShapes[which];

  uint32_t products, inputs, residual, bias, barriers;

  __device__ Tile(const Pair &p, unsigned char *unaligned) {
    products = (ptx::shared_address(unaligned) + 1023) / 1024 * 1024; // swizzled memory begins at 1024 bytes
    inputs = products + p.products * shape.product_bytes();
    residual = inputs + p.inputs * shape.input_bytes();
    barriers = residual + (p.m.vectors_residual ? shape.residual_bytes() : 0);
    bias = barriers + kBarrierBytes;
  }
  __device__ uint32_t input(const RingPlace &t) const { return inputs + t.stage * shape.input_bytes(); }
  __device__ uint32_t filtered(const RingPlace &t) const { return products + t.stage * shape.product_bytes(); }
  __device__ uint32_t weights(const RingPlace &t) const { return filtered(t) + shape.filtered_bytes(); }
  __device__ uint32_t barrier(int kind, int stage) const { return barriers + 8 * (kind * kMostStages + stage); }
  __device__ uint32_t input_full(const RingPlace &t) const { return barrier(0, t.stage); }
  __device__ uint32_t input_empty(const RingPlace &t) const { return barrier(1, t.stage); }
  __device__ uint32_t product_full(const RingPlace &t) const { return barrier(2, t.stage); }
  __device__ uint32_t product_empty(const RingPlace &t) const { return barrier(3, t.stage); }
  __device__ uint32_t residual_full() const { return barrier(4, 0); }
  __device__ uint32_t residual_empty() const { return barrier(4, 1); }
  __device__ uint32_t result_bias(const Pair &p) const { return bias + p.chunks * shape.chunk() * 4; }

  __device__ void init(const Pair &p) const {
    for (int s = 0; s < kMostStages; ++s) {
      ptx::barrier_init(barrier(0, s), 1);
      ptx::barrier_init(barrier(1, s), kBands);
      ptx::barrier_init(barrier(2, s), kBands + 1);
      ptx::barrier_init(barrier(3, s), 4 * shape.groups * p.cluster);
    }
    ptx::barrier_init(residual_full(), 1);
    ptx::barrier_init(residual_empty(), 4 * shape.groups);
    ptx::barrier_init_fence();
  }
};

// The first result of a tile, counted over all blocks; beyond the last it is of no image.
struct Corner {
  int image, y, x;

  __device__ Corner(const Mobile &m, int size, int tile) {
    const int row = tile / m.tiles[1], which = row / m.tiles[0];
    x = (tile - row * m.tiles[1]) * size, y = (row - which * m.tiles[0]) * size, image = which;
  }
};

// Tiles of a block. Those of a cluster have equally many, of which some may be of no image.
__device__ inline int rounds_of(const Pair &p) {
  const auto block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  return (p.tiles - 1 - block / p.cluster * p.cluster) / blocks + 1;
}

template <class Tile>
using Sums = float[Tile::shape.parts][Tile::shape.columns / 2];

} // namespace polyconv::cuda::piped
