// reader.cuh - input rows of cuda-shuffle: from memory into a lane's registers, and from there to its neighbours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/global.cuh"
#include "shape.hpp"

namespace polyconv::cuda::shuffle {

// Neighbouring elements of a row as they lie in memory.
template <class T, int count>
struct Piece {
  static constexpr int kWords = count * static_cast<int>(sizeof(T)) / 4;
  uint32_t word[kWords > 0 ? kWords : 1];
};

// Loads where `real`, and gives zeros elsewhere: without a branch, so that loads of many rows are under way at once.
template <class T, int count>
__device__ __forceinline__ void load_vector(Piece<T, count> &piece, const T *from, bool real) {
  uint32_t *const w = piece.word;
#pragma unroll
  for (int i = 0; i < piece.kWords; ++i) w[i] = 0;
  if constexpr (piece.kWords % 4 == 0) {
#pragma unroll
    for (int i = 0; i < piece.kWords; i += 4)
      ptx::load_global_if(real, w[i], w[i + 1], w[i + 2], w[i + 3], reinterpret_cast<const char *>(from) + 4 * i);
  } else if constexpr (piece.kWords == 2) {
    ptx::load_global_if(real, w[0], w[1], from);
  } else {
    ptx::load_global_if(real, w[0], from);
  }
}

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>;

inline constexpr int32_t kNone = INT32_MIN; // an offset: of an element that is not there

// The same one by one: element i is line[offset[i]], or zero where there is none.
template <class T, int count>
__device__ __forceinline__ void load_elements(Piece<T, count> &piece, const T *line, const int32_t (*offset)[kThreads],
                                              bool real) {
  constexpr int kPerWord = 4 / sizeof(T);
#pragma unroll
  for (int i = 0; i < count; i += kPerWord) {
    uint32_t word = 0;
#pragma unroll
    for (int j = 0; j < kPerWord; ++j) {
      const int32_t at = offset[i + j][threadIdx.x];
      uint32_t bits = 0;
      if (real && at != kNone) bits = __ldg(reinterpret_cast<const Bits<T> *>(line) + at);
      word |= bits << (j * 8 * static_cast<int>(sizeof(T)) & 31);
    }
    piece.word[i / kPerWord] = word;
  }
}

template <class T, int count>
__device__ __forceinline__ void unpack(const Piece<T, count> &piece, float *v) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      v[i] = __uint_as_float(piece.word[i]);
    } else if constexpr (std::is_same_v<T, __half>) {
      const __half2 pair = *reinterpret_cast<const __half2 *>(&piece.word[i / 2]);
      v[i] = i % 2 == 0 ? __low2float(pair) : __high2float(pair);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      v[i] = __uint_as_float(i % 2 == 0 ? piece.word[i / 2] << 16 : piece.word[i / 2] & 0xffff0000u);
    } else {
      constexpr int kPerWord = 4 / sizeof(T), kBits = 8 * sizeof(T);
      v[i] = static_cast<float>(static_cast<Bits<T>>(piece.word[i / kPerWord] >> (i % kPerWord * kBits)));
    }
  }
}

// Columns left and right of a lane's own that its windows read, and the vector that the lanes at a tile's ends load of
// the tile's neighbours.
template <int n, int step, class T>
struct Columns {
  static constexpr int kOwn = columns_of(n, sizeof(T));
  static constexpr int kLeft = (n - 1) / 2, kRight = n - step - kLeft > 0 ? n - step - kLeft : 0;
  static constexpr int kReach = kLeft > kRight ? kLeft : kRight, kWord = 4 / static_cast<int>(sizeof(T));
  static constexpr int kVector = kReach > 4 ? 8 : kReach > 2 ? 4 : kReach > 1 ? 2 : 1;
  static constexpr int kEdge = kReach == 0 ? 0 : kVector > kWord ? kVector : kWord;
  static constexpr int kWindow = kLeft + kOwn + kRight;
  static_assert(kReach <= kOwn, "columns come from the next lanes only");
};

// A row in registers: the lane's own columns, and at a tile's ends the tile's neighbours.
template <int n, int step, class T>
struct Row {
  using C = Columns<n, step, T>;
  Piece<T, C::kOwn> own;
  Piece<T, C::kEdge> edge;
};

// padded_index, once in the code of a kernel: it is long, and called at borders only.
static __device__ __noinline__ int32_t folded(int32_t i, int32_t size, int32_t mode) {
  return static_cast<int32_t>(sdk::padded_index(i, size, mode));
}

// What a lane reads of a plane.
template <class T>
struct Source {
  const T *plane;
  int32_t left, edge_left; // columns: the lane's first, and the first beyond the tile's end
  int32_t top, end;        // rows: the first that the strip reads, and the one below its last
  bool first, last;        // lanes of the tile
};

// The columns that a lane's windows read, from its own and its neighbours' registers.
template <int n, int step, class T>
__device__ __forceinline__ void borrow(const March &m, const Source<T> &source, const float *edge,
                                       float (&v)[Columns<n, step, T>::kWindow]) {
  using C = Columns<n, step, T>;
#pragma unroll
  for (int i = 1; i <= C::kLeft; ++i) { // i columns to the left of the lane's first
    const float next = __shfl_up_sync(0xffffffffu, v[C::kLeft + C::kOwn - i], 1, m.width);
    v[C::kLeft - i] = source.first ? edge[C::kEdge - i] : next;
  }
#pragma unroll
  for (int i = 0; i < C::kRight; ++i) { // i columns to the right of its last
    const float next = __shfl_down_sync(0xffffffffu, v[C::kLeft + i], 1, m.width);
    v[C::kLeft + C::kOwn + i] = source.last ? edge[i] : next;
  }
}

