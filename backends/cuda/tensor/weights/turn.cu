// turn.cu - narrow pieces of the gradient of weights: whole tiles in the result's 16 bits, whose channels lie side by
// side, and which memory wants with a channel's taps side by side. A block turns some rows of a chunk of 64 input
// channels, all taps of them, by way of shared memory.
//
// Floor: 4 bytes a weight, read once and written once, at the rate of memory.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/launch.hpp"
#include "common/numbers.hpp"
#include "common/ptx/hopper.cuh"
#include "weights/stores.cuh"
#include "weights/weights.hpp"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256, kMostLines = kMostNarrowTaps; // a line: 64 weights of a row and tap
constexpr int kEights = 8, kPitch = kEights + 1;            // of a line, vectors of eight; one more parts the banks
constexpr int kTogether = 4;                                // that a thread has under way
static_assert(kMostLines * kEights == kThreads * kTogether, "a thread reads once");

struct Turning {
  Shares shares;
  const float4 *pieces;
  View<int64_t> weights;
  void *result;
  int32_t taps, tap_chunks, row_tiles;
  int32_t tile_rows, tile_chunks;
  int32_t row_bits = 0; // a block has 2^row_bits rows
  int32_t vectors = 0;  // 1: a row is stored in vectors of 16 bytes
};

// The lines of a block, tap after tap, which a row and a chunk of channels begin.
__device__ inline void read_lines(const Turning &p, float4 *lines, const float4 *const *pieces) {
  const int32_t rows = 1 << p.row_bits;
  const Squares squares = {p.tile_chunks * 64 / Squares::kSide};
  float4 eights[kTogether];
  int32_t at[kTogether];
#pragma unroll
  for (int j = 0; j < kTogether; ++j) { // neighbours of a square lie together: rows, then eights of a row
    const int32_t i = static_cast<int32_t>(threadIdx.x) + j * kThreads, rest = i >> p.row_bits;
    const int32_t within = i & (rows - 1), eight = rest % kEights, tap = rest / kEights;
    at[j] = tap < p.taps ? ((tap << p.row_bits) + within) * kPitch + eight : -1;
    if (at[j] >= 0) eights[j] = pieces[tap][squares.at(within, eight * 8) / 8];
  }
#pragma unroll
  for (int j = 0; j < kTogether; ++j)
    if (at[j] >= 0) lines[at[j]] = eights[j];
}

template <class T>
__global__ void __launch_bounds__(kThreads) turn(const __grid_constant__ Turning p) {
  __shared__ const float4 *pieces[kMostNarrowTaps];
  __shared__ float4 lines[kMostLines * kPitch];
  const auto block = static_cast<int32_t>(blockIdx.x), chunk = block % p.tap_chunks, rows = 1 << p.row_bits;
  const int32_t row = block / p.tap_chunks * rows, first = chunk * 64;
  for (auto tap = static_cast<int32_t>(threadIdx.x); tap < p.taps; tap += kThreads) {
    const int32_t column = tap * p.tap_chunks + chunk, tile = column / p.tile_chunks * p.row_tiles + row / p.tile_rows;
    const Squares squares = {p.tile_chunks * 64 / Squares::kSide};
    pieces[tap] = PiecesOfTile(p.shares, p.pieces, p.tile_rows * p.tile_chunks * kEights, tile,
                               squares.at(row % p.tile_rows, column % p.tile_chunks * 64) / 8)
                      .first;
  }
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous();
  read_lines(p, lines, pieces);
  __syncthreads();

  const auto *const values = reinterpret_cast<const T *>(lines);
  const auto value = [&](int32_t within, int32_t tap, int32_t channel) {
    return values[((tap << p.row_bits) + within) * (kPitch * 8) + channel];
  };
  const int32_t channels = min(64, static_cast<int32_t>(p.weights.size[1]) - first);
  T *const begin = static_cast<T *>(p.result) + first * p.weights.stride[1];
  const int32_t each = channels * p.taps / (p.vectors ? 8 : 1); // of a row
  for (auto i = static_cast<int32_t>(threadIdx.x); i < rows * each; i += kThreads) {
    const int32_t within = i / each, from = i - within * each;
    if (row + within >= p.weights.size[0]) return;
    if (p.vectors) {
      store_along_row(begin + p.weights.offset + (row + within) * p.weights.stride[0], from * 8, p.taps,
                      [&](int32_t tap, int32_t channel) { return static_cast<float>(value(within, tap, channel)); });
    } else {
      const int32_t channel = from / p.taps, tap = from - channel * p.taps;
      begin[offset_of(p.weights, tap) + (row + within) * p.weights.stride[0] + channel * p.weights.stride[1]] =
          value(within, tap, channel);
    }
  }
}

} // namespace

void turn_pieces(const WeightsProduct &p, const WeightsShape &shape, cudaStream_t stream) {
  const int32_t taps = p.taps[0] * p.taps[1] * p.taps[2];
  Turning t = {p.shares,    reinterpret_cast<const float4 *>(p.pieces),
               p.weights,   p.result,
               taps,        p.tap_chunks,
               p.row_tiles, shape.rows,
               shape.chunks};
  while ((2 << t.row_bits) * taps <= kMostLines && 2 << t.row_bits <= shape.rows) ++t.row_bits;
  t.vectors = p.dense_rows;
  const auto blocks = static_cast<unsigned>(p.tap_chunks * ceil_div(p.rows, int64_t{1} << t.row_bits));
  launch_early(p.result_type == POLYCONV_F16 ? turn<__half> : turn<__nv_bfloat16>, blocks, kThreads, 0, stream, t);
}

} // namespace polyconv::cuda::wgmma
