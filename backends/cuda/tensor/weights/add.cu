// add.cu - the sum over pieces of the gradient of weights. A block adds some rows and columns of one chunk of input
// channels for some taps: a square or several, whose sums lie together, where memory has channels side by side; else
// all taps of a row. Where four channels are a vector in memory, each thread stores its own; else they meet in shared
// memory and leave in the order in which they lie, in vectors where all taps of the channels are a row's neighbours.
// What the blocks of the product would have added themselves, had the device run all of them at once, is added as they
// do it (quads.cuh), so that the bits are the same.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/launch.hpp"
#include "common/numbers.hpp"
#include "common/ptx/hopper.cuh"
#include "common/values.cuh"
#include "weights/quads.cuh"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256, kMostTaps = 64, kMostLines = 64; // a line: 64 sums of a row and tap; of all ways
constexpr int kQuads = 16;                                     // of a line of 64 columns, fours of sums

struct Adding {
  Shares shares;
  const float4 *pieces;
  View<int64_t> weights;
  void *result;
  int32_t type, taps, tap_chunks, row_tiles;
  int32_t tile_rows, tile_chunks;
  int32_t group_rows, group_channels, pairs;
  int32_t rows = 1, columns = 64, most_taps = 1; // of a block; rows and columns are powers of two
  int32_t row_bits = 0, eight_bits = 3;          // of rows, and of eights of columns
  int32_t ways = 1;                              // threads that share the pieces of a quad
  int32_t whole = 0;                             // 1: tiles of one piece have left already
  int32_t vectors = 0;                           // 1: four channels are a vector
  int32_t dense_rows = 0;                        // 1: a block's taps and channels are neighbours in memory, in vectors

  __device__ Squares squares() const { return {tile_chunks * 64 / Squares::kSide}; }
};

// The pieces of a tile, from a row and a column of a chunk on, which a block's rows and columns divide. Those of a pair
// of tiles lie side by side.
__device__ inline PiecesOfTile pieces_of(const Adding &p, int32_t row, int32_t chunk, int32_t column) {
  const int32_t across = chunk / p.tile_chunks, down = row / p.tile_rows, quads = p.tile_rows * p.tile_chunks * kQuads;
  const int32_t within = p.squares().at(row % p.tile_rows, chunk % p.tile_chunks * 64 + column) / 4;
  if (p.pairs == kNoPairs) return {p.shares, p.pieces, quads, across * p.row_tiles + down, within};
  const bool rows = p.pairs == kPairsOfRows;
  const int32_t pair = rows ? (across * p.row_tiles + down) / 2 : across / 2 * p.row_tiles + down;
  return {p.shares, p.pieces, 2 * quads, pair, within + (rows ? down : across) % 2 * quads};
}

// A sum of four that a thread adds: of a row of the block, a tap, a quad of their line; which of the threads that share
// its pieces this is.
struct Place {
  int32_t within, tap, quad, way;

  // Two quads of a row, then of the next: so they lie in a square.
  __device__ Place(const Adding &p, int32_t taps, int32_t i) {
    quad = i % 2, i /= 2;
    const int32_t rest = i >> p.row_bits, line = rest >> p.eight_bits;
    within = i - (rest << p.row_bits), quad += (rest - (line << p.eight_bits)) * 2;
    way = p.ways == 1 ? 0 : line / taps, tap = line - way * taps;
  }
  // From where the pieces of its tap begin.
  __device__ int32_t offset(const Adding &p) const { return p.squares().at(within, quad * 4) / 4; }
};

// Pieces [from, to) of a quad, in order; six are under way at once.
__device__ inline float4 add_quad(const PiecesOfTile &of, int32_t from, int32_t to, int32_t quad) {
  float4 sum = {};
  constexpr int kTogether = 6;
  for (int32_t i = from; i < to; i += kTogether) {
    float4 v[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) v[j] = i + j < to ? of(i + j, quad) : float4{};
#pragma unroll
    for (int j = 0; j < kTogether; ++j) sum.x += v[j].x, sum.y += v[j].y, sum.z += v[j].z, sum.w += v[j].w;
  }
  return sum;
}

// A row's own channel of a column of its tile, where columns are the channels of several groups.
__device__ inline int32_t channel_of(const Adding &p, int32_t row, int32_t column) {
  if (p.group_rows == 0) return column;
  return column - (row / p.group_rows - row / p.tile_rows * p.tile_rows / p.group_rows) * p.group_channels;
}

// Whether some of four columns are channels of a row's own.
__device__ inline bool has_own(const Adding &p, int32_t row, int32_t column) {
  const int32_t channel = channel_of(p, row, column);
  return channel + 3 >= 0 && channel < p.weights.size[1];
}

