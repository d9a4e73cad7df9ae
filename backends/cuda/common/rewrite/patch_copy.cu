// patch_copy.cu - see patch_copy.hpp. A thread has 16 bytes of a row of the matrix, and the tensor's pieces of them: as
// much as lies side by side there, up to 16 bytes. Where that is little, lanes are several windows in a row by some
// 16 bytes of each, so that both sides are asked for whole sectors of 32 bytes.
//
// Floor: the tensor and the matrix once.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/patch_copy.hpp"

#include <cmath>
#include <cstring>

#include "common/device/launch.hpp"
#include "common/divider.cuh"
#include "common/instance.hpp"
#include "common/ptx/grid.cuh"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostCounted = 1 << 30;

// The tensor is counted in pieces, the matrix in vectors of 16 bytes.
struct PatchCopy {
  void *tensor;
  uint4 *matrix;
  int64_t image_stride;
  int32_t row_stride[3], column_stride[4]; // D H W of rows; columns, the fastest first
  Divider by_size[4];                      // columns
  Divider by_group, by_pixels[3];          // the vectors of a group of windows; W, H, D of rows
  int32_t rows, vectors, pieces, lanes_shift;
};

// ---------------------------------------------------------------- the copy

// Walks over the pieces of a window.
struct Piece {
  int32_t digit[4], offset;

  __device__ Piece(const PatchCopy &p, int32_t number) {
    int32_t rest = number;
    offset = 0;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const int32_t above = p.by_size[i](rest);
      digit[i] = rest - above * p.by_size[i].by;
      rest = above;
    }
    digit[3] = rest;
#pragma unroll
    for (int i = 0; i < 4; ++i) offset += digit[i] * p.column_stride[i];
  }
  __device__ void next(const PatchCopy &p) {
    offset += p.column_stride[0];
    if (++digit[0] < p.by_size[0].by) return;
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      if (digit[i] < p.by_size[i].by) break;
      offset += p.column_stride[i + 1] - digit[i] * p.column_stride[i];
      digit[i] = 0;
      ++digit[i + 1];
    }
  }
};

template <class T>
__device__ inline T *window_of(const PatchCopy &p, int32_t row) {
  const int32_t line = p.by_pixels[0](row), plane = p.by_pixels[1](line), image = p.by_pixels[2](plane);
  const int32_t d = plane - image * p.by_pixels[2].by, h = line - plane * p.by_pixels[1].by;
  const int32_t w = row - line * p.by_pixels[0].by;
  return static_cast<T *>(p.tensor) + image * p.image_stride +
         (d * p.row_stride[0] + h * p.row_stride[1] + w * p.row_stride[2]);
}

