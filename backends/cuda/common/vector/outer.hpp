// outer.hpp - gradients of weights over few rows: gradient[filter][depth] = sum over rows of dy[row][filter] *
// x[row][depth], the layers of vector.hpp whose rows are outputs. Sums are of all rows in order, in one launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/vector/vector.hpp"

namespace polyconv::cuda {

inline constexpr int64_t kMostOuterRows = int64_t{1} << 16; // so many roundings stay below those of the result

inline constexpr int64_t kMostKept = 16 << 20; // bytes of a gradient, beside others, in the second cache

// What the warp or block of a config sums.
struct OuterShape {
  int32_t filters, depth;
};

// Where the rows of a tensor begin: evenly far from each other, or by the coordinates of an output.
struct RowWalk {
  int32_t even = 0, row = 0; // 1: `row` elements from one to the next
  int32_t image = 0, step[3] = {}, out[3] = {};

  // `spacing`: of what outputs read, as a layer's strides.
  RowWalk(const polyconv_tensor &t, const polyconv_tensor &output, const int64_t (&spacing)[3])
      : image(small(t.stride[0])) {
    for (int axis = 0; axis < 3; ++axis)
      step[axis] = small(t.stride[2 + axis] * spacing[axis]), out[axis] = small(output.size[2 + axis]);
    const int64_t steps[4] = {step[2], step[1], step[0], image};
    const int64_t sizes[4] = {out[2], out[1], out[0], output.size[0]};
    int64_t next = 0; // what an axis must step to go on evenly; 0: none has begun
    even = 1;
    for (int axis = 0; axis < 4; ++axis) {
      if (sizes[axis] == 1) continue;
      if (next == 0)
        row = small(next = steps[axis]);
      else
        even = even && steps[axis] == next;
      next *= sizes[axis];
    }
  }
  __device__ int32_t at(int32_t i) const {
    if (even) return i * row;
    const int32_t line = i / out[2], plane = line / out[1], n = plane / out[0];
    return n * image + (plane - n * out[0]) * step[0] + (line - plane * out[1]) * step[1] +
           (i - line * out[2]) * step[2];
  }
  // What divides all of that, in elements.
  int64_t bits() const { return even ? row : int64_t{image} | step[0] | step[1] | step[2]; }
};

// One factor: rows of `columns` elements a group, `step` apart.
struct OuterRows {
  RowWalk walk;
  const void *data = nullptr;
  int32_t columns = 0, step = 1, group = 0; // group: elements from one's columns to the next's
  int32_t width = 0; // bytes of whole columns that are aligned, 16 at most; an element's size where they do not touch
};

inline OuterRows outer_rows(const polyconv_tensor &t, const RowWalk &walk, int64_t columns, int64_t step) {
  const int64_t size = sdk::type_bytes(t.type), all = (walk.bits() | columns | t.offset) * size;
  OuterRows r = {walk, nullptr, small(columns), small(step), small(columns * step)};
  r.width = small(size);
  while (step == 1 && r.width < 16 && all % (2 * r.width) == 0) r.width *= 2;
  return r;
}

// A gradient as a kernel argument.
struct OuterProduct {
  OuterRows x, dy;
  void *result = nullptr; // its first element
  int32_t result_type = 0, rows = 0, groups = 0;
  int32_t filter_step = 0;  // elements of the result from filter to filter
  int32_t depth_step = 0;   // and along the depth, 0 where its axes do not merge
  int32_t result_width = 0; // as OuterRows has it
  int32_t filter_tiles = 0, depth_tiles = 0;
  int32_t streams = 0; // 1: the second cache could not keep the gradient, and had better keep what is read again
  DepthAxes axes = {};

  __device__ int32_t depth_offset(int32_t depth) const {
    return depth_step > 0 ? depth * depth_step : static_cast<int32_t>(axes.offset(depth));
  }
};

inline OuterProduct make_outer(const polyconv_layer &l, const VectorLayer &v, const OuterShape &shape) {
  const int64_t ones[3] = {1, 1, 1};
  OuterProduct p = {outer_rows(l.input, RowWalk(l.input, l.output, l.stride), v.depth, v.step),
                    outer_rows(l.output, RowWalk(l.output, l.output, ones), v.group_filters, l.output.stride[1])};
  p.x.group = v.group_step;
  p.result_type = l.result.type, p.rows = v.rows, p.groups = v.groups;
  p.filter_step = small(l.weights.stride[0]);
  p.axes = v.axes;
  bool merges = v.axes.stride[0] > 0 || v.axes.size[0] == 1;
  for (int axis = 1; axis < 4 && v.axes.size[axis] > 1; ++axis)
    merges = merges && v.axes.stride[axis] == v.axes.stride[axis - 1] * v.axes.size[axis - 1];
  p.depth_step = !merges ? 0 : v.axes.size[0] == 1 ? 1 : small(v.axes.stride[0]);
  const int64_t size = sdk::type_bytes(l.result.type), all = (l.weights.stride[0] | v.depth | l.weights.offset) * size;
  p.result_width = small(size);
  while (p.depth_step == 1 && p.result_width < 16 && all % (2 * p.result_width) == 0) p.result_width *= 2;
  p.streams = sdk::elements(l.weights) * size > kMostKept ? 1 : 0;
  p.filter_tiles = small(ceil_div(v.group_filters, shape.filters));
  p.depth_tiles = small(ceil_div(v.depth, shape.depth));
  return p;
}

// With the pointers of a run.
inline void set_pointers(const polyconv_layer &l, const polyconv_arguments &a, OuterProduct *p) {
  p->x.data = begin_of(l.input, a.input);
  p->dy.data = begin_of(l.output, a.output);
  p->result = static_cast<char *>(a.weights[0]) + l.weights.offset * sdk::type_bytes(l.result.type);
  while (!aligned(p->x.data, p->x.width)) p->x.width /= 2;
  while (!aligned(p->dy.data, p->dy.width)) p->dy.width /= 2;
  while (!aligned(p->result, p->result_width)) p->result_width /= 2;
}

// A tile of the gradient.
struct OuterTile {
  int32_t group, filter, depth; // the first ones, in the group

  __device__ OuterTile(const OuterProduct &p, int32_t tile, int32_t filters, int32_t depths) {
    const int32_t rest = tile / p.depth_tiles;
    depth = (tile - rest * p.depth_tiles) * depths;
    group = rest / p.filter_tiles;
    filter = (rest - group * p.filter_tiles) * filters;
  }
};

inline double outer_tiles(const OuterProduct &p) {
  return real(p.filter_tiles) * p.depth_tiles * p.groups;
}

// How a gradient is launched, with how much shared memory a block beside what the kernel has for good.
struct OuterLauncher {
  void (*launch)(const OuterProduct &product, bool early, int shared_bytes, cudaStream_t stream);
  int shared_bytes = 0;
};

} // namespace polyconv::cuda
