// add.cu - the sum over pieces of the gradient of weights, where the blocks that left them have not added them. Where
// memory has channels side by side, as those do it (quads.cuh). Else a block adds some rows of one chunk of input
// channels, all taps of a row: they meet in shared memory and leave in the order in which they lie, in vectors where
// all taps of the channels are a row's neighbours.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/launch.hpp"
#include "common/numbers.hpp"
#include "common/ptx/hopper.cuh"
#include "common/values.cuh"
#include "weights/quads.cuh"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256, kMostTaps = 64, kMostLines = 64; // a line: 64 sums of a row and tap; of all ways
constexpr int kQuads = 16, kPitch = kQuads + 1;                // of a line, fours of sums; one more parts the banks

// ---------------------------------------------------------------- channels side by side

template <class Out, bool Vectors, int Each>
__global__ void __launch_bounds__(kThreads, 3) add_apart(const __grid_constant__ WeightsProduct p, TileShape shape) {
  ptx::let_next_begin();
  add_quads<Out, Vectors, Each>(p, shape, kThreads / 32, static_cast<int32_t>(blockIdx.x),
                                static_cast<int32_t>(gridDim.x), [] { ptx::await_previous(); });
}

template <class Out>
void launch_apart(const WeightsProduct &p, const WeightsShape &shape, cudaStream_t stream) {
  constexpr int kMostBlocks = 3 * kWorkers;
  const int64_t quads = int64_t{p.row_tiles} * ceil_div(p.chunks, shape.chunks) * shape.rows * shape.chunks * kQuads;
  const bool many = p.ways == 1 && quads > int64_t{kMostBlocks} * kThreads;
  const int64_t blocks = std::min<int64_t>(ceil_div(quads * p.ways, kThreads * (many ? kMostEach : 1)), kMostBlocks);
  const auto kernel = p.vector > 1 ? (many ? add_apart<Out, true, kMostEach> : add_apart<Out, true, 1>)
                                   : (many ? add_apart<Out, false, kMostEach> : add_apart<Out, false, 1>);
  launch_early(kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, p, TileShape{shape.rows, shape.chunks});
}

// ---------------------------------------------------------------- else

struct Adding {
  WeightsProduct product;
  TileShape shape;
  int32_t taps;
  int32_t rows = 1, most_taps = 1; // of a block; rows are a power of two
  int32_t row_bits = 0;            // of rows
  int32_t ways = 1;                // threads that share the pieces of a quad
};

// A sum of four that a thread adds: of a row of the block, a tap, a quad of their line; which of the threads that share
// its pieces this is.
struct Place {
  int32_t within, tap, quad, way;

  // Two quads of a row, then of the next: so they lie in a square.
  __device__ Place(const Adding &p, int32_t taps, int32_t i) {
    quad = i % 2, i /= 2;
    const int32_t rest = i >> p.row_bits, line = rest / (kQuads / 2);
    within = i - (rest << p.row_bits), quad += rest % (kQuads / 2) * 2;
    way = p.ways == 1 ? 0 : line / taps, tap = line - way * taps;
  }
  // From where the pieces of its tap begin.
  __device__ int32_t offset(const Adding &p) const { return p.shape.squares().at(within, quad * 4) / 4; }
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
  return column - own_column(p.product, row / p.shape.rows * p.shape.rows, row);
}

// Whether some of four columns are channels of a row's own.
__device__ inline bool has_own(const Adding &p, int32_t row, int32_t column) {
  if (row >= p.product.rows) return false;
  const int32_t channel = channel_of(p, row, column);
  return channel + 3 >= 0 && channel < p.product.weights.size[1];
}

// All of a block, whose sums lie in shared memory: `values` gives that of a row of the block, a tap and a channel.
template <class Out, class Values>
__device__ inline void store_rows(const Adding &p, const Values &values, int32_t row, int32_t first) {
  constexpr int32_t kVector = 16 / sizeof(Out);
  const View<int64_t> &weights = p.product.weights;
  const auto channels = static_cast<int32_t>(weights.size[1]) - first;
  const int32_t each = min(64, channels) * p.taps / kVector; // vectors of a row
  Out *const begin = static_cast<Out *>(p.product.result) + weights.offset + first * weights.stride[1];
  for (auto i = static_cast<int32_t>(threadIdx.x); i < p.rows * each; i += kThreads) {
    const int32_t within = i / each;
    if (row + within >= weights.size[0]) return;
    store_along_row(begin + (row + within) * weights.stride[0], (i - within * each) * kVector, p.taps,
                    [&](int32_t tap, int32_t channel) { return values(within, tap, channel); });
  }
}