template <class T, bool Gathers>
__global__ void __launch_bounds__(kThreads) copy_patches(const __grid_constant__ PatchCopy p, int32_t count) {
  ptx::let_next_begin(), ptx::await_previous();
  constexpr int kPieces = 16 / sizeof(T);
  const auto step = static_cast<int32_t>(gridDim.x) * kThreads;
  for (int32_t i = static_cast<int32_t>(blockIdx.x) * kThreads + static_cast<int32_t>(threadIdx.x); i < count;
       i += step) {
    const int32_t group = p.by_group(i), within = i - group * p.by_group.by, vector = within >> p.lanes_shift;
    const int32_t row = (group << p.lanes_shift) + (within - (vector << p.lanes_shift));
    if (row >= p.rows) continue;
    T *const window = window_of<T>(p, row);
    uint4 *const mine = p.matrix + static_cast<int64_t>(row) * p.vectors + vector;
    const int32_t first = vector * kPieces;
    Piece piece(p, first);
    uint4 whole = make_uint4(0, 0, 0, 0);
    T values[kPieces];
    if constexpr (!Gathers) whole = *mine;
    memcpy(values, &whole, 16);
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      if (first + j < p.pieces) {
        if constexpr (Gathers)
          values[j] = window[piece.offset];
        else
          window[piece.offset] = values[j];
      }
      if (j + 1 < kPieces) piece.next(p);
    }
    memcpy(&whole, values, 16);
    if constexpr (Gathers) *mine = whole;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spread(const T *channels, T *elements, int32_t count, int32_t all, Divider by_inner, Divider by_channels) {
  const int32_t i = static_cast<int32_t>(blockIdx.x) * kThreads + static_cast<int32_t>(threadIdx.x);
  if (i >= count) return;
  const int32_t outer = by_inner(i); // taps of a channel come first, or channels of a tap
  elements[i] = i < all ? channels[outer - by_channels(outer) * by_channels.by] : T(0);
}

// ---------------------------------------------------------------- its plan

// The columns with what lies side by side made one axis.
void join_columns(PatchMatrix *m) {
  const PatchRun run = run_of(*m);
  for (int i = 0; i < 4; ++i)
    if (i < run.axes) m->column_size[i] = 1;
  m->column_size[0] = run.columns, m->column_stride[0] = run.stride;
}

// Elements of a piece: they lie side by side and every piece begins at a whole one.
int64_t piece_elements(const PatchMatrix &m, const void *tensor) {
  const int64_t bytes = sdk::type_bytes(m.type);
  if (m.column_stride[0] != 1 && m.column_size[0] > 1) return 1;
  for (int64_t piece = 16 / bytes; piece > 1; piece /= 2) {
    bool whole = m.column_size[0] % piece == 0 && m.offset % piece == 0 && aligned(tensor, piece * bytes);
    for (int i = 0; i < 4; ++i) {
      whole = whole && (m.row_size[i] == 1 || m.row_stride[i] % piece == 0);
      whole = whole && (i == 0 || m.column_size[i] == 1 || m.column_stride[i] % piece == 0);
    }
    if (whole) return piece;
  }
  return 1;
}

// Windows that neighbouring lanes share out: 32 where these are neighbours themselves and the elements of one are not,
// 8 where a window's elements lie in short pieces.
int lanes_shift_of(const PatchMatrix &m) {
  if (m.column_stride[0] != 1 && m.row_stride[3] == 1 && m.row_size[3] >= 8) return 5;
  return m.column_stride[0] == 1 && m.column_size[0] * sdk::type_bytes(m.type) >= 64 ? 0 : 3;
}

PatchCopy make_copy(PatchMatrix m, int64_t row, const void *tensor, const void *matrix, int64_t piece) {
  const int64_t bytes = sdk::type_bytes(m.type);
  PatchCopy p = {};
  p.tensor = const_cast<char *>(static_cast<const char *>(tensor)) + m.offset * bytes;
  p.matrix = static_cast<uint4 *>(const_cast<void *>(matrix));
  p.lanes_shift = lanes_shift_of(m);
  p.rows = small(m.rows()), p.pieces = small(m.columns() / piece), p.vectors = small(row * bytes / 16);
  p.by_group = Divider::make(p.vectors << p.lanes_shift);
  p.image_stride = m.row_stride[0] / piece;
  for (int i = 0; i < 3; ++i) {
    p.row_stride[i] = small(m.row_stride[1 + i] / piece);
    p.by_pixels[i] = Divider::make(small(m.row_size[3 - i]));
  }
  m.column_size[0] /= piece, m.column_stride[0] *= piece;
  for (int i = 0; i < 4; ++i) {
    p.column_stride[i] = small(m.column_stride[i] / piece);
    p.by_size[i] = Divider::make(small(m.column_size[i]));
  }
  return p;
}

template <class T, bool Gathers>
void launch_copy(const PatchCopy &p, cudaStream_t stream) {
  const int32_t lanes = 1 << p.lanes_shift;
  const int32_t count = (p.rows + lanes - 1) / lanes * p.by_group.by;
  launch_waiting(copy_patches<T, Gathers>, blocks_for(count, kThreads), kThreads, 0, stream, p, count);
}

template <bool Gathers>
void copy(PatchMatrix m, int64_t row, const void *tensor, const void *matrix, cudaStream_t stream) {
  if (m.rows() == 0) return;
  join_columns(&m);
  const int64_t piece = piece_elements(m, tensor);
  const PatchCopy p = make_copy(m, row, tensor, matrix, piece);
  switch (piece * sdk::type_bytes(m.type)) {
    case 16: launch_copy<uint4, Gathers>(p, stream); break;
    case 8: launch_copy<uint2, Gathers>(p, stream); break;
    case 4: launch_copy<uint32_t, Gathers>(p, stream); break;
    default: launch_copy<uint16_t, Gathers>(p, stream); break;
  }
}

} // namespace

bool fits_patch_copy(const PatchMatrix &m, int64_t row) {
  double image = 0; // elements that a window's place and its elements span
  for (int i = 0; i < 4; ++i) {
    if (i > 0) image += real(m.row_size[i]) * std::fabs(real(m.row_stride[i]));
    image += real(m.column_size[i]) * std::fabs(real(m.column_stride[i]));
  }
  return image < real(kMostCounted) &&
         real(m.rows() + 32) * real(row) * real(sdk::type_bytes(m.type)) / 16 < real(kMostCounted) &&
         real(m.rows()) < real(kMostCounted) && real(row) < real(kMostCounted) / 8;
}

// Into and out of the second cache bytes move half as fast again as to memory.
double patch_copy_us(const PatchMatrix &m, int64_t row) {
  constexpr double kCached = 50e6;
  PatchMatrix joined = m;
  join_columns(&joined);
  const double bytes = 2 * real(m.rows()) * real(row) * real(sdk::type_bytes(m.type));
  const double singly = piece_elements(joined, nullptr) == 1 ? 2 : 1; // elements one by one take instructions
  return 1.4 + bytes * singly / (bytes < kCached ? 5.5e6 : 3.5e6);
}

void gather_patches(const PatchMatrix &m, int64_t row, const void *tensor, void *matrix, cudaStream_t stream) {
  copy<true>(m, row, tensor, matrix, stream);
}

void scatter_patches(const PatchMatrix &m, int64_t row, const void *matrix, void *tensor, cudaStream_t stream) {
  copy<false>(m, row, tensor, matrix, stream);
}

void spread_channels(const PatchMatrix &m, PatchOrder order, int64_t row, const void *channels, void *elements,
                     int64_t bytes, cudaStream_t stream) {
  const int32_t count = small(row), all = small(m.columns());
  const bool last = order == PatchOrder::kChannelsLast;
  const int32_t count_of_channels = small(last ? m.column_size[0] : m.column_size[3]);
  const Divider inner = Divider::make(last ? 1 : all / count_of_channels), of = Divider::make(count_of_channels);
  const auto go = [&](auto value) {
    using T = decltype(value);
    spread<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(static_cast<const T *>(channels),
                                                                 static_cast<T *>(elements), count, all, inner, of);
  };
  if (bytes == 8)
    go(uint64_t{});
  else
    go(uint32_t{});
  check_launch("a value for each element of a window");
}

} // namespace polyconv::cuda
