// march.cuh - a warp marches down the rows of eight positions: images of one filter, and channels last.
//
// Rows come in pieces of 16 bytes into a ring in shared memory that belongs to the warp alone, eight steps ahead. Each
// row is taken from there once, into a ring of registers, and used by all rows of taps that see it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "banded/parts.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/shared.cuh"

namespace polyconv::cuda::banded {

inline constexpr int kMarchThreads = 128;
inline constexpr int kAhead = 8;                   // stages on their way from memory
inline constexpr int kPiece = 8, kMostPieces = 12; // elements; in a row

// A stage is the input rows that a step of the march is the first to use; the ring of registers holds those of one
// step.
__host__ __device__ constexpr int stage_rows(const Form &f) {
  return f.rows * f.step;
}
__host__ __device__ constexpr int stages_in_use(const Form &f) {
  return (f.input_rows() + stage_rows(f) - 1) / stage_rows(f);
}

// Where a warp marches.
struct Path {
  int32_t group, image, first_position, first_row, end_row;

  __device__ __forceinline__ Path(const Geometry &g, int32_t warp) {
    group = warp % g.groups, warp /= g.groups;
    first_position = warp % g.tiles * kPositions, warp /= g.tiles;
    first_row = warp % g.strips * g.strip, image = warp / g.strips;
    end_row = min(first_row + g.strip, g.output_h);
  }
  __device__ __forceinline__ int32_t input_row(const Geometry &g) const { return first_row * g.step_h - g.pad_h; }
  __device__ __forceinline__ int32_t input_end(const Geometry &g) const {
    return min((end_row - 1) * g.step_h - g.pad_h + g.taps_h, g.input_h);
  }
};

// Loads a lane's share of its windows, stage by stage: elements 2 words t to 2 words (t + 1) - 1 of position g.
template <class F>
class PieceLoader {
  static constexpr int kRows = stage_rows(F::value), kWords = F::value.words;
  static constexpr uint32_t kNowhere = ~0u;
  static constexpr int kRowBytes = kMostPieces * kPiece * 2, kStageBytes = kRows * kRowBytes;

 public:
  using Stage = uint32_t[kRows][kWords];
  static constexpr int kShared = kMarchThreads / 32 * kAhead * kStageBytes;

  __device__ __forceinline__ PieceLoader(const Geometry &g, const Pointers &p, const Path &path, void *shared)
      : end_row_(path.input_end(g)), stride_(int64_t{g.x_row} * kRows) {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t element = g.first + path.first_position * g.move, skew = element & (kPiece - 1);
    const int32_t pieces = (skew + (kPositions - 1) * g.move + 8 * kWords + kPiece - 1) / kPiece;
    const int32_t row = lane / pieces, mine = element - skew + lane % pieces * kPiece;
    row_ = path.input_row(g) + row;
    inside_ = mine >= 0 && mine < g.input_row;
    from_ = static_cast<const uint16_t *>(p.x) + path.image * g.x_image + row_ * int64_t{g.x_row} + mine;
    const uint32_t own =
        static_cast<uint32_t>(__cvta_generic_to_shared(shared)) + threadIdx.x / 32 * kAhead * kStageBytes;
    into_ = row < kRows ? own + row * kRowBytes + lane % pieces * kPiece * 2 : kNowhere;
    window_ = own + (skew + place_of(lane / 4, g.spread) * g.move + lane % 4 * 2 * kWords) * 2;
#pragma unroll 1
    for (int i = 0; i < kAhead - 1; ++i) begin(i);
  }

  // The next stage, which is in slot number % kAhead of the ring; zeros outside of the image.
  __device__ __forceinline__ void next(Stage &to, int number) {
    __syncwarp(); // all have taken what begin writes over
    begin((number + kAhead - 1) % kAhead);
    await_groups<kAhead - 1>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const uint32_t from = window_ + number % kAhead * kStageBytes + i * kRowBytes;
      if constexpr (kWords == 2 && !F::value.pixels) {
        const uint2 words = ptx::load_words(from);
        to[i][0] = words.x, to[i][1] = words.y;
      } else {
#pragma unroll
        for (int w = 0; w < kWords; ++w) to[i][w] = ptx::load_word(from + w * 4);
      }
    }
  }

