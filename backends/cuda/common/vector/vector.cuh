// vector.cuh - what products of few rows (vector.hpp) have in common on the device: where a block's tile lies, how sums
// of the warps that share its depth are added and leave, and the packing of weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/ptx/grid.cuh"
#include "common/rows.hpp"
#include "common/vector/vector.hpp"

namespace polyconv::cuda {

// The tile of a block. Blocks of the same filters come one after the other.
struct VectorTile {
  int32_t row, filter, group, tile; // the first row; the first filter in its group; `tile`: of packed weights, all told
  Place<int32_t> place;             // of the outputs that have columns of their own

  __device__ VectorTile(const VectorProduct &p, int32_t filters, int32_t rows) : place{0, 0, 0, 0, 0} {
    const VectorLayer &v = p.layer;
    const auto block = static_cast<int32_t>(blockIdx.x);
    int32_t rest = block / p.row_tiles;
    row = (block - rest * p.row_tiles) * rows;
    const int32_t groups = rest / p.filter_tiles;
    filter = (rest - groups * p.filter_tiles) * filters;
    group = groups % v.groups;
    int32_t tap = 0;
    if (v.places > 1 || v.taps > 1) {
      place = p.conv.output.pixel_of(groups / v.groups);
      tap = tap_of(p, 0, place.d);
      tap = tap * p.conv.weights.size[3] + tap_of(p, 1, place.h);
      tap = tap * p.conv.weights.size[4] + tap_of(p, 2, place.w);
    }
    tile = (tap * v.groups + group) * v.tiles() + filter / kVectorFilters;
  }

 private:
  __device__ static int32_t tap_of(const VectorProduct &p, int axis, int32_t o) {
    return (p.conv.pad[axis] - o * p.conv.stride[axis]) / p.conv.dilation[axis];
  }
};

// The output of a row, channel 0; the tile's where rows are images.
__device__ inline Place<int32_t> place_of_row(const VectorProduct &p, const Place<int32_t> &of_tile, int32_t row) {
  if (p.layer.image_rows > 1) return p.conv.output.pixel_of(row);
  Place<int32_t> at = of_tile;
  at.n = row;
  return at;
}

// Elements from x to a row's depth; rows beyond the last are the last: what becomes of them is not stored.
__device__ inline int32_t row_begin(const VectorProduct &p, const VectorTile &tile, int32_t row) {
  const View<int32_t> &x = p.conv.input;
  row = min(row, p.layer.rows - 1);
  const int32_t group = tile.group * p.layer.group_step;
  if (p.layer.image_rows == 1) return group + row * x.stride[0];
  const Place<int32_t> o = p.conv.output.pixel_of(row);
  return group + o.n * x.stride[0] + o.d * p.conv.stride[0] * x.stride[2] + o.h * p.conv.stride[1] * x.stride[3] +
         o.w * p.conv.stride[2] * x.stride[4];
}

// A warp's share of the depth, in chunks.
struct VectorShare {
  int32_t first, last;

  __device__ explicit VectorShare(const VectorLayer &v) {
    const int32_t warp = static_cast<int32_t>(threadIdx.x) / 32, chunks = v.chunks(), warps = v.warps();
    first = chunks * warp / warps, last = chunks * (warp + 1) / warps;
  }
};

// Sums of a tile by the warps that share its depth, in shared memory.
template <int Filters, int Rows>
struct VectorSums {
  static constexpr int pitch = Filters + 4; // lanes of an instruction's sums, two rows apart, lie in all banks

  float at[kMostVectorWarps][Rows][pitch];

  // Adds them in the order of the depth, and is the epilogue of a product.
  __device__ void leave(const VectorProduct &p, const VectorTile &tile, int32_t first_row) const {
    const int32_t warps = p.layer.warps();
#pragma unroll 1
    for (int32_t i = static_cast<int32_t>(threadIdx.x); i < Filters * Rows; i += static_cast<int32_t>(blockDim.x)) {
      const int32_t row = i / Filters, filter = i % Filters;
      if (first_row + row >= p.layer.rows || tile.filter + filter >= p.layer.group_filters) continue;
      float sum = at[0][row][filter];
      for (int32_t warp = 1; warp < warps; ++warp) sum += at[warp][row][filter];
      Place<int32_t> to = place_of_row(p, tile.place, first_row + row);
      to.c = tile.group * p.layer.group_filters + tile.filter + filter;
      finish_and_store(p.conv, p.result, sum, to, p.activations);
    }
  }
};

// ---------------------------------------------------------------- packing

// Layout: filter(i) and depth(i) of element i of a block of 16 filters x 32 of depth.
template <class Layout, class T>
__global__ void __launch_bounds__(256) pack_vector(const VectorLayer v, const DepthAxes taps, int64_t filter_stride,
                                                   const T *raw, T *packed, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * 256;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x; i < count; i += step) {
    const auto within = static_cast<int32_t>(i % kVectorBlock);
    const int64_t block = i / kVectorBlock, tiles = block / v.chunks(), groups = tiles / v.tiles();
    const int64_t tap = groups / v.groups, group = groups - tap * v.groups;
    const int64_t filter = (tiles - groups * v.tiles()) * kVectorFilters + Layout::filter(within);
    const auto depth = static_cast<int32_t>((block - tiles * v.chunks()) * kVectorDepth + Layout::depth(within));
    packed[i] = T(0);
    if (filter < v.group_filters && depth < v.depth)
      packed[i] = raw[(group * v.group_filters + filter) * filter_stride + v.axes.offset(depth) +
                      taps.offset(static_cast<int32_t>(tap))];
  }
}

template <class Layout, class T>
void launch_pack_vector(const polyconv_layer &l, const VectorLayer &v, const void *raw, void *packed,
                        cudaStream_t stream) {
  DepthAxes taps;
  for (int axis = 0; axis < 3; ++axis)
    taps.size[axis] = small(l.weights.size[4 - axis]), taps.stride[axis] = l.weights.stride[4 - axis];
  const int64_t count = v.packed_elements();
  pack_vector<Layout, T><<<blocks_for(count, 256), 256, 0, stream>>>(
      v, taps, l.weights.stride[0], static_cast<const T *>(raw) + l.weights.offset, static_cast<T *>(packed), count);
  check_launch("the packing of weights for a product of few rows");
}

} // namespace polyconv::cuda
