// leave.cuh - where tiles and pixels of the gradient of weights lie, and how the sums of its pieces leave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "common/implicit.cuh"
#include "gradient/gradient.hpp"

namespace polyconv::cuda::gemm {

struct GradientPlace {
  int32_t column, filter, group; // the first two: within the group

  __device__ GradientPlace(const Gradient &g, int32_t tile, int columns, int filters) {
    const int32_t rest = tile / g.column_tiles;
    column = (tile - rest * g.column_tiles) * columns;
    filter = rest % g.filter_tiles * filters, group = rest / g.filter_tiles;
  }
};

// The channel and the tap of a column: channels inside taps, or taps inside channels.
struct ColumnPlace {
  int32_t channel, tap[3] = {};

  __device__ ColumnPlace(const Factor &f, int32_t column, bool taps_inside) : channel(column) {
    if (f.columns == f.channels) return; // one tap: divisions would take longer than all else
    const int32_t inner = taps_inside ? f.taps[0] * f.taps[1] * f.taps[2] : f.channels, outer = column / inner;
    const int32_t within = column - outer * inner, number = taps_inside ? within : outer, line = number / f.taps[2];
    channel = taps_inside ? outer : within;
    tap[0] = line / f.taps[1], tap[1] = line % f.taps[1], tap[2] = number - line * f.taps[2];
  }
};

// Pixel i of the batch.
__device__ inline Pixel pixel_at(const Gradient &g, int32_t i) {
  const int32_t n = g.by_image(i), inside = i - n * g.by_image.by, line = g.by_line(inside), d = g.by_plane(line);
  return {n, d, line - d * g.by_plane.by, inside - line * g.by_line.by};
}

// A quad of a piece holds four sums; the tile knows of which columns and filters.
template <class Tile>
struct GradientLeave {
  Gradient g;

  __device__ void store(int32_t tile, int32_t i, const float4 &v) const {
    const GradientPlace place(g, tile, Tile::columns, Tile::filters);
    const float values[4] = {v.x, v.y, v.z, v.w};
    for (int e = 0; e < 4; ++e) {
      const int32_t column = place.column + Tile::column_at(i, e), filter = place.filter + Tile::filter_at(i, e);
      if (column >= g.x.columns || filter >= g.y.columns) continue;
      const ColumnPlace at(g.x, column, Tile::taps_inside);
      polyconv::cuda::store(
          g.result, g.result_type,
          g.weights.at(int64_t{place.group} * g.y.columns + filter, at.channel, at.tap[0], at.tap[1], at.tap[2]),
          values[e]);
    }
  }
};

} // namespace polyconv::cuda::gemm