 private:
  __device__ __forceinline__ void begin(int slot) {
    if (into_ != kNowhere) {
      const bool here = inside_ && static_cast<uint32_t>(row_) < static_cast<uint32_t>(end_row_);
      copy_async<16>(into_ + slot * kStageBytes, from_, here);
    }
    commit_copies();
    row_ += kRows;
    from_ += stride_;
  }

  const int32_t end_row_;
  const int64_t stride_;
  int32_t row_; // of the next piece
  bool inside_;
  const uint16_t *from_;
  uint32_t into_, window_;
};

// The same from rows of every alignment, element by element and when they are wanted.
template <class F>
class SingleLoader {
  static constexpr Form f = F::value;

 public:
  using Stage = uint32_t[stage_rows(f)][f.words];
  static constexpr int kShared = 16;

  __device__ __forceinline__ SingleLoader(const Geometry &g, const Pointers &p, const Path &path, void *)
      : row_(path.input_row(g)), end_row_(path.input_end(g)), stride_(g.x_row) {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t element =
        g.first + (path.first_position + place_of(lane / 4, g.spread)) * g.move + lane % 4 * 2 * f.words;
#pragma unroll
    for (int i = 0; i < 2 * f.words; ++i)
      inside_ |= static_cast<uint32_t>(element + i >= 0 && element + i < g.input_row) << i;
    from_ = static_cast<const uint16_t *>(p.x) + path.image * g.x_image + row_ * int64_t{g.x_row} + element;
  }

  __device__ __forceinline__ void next(Stage &to, int) {
#pragma unroll
    for (int i = 0; i < stage_rows(f); ++i) {
      const uint32_t here = static_cast<uint32_t>(row_) < static_cast<uint32_t>(end_row_) ? inside_ : 0;
#pragma unroll
      for (int w = 0; w < f.words; ++w) {
        uint32_t low = 0, high = 0;
        if (here >> (2 * w) & 1) low = __ldg(from_ + 2 * w);
        if (here >> (2 * w + 1) & 1) high = __ldg(from_ + 2 * w + 1);
        to[i][w] = low | high << 16;
      }
      ++row_;
      from_ += stride_;
    }
  }

 private:
  int32_t row_;
  const int32_t end_row_;
  const int64_t stride_;
  const uint16_t *from_;
  uint32_t inside_ = 0;
};

// Where the results of a lane go: of each tile two of the rows of weights, neighbours in memory, at two positions.
template <class F>
struct MarchTargets {
  static constexpr Form f = F::value;
  int32_t image, row, end_row, filter; // row: of the next results; filter: of the first
  int32_t column[2];

  __device__ __forceinline__ MarchTargets(const Geometry &g, const Path &path)
      : image(path.image), end_row(path.end_row) {
    const auto lane = static_cast<int32_t>(threadIdx.x) % 32;
    const int32_t m = lane / 4, pairs = f.pixels ? 1 : g.columns / 2;
    row = path.first_row + (f.pixels ? 0 : m / pairs % f.rows);
    filter = path.group * g.tile_filters * f.tiles + (f.pixels ? m * 2 * f.tiles : m / pairs / f.rows);
#pragma unroll
    for (int e = 0; e < 2; ++e)
      column[e] = (path.first_position + place_of(lane % 4 * 2 + e, g.spread)) * g.columns + m % pairs * 2;
  }
  // Half i of the rows of weights.
  __device__ __forceinline__ int32_t filter_of(const Geometry &g, int i) const {
    return filter + (f.pixels ? i : i / 2 * g.tile_filters);
  }
  __device__ __forceinline__ int32_t column_of(int e, int i) const {
    return column[e] + (f.pixels ? 0 : i % 2);
  }
  __device__ __forceinline__ int64_t offset(const Geometry &g, int32_t k, int32_t h, int32_t w) const {
    return image * g.y_image + k * g.y_filter + h * g.y_row + w * g.y_column;
  }
};

