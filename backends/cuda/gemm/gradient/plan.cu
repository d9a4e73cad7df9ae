// plan.cu - the geometry of the gradient of weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/machine.hpp"
#include "gradient/gradient.hpp"

namespace polyconv::cuda::gemm {
namespace {

// A tensor read pixel by pixel.
Factor factor_of(const polyconv_tensor &t, int64_t groups) {
  Factor f;
  f.image_stride = t.stride[0];
  f.channels = f.columns = small(t.size[1] / groups);
  f.channel_stride = small(t.stride[1]);
  for (int axis = 0; axis < 3; ++axis)
    f.stride[axis] = small(t.stride[2 + axis]), f.size[axis] = small(t.size[2 + axis]);
  return f;
}

} // namespace

Gradient make_gradient(const polyconv_layer &l, const Shape &shape, int32_t sharing) {
  Gradient g = {factor_of(l.input, l.groups), factor_of(l.output, l.groups), {}, {}, {}, View<int64_t>(l.weights)};
  static_cast<PlaceAxes &>(g.x) = PlaceAxes(l);
  g.x.columns = small(g.x.channels * sdk::taps(l));
  g.x.pad_mode = l.pad_mode;
  g.x.fill = l.pad_mode == POLYCONV_PAD_CONSTANT ? static_cast<float>(l.pad_value) : 0;
  for (int axis = 0; axis < 3; ++axis) {
    g.x.step[axis] = small(l.stride[axis]);
    g.x.pad[axis] = small(l.pad_begin[axis]);
  }
  g.by_image = Divider::make(small(sdk::spatial(l.output)));
  g.by_plane = Divider::make(small(l.output.size[3])), g.by_line = Divider::make(small(l.output.size[4]));
  g.result_type = l.result.type;
  g.groups = small(l.groups);
  g.pixels = small(l.output.size[0] * sdk::spatial(l.output));
  g.column_tiles = (g.x.columns + shape.pixels - 1) / shape.pixels;
  g.filter_tiles = (g.y.columns + shape.channels - 1) / shape.channels;
  const int64_t tiles = int64_t{g.column_tiles} * g.filter_tiles * g.groups;
  const int64_t blocks = (g.pixels + shape.depth - 1) / shape.depth;
  g.sharing = sharing;
  g.shares = sharing > 1 ? make_shares(tiles, blocks, tiles * sharing, tiles)
                         : make_shares(tiles, blocks, kHopperMultiprocessors * shape.blocks);
  return g;
}

int64_t pieces_bytes(const Gradient &g, const Shape &shape) {
  return int64_t{g.shares.workers} * g.shares.most * shape.pixels * shape.channels * 4;
}

} // namespace polyconv::cuda::gemm