// Blocks: chunks of a tap and rows, then taps.
__global__ void __launch_bounds__(kThreads, 4) add_rows(const __grid_constant__ Adding p) {
  __shared__ PiecesOfTile pieces[kMostTaps];
  __shared__ int64_t offsets[kMostTaps];
  extern __shared__ float4 sums[]; // as many as meet there
  const View<int64_t> &weights = p.product.weights;
  const auto thread = static_cast<int32_t>(threadIdx.x), block = static_cast<int32_t>(blockIdx.x);
  const int32_t row = block / p.product.tap_chunks * p.rows, chunk = block % p.product.tap_chunks, first = chunk * 64;
  const int32_t first_tap = static_cast<int32_t>(blockIdx.y) * p.most_taps, taps = min(p.most_taps, p.taps - first_tap);
  if (thread < taps) {
    const int32_t column = (first_tap + thread) * p.product.tap_chunks + chunk, across = column / p.shape.chunks;
    pieces[thread] = pieces_of_tile(p.product, p.shape, across * p.product.row_tiles + row / p.shape.rows,
                                    p.shape.squares().at(row % p.shape.rows, column % p.shape.chunks * 64) / 4);
    offsets[thread] = offset_of(weights, first_tap + thread);
  }
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous();

  const int32_t lines = p.rows * taps;
  for (int32_t i = thread; i < lines * kQuads * p.ways; i += kThreads) {
    const Place place(p, taps, i);
    const PiecesOfTile &of = pieces[place.tap];
    if (!has_own(p, row + place.within, first + place.quad * 4)) continue;
    sums[(place.way * lines + place.within * taps + place.tap) * kPitch + place.quad] =
        add_quad(of, of.count * place.way / p.ways, of.count * (place.way + 1) / p.ways, place.offset(p));
  }
  __syncthreads();
  // Neighbouring threads take neighbours in memory: taps.
  const auto *values = reinterpret_cast<const float *>(sums);
  const auto value = [&](int32_t within, int32_t tap, int32_t lane) {
    float sum = 0;
    for (int32_t way = 0; way < p.ways; ++way) sum += values[(way * lines + within * taps + tap) * (4 * kPitch) + lane];
    return sum;
  };
  const int32_t type = p.product.result_type;
  if (p.product.dense_rows) {
    if (type == POLYCONV_F32) return store_rows<float>(p, value, row, first);
    if (type == POLYCONV_F16) return store_rows<__half>(p, value, row, first);
    return store_rows<__nv_bfloat16>(p, value, row, first);
  }
  const int32_t step_outer = kThreads / taps, step_inner = kThreads - step_outer * taps;
  int32_t lane = thread / taps, tap = thread - lane * taps, within = lane / 64;
  for (lane -= within * 64; within < p.rows;) {
    if (row + within < p.product.rows) {
      const int32_t c = channel_of(p, row + within, first + lane);
      if (c >= 0 && c < weights.size[1])
        cuda::store(p.product.result, type, offsets[tap] + (row + within) * weights.stride[0] + c * weights.stride[1],
                    value(within, tap, lane));
    }
    tap += step_inner, lane += step_outer;
    if (tap >= taps) tap -= taps, ++lane;
    while (lane >= 64) lane -= 64, ++within;
  }
}

// Of a block so much that a thread has a quad, as long as there are blocks enough for all multiprocessors; and more,
// which spread a block's beginning, where there are many.
void share_out(Adding &a, int64_t quads) {
  const auto fits = [&](int32_t most, int32_t least_blocks) {
    const int32_t more = 2 * a.rows * kQuads * a.most_taps;
    return more <= most && quads / more >= least_blocks;
  };
  a.most_taps = std::min(a.taps, kMostTaps);
  while (a.most_taps > 1 && quads / kQuads / a.most_taps < 2 * kWorkers) a.most_taps = (a.most_taps + 1) / 2;
  while (a.rows < kMostLines && (fits(kThreads, 2 * kWorkers) || fits(kMostLines * kQuads, 7 * kWorkers))) a.rows *= 2;
}

void launch_rows(const WeightsProduct &p, const WeightsShape &shape, cudaStream_t stream) {
  Adding a = {p, {shape.rows, shape.chunks}, p.taps[0] * p.taps[1] * p.taps[2]};
  const int64_t quads = int64_t{p.rows} * p.tap_chunks * a.taps * kQuads;
  share_out(a, quads);
  const int32_t each = (p.shares.workers + p.shares.tiles - 1) / p.shares.tiles;
  while (2 * a.ways <= each && quads * a.ways < int64_t{kWorkers} * 1024 &&
         2 * a.ways * a.rows * kQuads * a.most_taps <= kThreads) // a thread has one quad: it waits once
    a.ways *= 2;
  while (1 << a.row_bits < a.rows) ++a.row_bits;
  if (p.group_rows != 0 || a.most_taps != a.taps) a.product.dense_rows = 0;
  const dim3 blocks(static_cast<unsigned>(p.tap_chunks * ceil_div(p.rows, a.rows)),
                    static_cast<unsigned>(ceil_div(a.taps, a.most_taps)));
  // No more than is asked for: blocks that find no room beside the product's crowd on those that are done first.
  launch_early(add_rows, blocks, kThreads, a.ways * a.rows * a.most_taps * kPitch * 16, stream, a);
}

} // namespace

void add_pieces(const WeightsProduct &p, const WeightsShape &shape, cudaStream_t stream) {
  if (leaves_whole(p)) return;
  if (p.narrow) return turn_pieces(p, shape, stream);
  if (p.weights.stride[1] != 1) return launch_rows(p, shape, stream);
  if (p.result_type == POLYCONV_F32) return launch_apart<float>(p, shape, stream);
  if (p.result_type == POLYCONV_F16) return launch_apart<__half>(p, shape, stream);
  launch_apart<__nv_bfloat16>(p, shape, stream);
}

} // namespace polyconv::cuda::wgmma