// The results of a lane at one position, computed again where they are NaN. A call, so that the march keeps its
// registers.
template <class T, class F>
__device__ __noinline__ void repair_column(const Geometry &g, const Pointers &p, MarchTargets<F> to, int e,
                                           int32_t first_row) {
  for (int32_t i = 0; i < 2 * F::value.tiles; ++i) {
    const int32_t k = to.filter_of(g, i), w = to.column_of(e, i);
    if (k >= g.filters || w >= g.output_w) continue;
    for (int32_t h = first_row + (to.row - first_row) % F::value.rows; h < to.end_row; h += F::value.rows)
      if (const Spot<T> spot = {p.y, g.result_type == POLYCONV_F32, to.offset(g, k, h, w)}; spot.is_nan())
        spot.put(exact_result<T>(g, p, to.image, k, h, w));
  }
}

// From sums to the result. Together: a lane's neighbours leave at once, in the input's type; or one by one, in every
// type.
template <class T, class F, bool together>
class Results {
  static constexpr int kTiles = F::value.tiles;
  static constexpr bool pixels = F::value.pixels;

 public:
  __device__ __forceinline__ Results(const Geometry &g, const Pointers &p, const Path &path) : to_(g, path) {
    const int64_t at = to_.offset(g, to_.filter, to_.row, to_.column[0]);
    first_ = static_cast<uint16_t *>(p.y) + at;
    apart_ = (to_.column[1] - to_.column[0]) * g.y_column;
#pragma unroll
    for (int i = 0; i < 2 * kTiles; i += pixels ? 1 : 2) {
      const int32_t k = to_.filter_of(g, i);
      bias_[i / 2][pixels ? i % 2 : 0] = p.bias != nullptr && k < g.filters ? __ldg(p.bias + k) : 0.0f;
    }
  }

  // What the sums of a step begin with: the bias, where results have 16 bits and do not show that it came first.
  __device__ __forceinline__ void begin(float (&sums)[kTiles][4]) const {
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) sums[i / 4][i % 4] = together ? bias_of(i) : 0.0f;
  }

  // Stores the rows of a step, and moves on to the next.
  __device__ __forceinline__ void store(const Geometry &g, const Pointers &p, const float (&sums)[kTiles][4]) {
    uint32_t words[2][kTiles];
#pragma unroll
    for (int e = 0; e < 2; ++e)
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        words[e][i] = ptx::rounded_pair<T>(sums[i][e], sums[i][2 + e], g.relu != 0);
        seen_[e].look_at(words[e][i]);
      }
    if (to_.row < to_.end_row) {
      if constexpr (together) {
        if (to_.column[0] < g.output_w) put(first_, words[0], g);
        if (to_.column[1] < g.output_w) put(first_ + apart_, words[1], g);
      } else {
        store_singly(g, p, sums);
      }
    }
    to_.row += F::value.rows;
    first_ += F::value.rows * g.y_row;
  }

  // Looks again at the positions whose results were not all finite.
  __device__ __forceinline__ void repair(const Geometry &g, const Pointers &p, int32_t first_row) const {
#pragma unroll
    for (int e = 0; e < 2; ++e)
      if (seen_[e].nonfinite()) repair_column<T, F>(g, p, to_, e, first_row);
  }

 private:
  // The bias of sum i: tile, then half, then position.
  __device__ __forceinline__ float bias_of(int i) const {
    return bias_[i / 4][pixels ? i / 2 % 2 : 0];
  }

  __device__ __forceinline__ void put(uint16_t *to, const uint32_t (&words)[kTiles], const Geometry &g) const {
    if constexpr (!pixels) {
      static_assert(kTiles == 1, "one filter or two in a tile");
      if (to_.filter < g.filters) *reinterpret_cast<uint32_t *>(to) = words[0];
    } else if (to_.filter < g.filters) {
      if constexpr (kTiles == 4)
        *reinterpret_cast<uint4 *>(to) = make_uint4(words[0], words[1], words[2], words[3]);
      else
        *reinterpret_cast<uint2 *>(to) = make_uint2(words[0], words[1]);
    }
  }

  __device__ __forceinline__ void store_singly(const Geometry &g, const Pointers &p,
                                               const float (&sums)[kTiles][4]) const {
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      const int32_t k = to_.filter_of(g, i / 2), w = to_.column_of(i % 2, i / 2);
      const float v = sums[i / 4][i % 4] + bias_of(i);
      if (w < g.output_w && k < g.filters)
        Spot<T>{p.y, g.result_type == POLYCONV_F32, to_.offset(g, k, to_.row, w)}.put(g.relu && v < 0 ? 0.0f : v);
    }
  }

  MarchTargets<F> to_;
  uint16_t *first_; // of the results of a step; the other position's are `apart_` elements further
  int64_t apart_;
  float bias_[kTiles][pixels ? 2 : 1];
  Seen<T> seen_[2];
};