// All of a block from a row and a channel on, a vector of four channels a thread.
__device__ inline void add_vectors(const Adding &p, const PiecesOfTile *pieces, const int64_t *offsets, int32_t taps,
                                   int32_t row, int32_t first) {
  for (auto i = static_cast<int32_t>(threadIdx.x); i < p.rows * taps * p.columns / 4; i += kThreads) {
    const Place place(p, taps, i);
    const int32_t to = row + place.within, channel = channel_of(p, to, first + place.quad * 4);
    const PiecesOfTile &of = pieces[place.tap];
    if ((p.whole && of.count == 1) || to >= p.weights.size[0] || channel < 0 || channel >= p.weights.size[1]) continue;
    const int64_t at = offsets[place.tap] + to * p.weights.stride[0] + channel;
    const float4 sum = add_quad(of, 0, of.count, place.offset(p));
    if (p.type == POLYCONV_F32)
      store_four(static_cast<float *>(p.result) + at, sum);
    else if (p.type == POLYCONV_F16)
      store_four(static_cast<__half *>(p.result) + at, sum);
    else
      store_four(static_cast<__nv_bfloat16 *>(p.result) + at, sum);
  }
}

// All of a block, whose sums lie in shared memory: `values` gives that of a row of the block, a tap and a channel.
template <class Out, class Values>
__device__ inline void store_rows(const Adding &p, const Values &values, int32_t row, int32_t first) {
  constexpr int32_t kVector = 16 / sizeof(Out);
  const auto channels = static_cast<int32_t>(p.weights.size[1]) - first;
  const int32_t each = min(p.columns, channels) * p.taps / kVector; // vectors of a row
  Out *const begin = static_cast<Out *>(p.result) + p.weights.offset + first * p.weights.stride[1];
  for (auto i = static_cast<int32_t>(threadIdx.x); i < p.rows * each; i += kThreads) {
    const int32_t within = i / each;
    if (row + within >= p.weights.size[0]) return;
    store_along_row(begin + (row + within) * p.weights.stride[0], (i - within * each) * kVector, p.taps,
                    [&](int32_t tap, int32_t channel) { return values(within, tap, channel); });
  }
}

// Blocks: columns of the chunks of a tap and rows, then taps.
__global__ void __launch_bounds__(kThreads, 4) add(const __grid_constant__ Adding p) {
  __shared__ PiecesOfTile pieces[kMostTaps];
  __shared__ int64_t offsets[kMostTaps];
  extern __shared__ float4 sums[]; // as many as meet there
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t parts = 64 / p.columns, across = p.tap_chunks * parts;
  const auto block = static_cast<int32_t>(blockIdx.x), row = block / across * p.rows, part = block % across;
  const int32_t chunk = part / parts, column = part % parts * p.columns, first = chunk * 64 + column; // channel
  const int32_t first_tap = static_cast<int32_t>(blockIdx.y) * p.most_taps, taps = min(p.most_taps, p.taps - first_tap);
  if (thread < taps) {
    pieces[thread] = pieces_of(p, row, (first_tap + thread) * p.tap_chunks + chunk, column);
    offsets[thread] = offset_of(p.weights, first_tap + thread);
  }
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous();
  if (p.vectors) return add_vectors(p, pieces, offsets, taps, row, first);

  const int32_t lines = p.rows * taps, quads = p.columns / 4, pitch = quads + 1;
  for (int32_t i = thread; i < lines * quads * p.ways; i += kThreads) {
    const Place place(p, taps, i);
    const PiecesOfTile &of = pieces[place.tap];
    if ((p.whole && of.count == 1) || !has_own(p, row + place.within, first + place.quad * 4)) continue;
    sums[(place.way * lines + place.within * taps + place.tap) * pitch + place.quad] =
        add_quad(of, of.count * place.way / p.ways, of.count * (place.way + 1) / p.ways, place.offset(p));
  }
  __syncthreads();
  // Neighbouring threads take neighbours in memory: channels, or taps where their stride is the least.
  const auto *values = reinterpret_cast<const float *>(sums);
  const auto value = [&](int32_t within, int32_t tap, int32_t lane) {
    float sum = 0;
    for (int32_t way = 0; way < p.ways; ++way) sum += values[(way * lines + within * taps + tap) * (4 * pitch) + lane];
    return sum;
  };
  if (p.dense_rows) {
    if (p.type == POLYCONV_F32) return store_rows<float>(p, value, row, first);
    if (p.type == POLYCONV_F16) return store_rows<__half>(p, value, row, first);
    return store_rows<__nv_bfloat16>(p, value, row, first);
  }
  const bool channels_inner = p.weights.stride[1] == 1;
  const int32_t inner = channels_inner ? p.columns : taps, outer = channels_inner ? taps : p.columns;
  const int32_t step_outer = kThreads / inner, step_inner = kThreads - step_outer * inner;
  int32_t o = thread / inner, fast = thread - o * inner, within = o / outer;
  for (o -= within * outer; within < p.rows;) {
    const int32_t tap = channels_inner ? o : fast, lane = channels_inner ? fast : o,
                  c = channel_of(p, row + within, first + lane);
    const bool here = !p.whole || pieces[tap].count > 1;
    if (here && row + within < p.weights.size[0] && c >= 0 && c < p.weights.size[1])
      cuda::store(p.result, p.type, offsets[tap] + (row + within) * p.weights.stride[0] + c * p.weights.stride[1],
                  value(within, tap, lane));
    fast += step_inner, o += step_outer;
    if (fast >= inner) fast -= inner, ++o;
    while (o >= outer) o -= outer, ++within;
  }
}