// Reads the rows of a strip in vectors. Each is all inside the image, or all outside and zero.
template <int n, int step, class T>
class VectorReader {
  using C = Columns<n, step, T>;

 public:
  static constexpr int kAhead = rows_ahead(n);

  // Whether it can, for all lanes of the warp.
  __device__ __forceinline__ static bool reads(const Conv<int32_t> &p, const March &m, const Source<T> &s) {
    const int32_t size = p.input.size[4];
    const auto inside = [&](int32_t w, int count) { return w >= 0 && w + count <= size; };
    const auto outside = [&](int32_t w, int count) { return w + count <= 0 || w >= size; };
    const bool zeros = !m.folds && !m.fills, edge = C::kEdge > 0 && (s.first || s.last);
    const bool columns = (inside(s.left, C::kOwn) || (zeros && outside(s.left, C::kOwn))) &&
                         (!edge || inside(s.edge_left, C::kEdge) || (zeros && outside(s.edge_left, C::kEdge)));
    const bool rows = zeros || (s.top >= 0 && s.end <= p.input.size[3]);
    return m.vector_loads && __all_sync(0xffffffffu, columns && rows);
  }

  __device__ __forceinline__ VectorReader(const Conv<int32_t> &p, const March &, const Source<T> &s)
      : source_(s),
        row_(s.top),
        limit_(max(min(s.end, p.input.size[3]), 0)),
        own_inside_(s.left >= 0 && s.left < p.input.size[4]),
        edge_inside_((s.first || s.last) && s.edge_left >= 0 && s.edge_left < p.input.size[4]) {}

  // The next row.
  __device__ __forceinline__ void load(const Conv<int32_t> &p, const March &, Row<n, step, T> &row) {
    const bool real = static_cast<uint32_t>(row_) < static_cast<uint32_t>(limit_);
    const T *const line = source_.plane + row_ * p.input.stride[3];
    load_vector(row.own, line + source_.left, real && own_inside_);
    if constexpr (C::kEdge > 0) load_vector(row.edge, line + source_.edge_left, real && edge_inside_);
    ++row_;
  }

  __device__ __forceinline__ void spread(const Conv<int32_t> &, const March &m, const Row<n, step, T> &row,
                                         float (&v)[C::kWindow]) const {
    float edge[C::kEdge > 0 ? C::kEdge : 1];
    unpack(row.own, v + C::kLeft);
    if constexpr (C::kEdge > 0) unpack(row.edge, edge);
    borrow<n, step>(m, source_, edge, v);
  }

 private:
  const Source<T> source_;
  int32_t row_;
  const int32_t limit_;
  const bool own_inside_, edge_inside_;
};

// Reads the rows of a strip element by element, with every padding mode.
template <int n, int step, class T>
class ElementReader {
  using C = Columns<n, step, T>;

 public:
  static constexpr int kAhead = n > kSmall || sizeof(T) == 1 ? step : 2; // no more than registers allow
  using Offsets = int32_t[C::kOwn + C::kEdge][kThreads];                 // of elements from a row's beginning

  __device__ __forceinline__ ElementReader(const Conv<int32_t> &p, const March &, const Source<T> &s, Offsets &offsets)
      : source_(s), row_(s.top), offsets_(offsets) {
#pragma unroll 1
    for (int i = 0; i < C::kOwn + C::kEdge; ++i) {
      const bool own = i < C::kOwn;
      const int32_t w = own ? s.left + i : s.edge_left + i - C::kOwn;
      const int32_t read = folded(w, p.input.size[4], p.pad_mode);
      offsets[i][threadIdx.x] = read >= 0 && (own || s.first || s.last) ? read * p.input.stride[4] : kNone;
    }
  }

  __device__ __forceinline__ void load(const Conv<int32_t> &p, const March &m, Row<n, step, T> &row) {
    int32_t h = row_++;
    bool real = h < source_.end;
    if (real && static_cast<uint32_t>(h) >= static_cast<uint32_t>(p.input.size[3])) {
      h = folded(h, p.input.size[3], p.pad_mode);
      real = m.folds;
    }
    const T *const line = source_.plane + h * p.input.stride[3];
    load_elements(row.own, line, offsets_, real);
    if constexpr (C::kEdge > 0) load_elements(row.edge, line, offsets_ + C::kOwn, real);
  }

  // A row that was loaded kAhead rows ago.
  __device__ __forceinline__ void spread(const Conv<int32_t> &p, const March &m, const Row<n, step, T> &row,
                                         float (&v)[C::kWindow]) const {
    float edge[C::kEdge > 0 ? C::kEdge : 1];
    unpack(row.own, v + C::kLeft);
    if constexpr (C::kEdge > 0) unpack(row.edge, edge);
    if (m.fills) {
      const float padding = p.template padding<float>();
      const bool outside = static_cast<uint32_t>(row_ - kAhead) >= static_cast<uint32_t>(p.input.size[3]);
#pragma unroll
      for (int i = 0; i < C::kOwn; ++i)
        if (outside || offsets_[i][threadIdx.x] == kNone) v[C::kLeft + i] = padding;
#pragma unroll
      for (int i = 0; i < C::kEdge; ++i)
        if (outside || offsets_[C::kOwn + i][threadIdx.x] == kNone) edge[i] = padding;
    }
    borrow<n, step>(m, source_, edge, v);
  }

 private:
  const Source<T> source_;
  int32_t row_;
  const int32_t (*const offsets_)[kThreads];
};

} // namespace polyconv::cuda::shuffle
