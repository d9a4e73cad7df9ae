// stage.cuh - where the blocks and threads of cuda-constant work, and how they bring their input into shared memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "common/ptx/async.cuh"
#include "tiling.hpp"

namespace polyconv::cuda::constant {

// Where a block and a thread of it work.
struct Spot {
  int32_t image, top, left;            // of the block: first image, output row and column
  int32_t result_top, result_left;     // its first result
  int32_t own_image, own_row, own_col; // of the thread, counted from there
  bool active;
};

__device__ inline Spot make_spot(const Tiling &t, int32_t rows_a_thread) {
  Spot s;
  const int32_t tile_w = blockIdx.x % t.tiles_w, rest = blockIdx.x / t.tiles_w, tile_h = rest % t.tiles_h;
  s.image = rest / t.tiles_h * t.images;
  s.top = t.first_row + tile_h * t.row_step, s.left = t.first_col + tile_w * t.col_step;
  s.result_top = tile_h * t.result_rows, s.result_left = tile_w * t.result_cols;
  const auto stripe = t.by_cols(static_cast<int32_t>(threadIdx.x));
  s.own_image = t.by_stripes(stripe);
  s.own_row = (stripe - s.own_image * t.stripes) * rows_a_thread;
  s.own_col = static_cast<int32_t>(threadIdx.x) - stripe * t.cols;
  s.active = s.own_image < t.images;
  return s;
}

// What a block stages: for each phase what the outputs that exist read, from input (top, left) on.
struct Area {
  int32_t image, images, top, left, rows, cols;
  bool in_turns; // f32, and within the image, and faster
};

__device__ inline Area make_area(const Conv<int32_t> &p, const Launch &launch, const Spot &s) {
  const Tiling &t = launch.tile;
  Area a;
  a.image = s.image, a.images = min(t.images, p.input.size[0] - s.image);
  a.top = s.top * p.stride[1] - p.pad[1], a.left = s.left * p.stride[2] - p.pad[2];
  a.rows = min(t.rows, p.output.size[3] - s.top + t.below);
  a.cols = min(t.phase_cols, p.output.size[4] - s.left + t.beside);
  const int32_t bottom = a.top + (a.rows - 1 - t.below) * p.stride[1] + (p.weights.size[3] - 1) * p.dilation[1];
  const int32_t right = a.left + (a.cols - 1 - t.beside) * p.stride[2] + (p.weights.size[4] - 1) * p.dilation[2];
  a.in_turns = t.in_turns && launch.input_type == POLYCONV_F32 && a.rows > 0 && a.cols > 0 && a.top >= 0 &&
               a.left >= 0 && bottom < p.input.size[3] && right < p.input.size[4];
  return a;
}

// Four neighbouring rows of a column, `vector` of them a store.
template <int vector>
__device__ inline void store_four(float *to, const float (&four)[4]) {
  struct alignas(4 * vector) Vector {
    float at[vector];
  };
#pragma unroll
  for (int i = 0; i < 4; i += vector) {
    Vector v;
#pragma unroll
    for (int j = 0; j < vector; ++j) v.at[j] = four[i + j];
    *reinterpret_cast<Vector *>(to + i) = v;
  }
}

// Stages phase (i, j) of `channels` where the area is inside the image: element (row, col) is input
// (top + i + row * stride, left + j + col * stride) and goes to to[col * pitch + row]. A lane takes four rows of a
// column, its neighbours those of the columns beside it, and has `kUnits` such on their way before it stores them.
// Every lane makes every turn, with the last element instead of those that there are not: divergence would keep
// weights out of uniform registers.
template <int vector>
__device__ inline void stage_in_turns(const Conv<int32_t> &p, const Tiling &t, const Area &a, const float *x, float *to,
                                      int32_t first, int32_t channels, int32_t i, int32_t j) {
  constexpr int kUnits = 4;
  const uint32_t row_pitch = p.input.stride[3] * p.stride[1], col_pitch = p.input.stride[4] * p.stride[2];
  const int32_t last_row = min(a.rows - 1, (p.input.size[3] - 1 - a.top - i) / p.stride[1]);
  const int32_t last_col = min(a.cols - 1, (p.input.size[4] - 1 - a.left - j) / p.stride[2]);
  const float *origin = x + p.input.at(a.image, first, 0, a.top + i, a.left + j);
  const int32_t units = channels * t.images * t.quads * t.phase_cols;
#pragma unroll 1
  for (int32_t begin = 0; begin < units; begin += kUnits * blockDim.x) {
    const int32_t mine = begin + threadIdx.x;
    float four[kUnits][4];
    int32_t cell[kUnits];
#pragma unroll
    for (int k = 0; k < kUnits; ++k) {
      const int32_t unit = min(mine + k * static_cast<int32_t>(blockDim.x), units - 1);
      const int32_t rest = t.by_phase_cols(unit), col = unit - rest * t.phase_cols;
      const int32_t plane = t.by_quads(rest), row = 4 * (rest - plane * t.quads);
      const int32_t c = t.by_images(plane), image = plane - c * t.images;
      cell[k] = c * t.channel_pitch + image * t.image_pitch + col * t.pitch + row;
      const uint32_t from =
          min(image, a.images - 1) * p.input.stride[0] + c * p.input.stride[1] + min(col, last_col) * col_pitch;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const uint32_t at = from + min(row + r, last_row) * row_pitch;
        four[k][r] = origin[at];
      }
    }
#pragma unroll
    for (int k = 0; k < kUnits; ++k)
      if (mine + k * static_cast<int32_t>(blockDim.x) < units) store_four<vector>(to + cell[k], four[k]);
  }
}