// Of a block so much that a thread has a quad, as long as there are blocks enough for all multiprocessors; and more,
// which spread a block's beginning, where there are many. A square is whole before there are several.
void share_out(Adding &a, int64_t quads) {
  const auto fits = [&](int32_t most, int32_t least_blocks) {
    const int32_t more = 2 * a.rows * a.columns / 4 * a.most_taps;
    return more <= most && quads / more >= least_blocks;
  };
  const auto fit = [&] { return fits(kThreads, 2 * kWorkers) || fits(kMostLines * kQuads, 7 * kWorkers); };
  if (a.weights.stride[1] == 1) {
    a.columns = Squares::kSide;
    while (a.rows < std::min<int64_t>(Squares::kSide, a.weights.size[0])) a.rows *= 2;
    while (a.columns < 64 && fit()) a.columns *= 2;
    while (2 * a.most_taps <= std::min(a.taps, kMostTaps) && fit()) a.most_taps *= 2;
  } else {
    a.most_taps = std::min(a.taps, kMostTaps);
    while (a.most_taps > 1 && quads / kQuads / a.most_taps < 2 * kWorkers) a.most_taps = (a.most_taps + 1) / 2;
  }
  while (a.rows < kMostLines && fit()) a.rows *= 2;
}

// ---------------------------------------------------------------- what blocks would have added together

template <class Half>
__global__ void __launch_bounds__(kThreads, 2) add_apart(const __grid_constant__ WeightsProduct p, TileShape shape) {
  ptx::let_next_begin();
  add_quads<Half>(p, shape, kThreads / 32, static_cast<int32_t>(blockIdx.x), static_cast<int32_t>(gridDim.x),
                  [] { ptx::await_previous(); });
}

void launch_apart(WeightsProduct p, const WeightsShape &shape, cudaStream_t stream) {
  constexpr int kMostBlocks = 2 * kWorkers;
  const int64_t quads = int64_t{p.row_tiles} * ceil_div(p.chunks, shape.chunks) * shape.rows * shape.chunks * kQuads;
  for (p.each = 1; p.each < kMostEach && quads > int64_t{kMostBlocks} * kThreads * p.each;) p.each *= 2;
  const int64_t blocks =
      std::min<int64_t>(ceil_div(quads * (p.each == 1 ? p.ways : 1), kThreads * p.each), kMostBlocks);
  const auto kernel = p.result_type == POLYCONV_BF16 ? add_apart<__nv_bfloat16> : add_apart<__half>;
  launch_early(kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, p, TileShape{shape.rows, shape.chunks});
}

} // namespace

void add_pieces(const WeightsProduct &p, const WeightsShape &shape, cudaStream_t stream) {
  if (leaves_whole(p)) return;
  if (p.narrow) return turn_pieces(p, shape, stream);
  if (adds_together(p)) return launch_apart(p, shape, stream);
  const int32_t taps = p.taps[0] * p.taps[1] * p.taps[2];
  Adding a = {p.shares,      reinterpret_cast<const float4 *>(p.pieces),
              p.weights,     p.result,
              p.result_type, taps,
              p.tap_chunks,  p.row_tiles,
              shape.rows,    shape.chunks,
              p.group_rows,  p.group_channels,
              p.pairs};
  a.whole = p.whole;
  const int64_t quads = int64_t{p.rows} * p.tap_chunks * taps * kQuads;
  share_out(a, quads);
  const int32_t each = (p.shares.workers + p.shares.tiles - 1) / p.shares.tiles;
  while (2 * a.ways <= each && quads * a.ways < int64_t{kWorkers} * 1024 &&
         2 * a.ways * a.rows * a.columns / 4 * a.most_taps <= kThreads) // a thread has one quad: it waits once
    a.ways *= 2;
  while (1 << a.row_bits < a.rows) ++a.row_bits;
  while (8 << a.eight_bits > a.columns) --a.eight_bits;
  a.vectors = a.ways == 1 && p.vector > 1 ? 1 : 0;
  a.dense_rows = p.dense_rows && p.group_rows == 0 && a.most_taps == taps && !p.whole ? 1 : 0;
  const dim3 blocks(static_cast<unsigned>(p.tap_chunks * (64 / a.columns) * ceil_div(p.rows, a.rows)),
                    static_cast<unsigned>(ceil_div(taps, a.most_taps)));
  // No more than is asked for: blocks that find no room beside the product's crowd on those that are done first.
  const int shared = a.vectors ? 0 : a.ways * a.rows * a.most_taps * (a.columns / 4 + 1) * 16;
  launch_early(add, blocks, kThreads, shared, stream, a);
}

} // namespace polyconv::cuda::wgmma
