// pyramid.cuh - a group's way through the layers: stage, sum, finish; between two steps stands the group's barrier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/divider.cuh"
#include "common/epilogue.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/barrier.cuh"
#include "common/ptx/numbers.cuh"
#include "pyramid/sums.cuh"

namespace polyconv::cuda::chain {

// A block's shared memory, by a name that tells the compiler that it is.
__device__ __forceinline__ float *shared_floats() {
  extern __shared__ __align__(16) float floats[];
  return floats;
}

// Where a group is, and its threads.
struct Here {
  int32_t arena; // floats before the first image
  int32_t thread, threads, barrier;
  int32_t image, images; // the first, and how many there are
  int32_t tile[2];

  __device__ int32_t first(const Map &m, int axis) const { return m.begin[axis] + tile[axis] * m.step[axis]; }
  __device__ float *of(const Pyramid &p, const Map &m, int32_t n) const {
    return shared_floats() + (arena + n * p.image_floats + m.offset);
  }
  // Element (0, 0) of the tensor in image n's map, which need not be in the tile.
  __device__ float *origin(const Pyramid &p, const Map &m, int32_t n) const {
    return of(p, m, n) - first(m, 0) * m.pitch - first(m, 1);
  }
  __device__ void sync() const { ptx::meet(barrier, threads); }
};

// The rows and columns of a map that lie inside the tensor, counted in the tensor.
struct Inside {
  int32_t top, left, rows, columns;
};
__device__ inline Inside inside(const Here &here, const Map &m) {
  const int32_t top = here.first(m, 0), left = here.first(m, 1), first_row = max(top, 0), first_column = max(left, 0);
  return {first_row, first_column, max(min(top + m.extent[0], m.size[0]) - first_row, 0),
          max(min(left + m.extent[1], m.size[1]) - first_column, 0)};
}

// Calls visit(image, channel, row, column) for each of so many.
template <int unrolled, class Visit>
__device__ __forceinline__ void each(const Here &here, int32_t channels, int32_t rows, int32_t columns,
                                     const Visit &visit) {
  const int32_t area = rows * columns, count = here.images * channels * area;
  if (count == 0) return;
  const Quotient by_area(area), by_columns(columns), by_channels(channels);
#pragma unroll unrolled
  for (int32_t e = here.thread; e < count; e += here.threads) {
    const int32_t plane = by_area(e), place = e - plane * area, row = by_columns(place);
    const int32_t n = by_channels(plane);
    visit(n, plane - n * channels, row, place - row * columns);
  }
}

// A value as the tensor between two layers, or the result, would hold it.
__device__ inline float rounded(const Stage &s, int32_t type, float v) {
  switch (type) {
    case POLYCONV_F32: return v;
    case POLYCONV_F16: return __half2float(__float2half_rn(v));
    case POLYCONV_BF16: return __bfloat162float(__float2bfloat16_rn(v));
    default: break;
  }
  v = add(rint(divide(v, s.out_scale)), static_cast<float>(s.out_zero_point));
  return static_cast<float>(type == POLYCONV_U8 ? round_to_integer(v, 0, 255) : round_to_integer(v, 0, 65535));
}

// Scale, bias, residual, activation of layer i's sum.
__device__ inline float finish(const Pyramid &p, const Pointers &from, const Here &here, int32_t i, float v, int32_t n,
                               int32_t k, int32_t h, int32_t w) {
  const Stage &s = p.stage[i];
  if (from.scale[i]) v = multiply(v, from.scale[i][k]);
  if (from.bias[i]) v = add(v, from.bias[i][k]);
  if (s.residual_map >= 0) {
    const Map &m = p.map[s.residual_map];
    v = add(v, multiply(s.residual_scale, here.origin(p, m, n)[k * m.plane + h * m.pitch + w]));
  } else if (from.residual[i]) {
    const int32_t *stride = s.residual_stride;
    const int32_t at = s.residual_offset + (here.image + n) * stride[0] + k * stride[1] + h * stride[2] + w * stride[3];
    v = add(v, multiply(s.residual_scale, load<float>(from.residual[i], s.residual_type, at)));
  }
  return activate(v, s.activation, s.alpha);
}

// The chain's input where it lies inside the image; pad_map adds what lies around it.
__device__ inline void stage_image(const Pyramid &p, const Pointers &from, const Here &here) {
  const Map &m = p.map[0];
  const Inside in = inside(here, m);
  const int32_t image_stride = p.input_stride[0], stride_c = p.input_stride[1], stride_h = p.input_stride[2];
  const int32_t stride_w = p.input_stride[3], pitch = m.pitch, plane = m.plane, type = m.type;
  const int32_t begin = p.input_offset + here.image * image_stride + in.top * stride_h + in.left * stride_w;
  const int32_t floats = p.image_floats;
  float *const to = here.origin(p, m, 0) + in.top * pitch + in.left;
  if (type == POLYCONV_F32) {
    const float *const x = static_cast<const float *>(from.input) + begin;
    each<4>(here, m.channels, in.rows, in.columns, [&](int32_t n, int32_t c, int32_t row, int32_t column) {
      copy_async<4>(to + n * floats + c * plane + row * pitch + column,
                    x + n * image_stride + c * stride_c + row * stride_h + column * stride_w, true);
    });
  } else {
    each<4>(here, m.channels, in.rows, in.columns, [&](int32_t n, int32_t c, int32_t row, int32_t column) {
      to[n * floats + c * plane + row * pitch + column] =
          load<float>(from.input, type, begin + n * image_stride + c * stride_c + row * stride_h + column * stride_w);
    });
  }
}

// The same with a border that repeats or mirrors the image.
__device__ inline void stage_folded(const Pyramid &p, const Pointers &from, const Here &here) {
  const Map &m = p.map[0];
  const int32_t top = here.first(m, 0), left = here.first(m, 1), *const stride = p.input_stride;
  each<1>(here, m.channels, m.extent[0], m.extent[1], [&](int32_t n, int32_t c, int32_t row, int32_t column) {
    const int32_t h = sdk::padded_index_in(top + row, m.size[0], m.pad_mode);
    const int32_t w = sdk::padded_index_in(left + column, m.size[1], m.pad_mode);
    here.of(p, m, n)[c * m.plane + row * m.pitch + column] =
        load<float>(from.input, m.type,
                    p.input_offset + (here.image + n) * stride[0] + c * stride[1] + h * stride[2] + w * stride[3]);
  });
}

// Where a tile sticks out of the tensor: what the next layer finds there. A warp takes a channel.
__device__ inline void pad_map(const Pyramid &p, const Here &here, const Map &m) {
  const Inside in = inside(here, m);
  const int32_t rows = m.extent[0], columns = m.extent[1], pitch = m.pitch;
  if (in.rows == rows && in.columns == columns) return;
  const int32_t top = in.top - here.first(m, 0), left = in.left - here.first(m, 1), behind = left + in.columns;
  const int32_t bottom = top + in.rows, lane = here.thread % 32, channels = m.channels;
  const float padding = m.padding;
  int32_t n = 0, c = here.thread / 32;
  for (;; c += here.threads / 32) {
    for (; c >= channels; c -= channels) ++n;
    if (n >= here.images) return;
    float *const to = here.of(p, m, n) + c * m.plane;
    for (int32_t column = lane; column < columns; column += 32) {
      for (int32_t row = 0; row < top; ++row) to[row * pitch + column] = padding;
      for (int32_t row = bottom; row < rows; ++row) to[row * pitch + column] = padding;
    }
    for (int32_t row = top + lane; row < bottom; row += 32) {
      for (int32_t column = 0; column < left; ++column) to[row * pitch + column] = padding;
      for (int32_t column = behind; column < columns; ++column) to[row * pitch + column] = padding;
    }
  }
}

__device__ inline bool folds(const Map &m) {
  return m.pad_mode != POLYCONV_PAD_ZERO && m.pad_mode != POLYCONV_PAD_CONSTANT;
}

// The same where the padding repeats what is inside, which the tile holds as far as anybody needs it.
__device__ inline void fold_map(const Pyramid &p, const Here &here, const Map &m) {
  const Inside in = inside(here, m);
  if (in.rows == m.extent[0] && in.columns == m.extent[1]) return;
  here.sync(); // what is inside is there
  const int32_t top = here.first(m, 0), left = here.first(m, 1);
  each<1>(here, m.channels, m.extent[0], m.extent[1], [&](int32_t n, int32_t c, int32_t row, int32_t column) {
    const int32_t h = sdk::padded_index_in(top + row, m.size[0], m.pad_mode) - top;
    const int32_t w = sdk::padded_index_in(left + column, m.size[1], m.pad_mode) - left;
    if ((h == row && w == column) || h < 0 || h >= m.extent[0] || w < 0 || w >= m.extent[1]) return;
    float *const to = here.of(p, m, n) + c * m.plane;
    to[row * m.pitch + column] = to[h * m.pitch + w];
  });
}

__device__ inline void stage_input(const Pyramid &p, const Pointers &from, const Here &here) {
  if (folds(p.map[0])) return stage_folded(p, from, here);
  stage_image(p, from, here);
  pad_map(p, here, p.map[0]);
}

// A thread's sums, as they are or with bias and relu, to shared memory. `to` is the place of the first.
template <int channels, int columns>
__device__ __forceinline__ void leave(const Stage &s, const float *bias, float *to, int32_t plane,
                                      float (&sum)[columns][channels], int32_t present, int32_t across) {
  if (bias) {
#pragma unroll
    for (int k = 0; k < channels; ++k) {
      const float b = k < present ? bias[k] : 0.0f;
#pragma unroll
      for (int j = 0; j < columns; ++j) sum[j][k] = add(sum[j][k], b);
    }
  }
  if (s.relu) {
#pragma unroll
    for (int j = 0; j < columns; ++j)
#pragma unroll
      for (int k = 0; k < channels; ++k) sum[j][k] = ptx::greater(sum[j][k], 0);
  }
#pragma unroll
  for (int k = 0; k < channels; ++k, to += plane) {
    if (k >= present) break;
    if (across >= columns) {
#pragma unroll
      for (int j = 0; j < columns; ++j) to[j] = sum[j][k];
    } else {
#pragma unroll
      for (int j = 0; j < columns - 1; ++j)
        if (j < across) to[j] = sum[j][k];
    }
  }
}

// Layer i's sums, to the next layer's map or to where they will be finished.
template <int size, int stride, int channels>
__device__ __forceinline__ void convolve(const Pyramid &p, const Pointers &at, const Here &here, int32_t i) {
  constexpr int columns = Shape{size, stride, channels}.columns();
  const Stage &s = p.stage[i];
  const Map &m = p.map[i], &to = s.two_passes ? s.output : p.map[i + 1];
  const float *const bias = s.two_passes ? nullptr : at.bias[i];
  const Inside out = inside(here, to);
  const int32_t across = (out.columns + columns - 1) / columns, area = out.rows * across;
  const int32_t count = here.images * s.all_blocks * area;
  const int32_t taps = size > 0 ? size * size : s.taps[0] * s.taps[1];
  const Quotient by_area(area), by_across(across), by_images(here.images), by_blocks(s.channel_blocks);
  const int32_t x_top = out.top * s.stride[0] - s.pad[0] - here.first(m, 0);
  const int32_t x_left = out.left * s.stride[1] - s.pad[1] - here.first(m, 1);
#pragma unroll 1
  for (int32_t e = here.thread; e < count; e += here.threads) {
    const int32_t plane = by_area(e), place = e - plane * area, row = by_across(place);
    const int32_t column = (place - row * across) * columns, block = by_images(plane);
    const int32_t n = plane - block * here.images, group = by_blocks(block);
    const int32_t first = (block - group * s.channel_blocks) * channels;
    float sum[columns][channels] = {};
    const float *x = here.of(p, m, n) + group * s.group_in * m.plane + (x_top + row * s.stride[0]) * m.pitch + x_left +
                     column * s.stride[1];
    const float *w = shared_floats() + s.weights + block * s.group_in * taps * Shape{size, stride, channels}.row();
    if constexpr (size > 0)
      sum_unrolled<size, stride, channels, columns>(s, m, x, w, sum);
    else
      sum_taps<channels, columns>(s, m, x, w, sum);
    const int32_t channel = group * s.group_out + first;
    leave<channels, columns>(
        s, bias ? bias + channel : nullptr,
        here.origin(p, to, n) + channel * to.plane + (out.top + row) * to.pitch + out.left + column, to.plane, sum,
        s.group_out - first, out.columns - column);
  }
}

// Every instance of a shape that shape_of may give.
__device__ inline void convolve_any(const Pyramid &p, const Pointers &at, const Here &here, int32_t i) {
  switch (p.stage[i].shape) {
#define POLYCONV_SHAPE(size, stride, channels) \
  case Shape{size, stride, channels}.id():     \
    return convolve<size, stride, channels>(p, at, here, i);
#include "pyramid/shapes.inc"
#undef POLYCONV_SHAPE
    default: break;
  }
}

// The value of result (h, w) of layer i, pooled or not, from the sums under its window: any epilogue.
__device__ __noinline__ float pooled_any(const Pyramid &p, const Pointers &from, const Here here, int32_t i, int32_t n,
                                         int32_t k, int32_t h, int32_t w) {
  const Stage &s = p.stage[i];
  const Map &sums = s.output;
  const float *const plane = here.origin(p, sums, n) + k * sums.plane;
  if (s.pool_kind == POLYCONV_POOL_NONE) return finish(p, from, here, i, plane[h * sums.pitch + w], n, k, h, w);
  const bool average = s.pool_kind == POLYCONV_POOL_AVERAGE;
  const int32_t top = h * s.pool_stride[0] - s.pool_pad[0], left = w * s.pool_stride[1] - s.pool_pad[1];
  const int32_t bottom = min(top + s.pool_window[0], sums.size[0]), right = min(left + s.pool_window[1], sums.size[1]);
  float best = 0;
  int32_t seen = 0;
  for (int32_t y = max(top, 0); y < bottom; ++y)
    for (int32_t x = max(left, 0); x < right; ++x, ++seen) {
      const float v = finish(p, from, here, i, plane[y * sums.pitch + x], n, k, y, x);
      if (average)
        best = add(best, v);
      else if (seen == 0 || pool_better(v, best))
        best = v;
    }
  if (!average) return best;
  return divide(best, static_cast<float>(s.count_include_pad ? s.pool_window[0] * s.pool_window[1] : seen));
}

// The same of a bias and a relu, after the maximum of the window: they keep its order. `sums` is element (0, 0).
struct Window {
  int32_t rows, columns, stride_h, stride_w, pad_h, pad_w, bottom, right, pitch;
  __device__ explicit Window(const Stage &s)
      : rows(s.pool_window[0]),
        columns(s.pool_window[1]),
        stride_h(s.pool_stride[0]),
        stride_w(s.pool_stride[1]),
        pad_h(s.pool_pad[0]),
        pad_w(s.pool_pad[1]),
        bottom(s.output.size[0]),
        right(s.output.size[1]),
        pitch(s.output.pitch) {}
  __device__ __forceinline__ float largest(const float *sums, int32_t h, int32_t w) const {
    const int32_t top = h * stride_h - pad_h, left = w * stride_w - pad_w;
    const int32_t below = min(top + rows, bottom), beside = min(left + columns, right);
    float best = -INFINITY;
    for (int32_t y = max(top, 0); y < below; ++y)
      for (int32_t x = max(left, 0); x < beside; ++x) {
        const float v = sums[y * pitch + x];
        if (pool_better(v, best)) best = v;
      }
    return best;
  }
};

// The second pass of layer i: its sums, finished and pooled, passed to put(value, image, channel, row, column) for each
// result of an area of the tensor.
template <class Put>
__device__ __forceinline__ void finish_area(const Pyramid &p, const Pointers &from, const Here &here, int32_t i,
                                            const Inside &area, const Put &put) {
  const Stage &s = p.stage[i];
  const int32_t channels = s.output.channels, plane = s.output.plane, floats = p.image_floats;
  if (!s.simple) {
    each<1>(here, channels, area.rows, area.columns, [&](int32_t n, int32_t k, int32_t row, int32_t column) {
      put(pooled_any(p, from, here, i, n, k, area.top + row, area.left + column), n, k, row, column);
    });
    return;
  }
  const float *const sums = here.origin(p, s.output, 0), *const bias = from.bias[i];
  const bool relus = s.activation == POLYCONV_ACT_RELU, pools = s.pool_kind != POLYCONV_POOL_NONE;
  const Window window(s);
  each<2>(here, channels, area.rows, area.columns, [&](int32_t n, int32_t k, int32_t row, int32_t column) {
    const float *const of = sums + n * floats + k * plane;
    const int32_t h = area.top + row, w = area.left + column;
    float v = pools ? window.largest(of, h, w) : of[h * window.pitch + w];
    if (bias) v = add(v, bias[k]);
    put(relus ? ptx::greater(v, 0) : v, n, k, row, column);
  });
}

__device__ inline void finish_map(const Pyramid &p, const Pointers &at, const Here &here, int32_t i) {
  const Stage &s = p.stage[i];
  if (i + 1 < p.layers) {
    const Map &m = p.map[i + 1];
    const Inside area = inside(here, m);
    const int32_t floats = p.image_floats, plane = m.plane, pitch = m.pitch, type = m.type;
    float *const to = here.origin(p, m, 0) + area.top * pitch + area.left;
    finish_area(p, at, here, i, area, [&](float v, int32_t n, int32_t k, int32_t row, int32_t column) {
      to[n * floats + k * plane + row * pitch + column] = type == POLYCONV_F32 ? v : rounded(s, type, v);
    });
    return;
  }
  const int32_t top = here.tile[0] * p.result_tile[0], left = here.tile[1] * p.result_tile[1];
  const Inside area = {top, left, min(p.result_tile[0], p.result_size[0] - top),
                       min(p.result_tile[1], p.result_size[1] - left)};
  const int32_t stride_n = p.result_stride[0], stride_c = p.result_stride[1], stride_h = p.result_stride[2];
  const int32_t stride_w = p.result_stride[3], type = p.result_type;
  const int32_t begin = p.result_offset + here.image * stride_n + top * stride_h + left * stride_w;
  finish_area(p, at, here, i, area, [&](float v, int32_t n, int32_t k, int32_t row, int32_t column) {
    const int32_t to = begin + n * stride_n + k * stride_c + row * stride_h + column * stride_w;
    if (type == POLYCONV_F32)
      static_cast<float *>(at.result)[to] = v;
    else
      store(at.result, type, to, rounded(s, type, v));
  });
}

} // namespace polyconv::cuda::chain