// The same for one channel and image, whose element (0, 0) is `origin`, at borders and of any type. Eight lanes take a
// row, so that those of a warp write to few banks twice. f32 is copied asynchronously; the rest, and the padding,
// passes through registers. Offsets are unsigned: beyond the border they may wrap, and are not used.
__device__ inline void stage_by_copies(const Conv<int32_t> &p, const Launch &launch, const Area &a, const void *x,
                                       uint32_t origin, float *to, int32_t i, int32_t j) {
  constexpr int32_t kLanes = 8;
  const Tiling &t = launch.tile;
  const int32_t top = a.top + i, left = a.left + j, right = left + a.cols * p.stride[2];
  const int32_t own_col = threadIdx.x % kLanes, step = kLanes * p.stride[2];
  const uint32_t row_pitch = p.input.stride[3], col_pitch = p.input.stride[4];
  const bool is_f32 = launch.input_type == POLYCONV_F32;
#pragma unroll 1
  for (int32_t row = threadIdx.x / kLanes; row < a.rows; row += blockDim.x / kLanes) {
    const int32_t h = top + row * p.stride[1];
    const bool copied = is_f32 && static_cast<uint32_t>(h) < static_cast<uint32_t>(p.input.size[3]);
    int32_t w = left + own_col * p.stride[2];
    uint32_t at = origin + h * row_pitch + w * col_pitch;
    float *cell = to + own_col * t.pitch + row;
#pragma unroll 1
    for (; w < right; w += step, at += step * col_pitch, cell += kLanes * t.pitch) {
      if (copied && static_cast<uint32_t>(w) < static_cast<uint32_t>(p.input.size[4])) {
        copy_async<4>(cell, static_cast<const float *>(x) + at, true);
        continue;
      }
      const int32_t in_h = sdk::padded_index_in<int32_t>(h, p.input.size[3], p.pad_mode);
      const int32_t in_w = sdk::padded_index_in<int32_t>(w, p.input.size[4], p.pad_mode);
      const uint32_t from = origin + in_h * row_pitch + in_w * col_pitch;
      *cell = in_h < 0 || in_w < 0 ? p.padding<float>() : load<float>(x, launch.input_type, from);
    }
  }
}

// Stages `channels` of the block's input from `first` on.
template <int vector>
__device__ inline void stage(const Conv<int32_t> &p, const Launch &launch, const Area &a, const void *x, float *tile,
                             int32_t first, int32_t channels) {
  const Tiling &t = launch.tile;
#pragma unroll 1
  for (int32_t i = 0; i < t.row_phases; ++i)
#pragma unroll 1
    for (int32_t j = 0; j < t.col_phases; ++j) {
      float *const to = tile + i * t.phase_rows + j * t.phase_cols * t.pitch;
      if (a.in_turns) {
        stage_in_turns<vector>(p, t, a, static_cast<const float *>(x), to, first, channels, i, j);
        continue;
      }
#pragma unroll 1
      for (int32_t c = 0; c < channels; ++c)
#pragma unroll 1
        for (int32_t image = 0; image < a.images; ++image)
          stage_by_copies(p, launch, a, x, p.input.at(a.image + image, first + c, 0, 0, 0),
                          to + c * t.channel_pitch + image * t.image_pitch, i, j);
    }
  await_copies();
}

} // namespace polyconv::cuda::constant
