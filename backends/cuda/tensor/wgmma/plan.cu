// plan.cu - what surrounds the Hopper product: its geometry, and the sum over splits.
// SPDX-License-Identifier: Apache-2.0
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/pieces.hpp"
#include "common/ptx/hopper.cuh"
#include "common/rows.hpp"
#include "emulated/emulated.hpp"
#include "pixel_matrix.hpp"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads, 1) add(const __grid_constant__ Product p, int64_t count) {
  ptx::let_next_begin();
  ptx::await_previous();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t plane = static_cast<int64_t>(p.pixels) * p.partials_row;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t pixel = i / p.channels, channel = i - pixel * p.channels;
    const float *from = p.partials + pixel * p.partials_row + channel;
    float sum = *from;
#pragma unroll 4
    for (int split = 1; split < p.splits; ++split) sum += from[split * plane];
    Place<int64_t> at = p.conv.output.pixel_of(pixel);
    at.c = channel;
    finish_and_store(p.conv, p.result, sum, at);
  }
}

} // namespace

int64_t upper_corner(const polyconv_layer &l, int axis) {
  return (l.output.size[2 + axis] - 1) * l.stride[axis] - l.pad_begin[axis] - (l.input.size[2 + axis] - 1);
}

Walk walk_of(const polyconv_layer &l, int axis) {
  const int64_t stride = l.stride[axis];
  Walk w = {small(l.dilation[axis]), small(l.pad_begin[axis]), 1, small(stride), {small(-l.pad_begin[axis]), 0}};
  if (stride != 2 || !is_flat(l) || l.input.size[2 + axis] < 2) return w;
  w.phases = 2, w.step = 1;
  bool seen[2] = {};
  for (int32_t tap = 0; tap < l.weights.size[2 + axis]; ++tap) { // the first of a phase is its least
    const int32_t element = tap * w.dilation - w.pad, phase = element & 1;
    if (!seen[phase]) w.first[phase] = element >> 1;
    seen[phase] = true;
  }
  return w;
}

int64_t element_bytes(const polyconv_layer &l) {
  return l.input.type == POLYCONV_F32 ? 4 : 2;
}

Shape shape_of(const polyconv_layer &l, int which) {
  Shape shape = kShapes[which];
  shape.channels = tile_channels(shape.channels, shape.row, shape.parts, element_bytes(l));
  return shape;
}

bool is_flat(const polyconv_layer &l) {
  return l.input.size[2] == 1 && l.weights.size[2] == 1 && l.output.size[2] == 1 && l.pad_begin[0] == 0;
}

int64_t partials_row(const polyconv_layer &l) {
  return (l.output.size[1] + 3) / 4 * 4;
}

bool has_whole_vectors(const polyconv_tensor &t) {
  return in_pieces(t, 8, 0);
}

bool leaves_plainly(const polyconv_layer &l) {
  return is_matrix(l.result, l.input.type) && bias_and_relu_at_most(l); // so pairs of channels are whole
}

bool leaves_in_pairs(polyconv_layer l) {
  if (l.epilogue.residual_from != POLYCONV_RESIDUAL_NONE && !is_matrix(l.residual, l.input.type)) return false;
  l.epilogue.residual_from = POLYCONV_RESIDUAL_NONE;
  if (l.epilogue.activation == POLYCONV_ACT_CLIPPED_RELU) l.epilogue.activation = POLYCONV_ACT_RELU;
  return leaves_plainly(l);
}

Product make_product(const polyconv_layer &l, const polyconv_arguments &a, const Shape &shape, int splits) {
  const auto parts = [&](int64_t count, int64_t of) { return small(ceil_div(count, of)); };
  Product p = {{}, {}, {}, {}, Conv<int64_t>(l, a)};
  p.result = a.output;
  p.pixels = small(l.output.size[0] * sdk::spatial(l.output));
  p.channels = small(l.output.size[1]);
  p.tap_blocks = parts(l.weights.size[1], shape.row / element_bytes(l));
  p.group_channels = small(l.weights.size[1]);
  p.last_steps = small(last_steps(l, shape.row));
  p.depth_blocks = p.tap_blocks * small(sdk::taps(l));
  p.splits = splits;
  p.partials_row = small(partials_row(l));
  p.partials = splits > 1 && !shape.shared ? static_cast<float *>(a.workspace) : nullptr;
  for (int axis = 0; axis < 3; ++axis) {
    p.taps[axis] = small(l.weights.size[2 + axis]);
    p.out[axis] = small(l.output.size[2 + axis]);
    p.walk[axis] = walk_of(l, axis);
  }
  p.flat = is_flat(l) ? 1 : 0;
  p.pixel_tiles = parts(p.pixels, shape.pixels);
  p.channel_tiles = parts(p.channels, shape.channels);
  p.by_pixel_tiles = Divider::make(p.pixel_tiles), p.by_channel_tiles = Divider::make(p.channel_tiles);
  p.by_splits = Divider::make(splits), p.by_tap_blocks = Divider::make(p.tap_blocks);
  p.by_group = Divider::make(small(std::max<int64_t>(1, l.weights.size[0] / l.groups)));
  for (int axis = 0; axis < 3; ++axis)
    p.by_taps[axis] = Divider::make(p.taps[axis]), p.by_out[axis] = Divider::make(p.out[axis]);
  // What is larger is best asked for by blocks that run at the same time; inputs that lie in memory cost most.
  p.pixels_next = 2 * sdk::elements(l.weights) >= sdk::elements(l.input);
  const bool matrix = is_matrix(l.result, l.input.type) && aligned(a.output, 16);
  p.boxes = matrix && splits == 1;
  p.plain = matrix && p.partials == nullptr && leaves_in_pairs(l) && aligned(p.conv.epilogue.bias, 8) &&
            aligned(p.conv.epilogue.residual, 8);
  p.result_begin = l.result.offset, p.result_row = row_of(l.result), p.residual_row = row_of(l.residual);
  return p;
}

void add_partials(const Product &p, cudaStream_t stream) {
  const int64_t count = static_cast<int64_t>(p.pixels) * p.channels;
  launch_early(add, blocks_for(count, kThreads), kThreads, 0, stream, p, count);
}

} // namespace polyconv::cuda::wgmma