// Blocks on a multiprocessor that registers leave room for.
__host__ __device__ constexpr int march_blocks(const Form &f) {
  const int held = 4 * f.products() * f.tiles + stages_in_use(f) * stage_rows(f) * f.words + 5 * f.tiles + 36;
  return held <= 64 ? 8 : held <= 80 ? 6 : held <= 96 ? 5 : held <= 128 ? 4 : held <= 168 ? 3 : 2;
}

template <class T, class F, bool together>
__global__ void __launch_bounds__(kMarchThreads, march_blocks(F::value))
    march(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  constexpr Form f = F::value;
  constexpr int kStages = stages_in_use(f), kRows = stage_rows(f), kTurns = together ? kAhead : kStages;
  static_assert(kTurns % kStages == 0, "both rings are where they were after so many steps");
  using Loader = std::conditional_t<together, PieceLoader<F>, SingleLoader<F> >;
  __shared__ alignas(16) unsigned char shared[Loader::kShared];
  const int32_t warp = __shfl_sync(
      ~0u, static_cast<int32_t>(blockIdx.x) * (kMarchThreads / 32) + static_cast<int32_t>(threadIdx.x) / 32, 0);
  if (warp >= g.warps) return;
  const Path path(g, warp);
  Loader loader(g, p, path, shared);
  Weights<F> weights;
  weights.load(p, path.group);
  Results<T, F, together> results(g, p, path);
  typename Loader::Stage ring[kStages];
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) loader.next(ring[i], i);

#pragma unroll 1
  for (int32_t row = path.first_row;;) {
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int number = turn + kStages - 1; // its stage takes the place of the rows that the step before used last
      loader.next(ring[number % kStages], number);
      float sums[f.tiles][4];
      results.begin(sums);
      weights.template multiply<T, 1>(sums, sums, [&](int h) {
        const int in_ring = (turn * kRows + h / f.words) % (kStages * kRows);
        return ring[in_ring / kRows][in_ring % kRows][h % f.words];
      });
      results.store(g, p, sums);
      row += f.rows;
      if (row >= path.end_row) {
        results.repair(g, p, path.first_row);
        return;
      }
    }
  }
}

template <class T, class F>
constexpr Variant march_variant(Way way) {
  return {F::value,      way,
          kTypeOf<T>,    way == Way::kMarch ? march<T, F, true> : march<T, F, false>,
          kMarchThreads, march_blocks(F::value)};
}

} // namespace polyconv::cuda::banded
