// tensor.cuh - a 3 x 3 depthwise layer and the 1 x 1 layer after it. Blocks go from tile to tile; the tile's
// input, halo included, comes in chunks of channels, one or two of which are on their way while one is worked on.
// Weights come with the chunks, unless all of them fit beside these.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mobile/exact.cuh"
#include "mobile/fetch.cuh"

namespace polyconv::cuda::mobile {

// Shared memory of a block.
struct PairRoom {
  unsigned char *stages, *weights; // weights: where resident
  float *bias;                     // of the depthwise layer, then of the 1 x 1 layer
  uint32_t table;
  Alarms alarms;

  __device__ PairRoom(unsigned char *shared, const Mobile &m) : stages(shared) {
    weights = stages + m.stages * stage_bytes(m);
    bias = reinterpret_cast<float *>(weights + (m.resident ? m.chunks() * m.pair_bytes() : 0));
    unsigned char *const behind = reinterpret_cast<unsigned char *>(bias + m.hidden_biases() + m.result_biases());
    table = shared_address(behind);
    alarms.words = reinterpret_cast<uint32_t *>(behind + kTableBytes + 12 * m.positions());
  }
  __device__ static int32_t stage_bytes(const Mobile &m) {
    return m.hidden_bytes() + (m.resident ? 0 : m.pair_bytes());
  }
};

// What is fetched next: a chunk of one of the block's tiles.
template <class T, int Chunk>
class PairLoader {
 public:
  __device__ PairLoader(const Mobile &m, const PairRoom &room)
      : table(m, room.table),
        walk_(m, static_cast<int>(blockIdx.x)),
        fetcher_(m, Chunk / 8, m.pitch()),
        stages_(shared_address(room.stages)) {}

  // The next chunk, if there is one. Between two calls the block meets.
  __device__ void fetch(const Mobile &m) {
    if (walk_.there(m)) {
      const Tile tile = table.tile(tile_);
      const uint32_t to = stages_ + stage_ * PairRoom::stage_bytes(m);
      fetcher_.template fetch<T, 4>(m, table.offsets(tile_), tile.image, chunk_ * Chunk, to);
      if (!m.resident) fetch_weights(m, tile.slice, chunk_, to + m.hidden_bytes());
      stage_ = stage_ + 1 == m.stages ? 0 : stage_ + 1;
      if (++chunk_ == m.chunks()) {
        chunk_ = 0, ++tile_;
        walk_.advance(m, table.step());
        if (walk_.there(m)) table.fill(m, tile_, walk_);
      }
    }
    commit_copies();
  }
  // Before the first.
  __device__ void begin(const Mobile &m) const {
    table.begin(m);
    __syncthreads();
    table.fill(m, 0, walk_);
    __syncthreads();
  }

  Table table;

 private:
  Walk walk_;
  Fetcher fetcher_;
  uint32_t stages_;
  int tile_ = 0, chunk_ = 0, stage_ = 0;
};

template <class T, int Rows, int Step, int Pairs>
__global__ void __launch_bounds__(most_threads(Rows, Pairs), 1) fuse_pair(const __grid_constant__ Mobile m) {
  constexpr int kChunk = chunk_of(Rows), kGroups = kChunk / kGroup;
  extern __shared__ __align__(16) unsigned char shared[];
  const PairRoom room(shared, m);
  const int warp = static_cast<int>(threadIdx.x) / 32, pair = warp / m.shares, share = warp % m.shares;
  const int stage_bytes = PairRoom::stage_bytes(m), chunks = m.chunks();
  const int tiles = (m.all_tiles() - static_cast<int>(blockIdx.x) - 1) / static_cast<int>(gridDim.x) + 1;
  const Units units(m, pair);
  const Bounds<T> bounds(m.filtered);
  float *const last_bias = room.bias + m.hidden_biases();

  fill_bias(room.bias, m.filtered.bias, m.hidden, m.hidden_biases());
  fill_bias(last_bias, m.projected.bias, m.results, m.result_biases());
  room.alarms.clear(tiles);
  if (m.resident)
    for (int chunk = 0; chunk < chunks; ++chunk)
      fetch_weights(m, 0, chunk, shared_address(room.weights) + chunk * m.pair_bytes());
  PairLoader<T, kChunk> loader(m, room);
  loader.begin(m);
  for (int i = 1; i < m.stages; ++i) {
    loader.fetch(m);
    __syncthreads();
  }
  int stage = 0;
  const uint32_t result_bias = shared_address(last_bias);
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    MobileSums<Rows, Pairs> sums;
    begin_sums<Rows, Pairs>(sums, share, result_bias + loader.table.tile(tile).slice * Pairs * 64);
    Watch<T> watch;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (m.stages == 3)
        await_groups<1>();
      else
        await_groups<0>();
      __syncthreads(); // the chunk is there, and nobody reads the one before
      loader.fetch(m);
      const uint32_t here = shared_address(room.stages) + stage * stage_bytes;
      const uint32_t weights =
          m.resident ? shared_address(room.weights) + chunk * m.pair_bytes() : here + m.hidden_bytes();
      const Sixteen first = {here, weights, shared_address(room.bias + chunk * kChunk),
                             static_cast<uint32_t>(m.patch[1] * m.pitch())};
      filter_and_project<T, Rows, Step, Pairs>(sums, m, units, first, weights + m.filter_bytes(), share,
                                               min(kGroups, m.hidden_groups() - chunk * kGroups), bounds, watch);
      if (chunk + 1 < chunks || m.shares == 1) stage = stage + 1 == m.stages ? 0 : stage + 1;
    }
    if (watch.alarmed()) room.alarms.raise(tile);
    if (m.shares > 1) {
      __syncthreads();
      add_shares<Rows, Pairs>(sums, m, pair, share, room.stages + stage * stage_bytes); // of the last chunk
      stage = stage + 1 == m.stages ? 0 : stage + 1;
    }
    if (room.alarms.let_leave(m, tile) && share == 0)
      store_units<T, Rows, Pairs>(m, sums, loader.table.tile(tile), units);
  }
  __syncthreads();
  room.alarms.answer<T>(m);
}

template <class T, int Rows, int Step, int Pairs>
struct PairKernel {
  static constexpr MobileKernel kernel = fuse_pair<T, Rows, Step, Pairs>;
};

template <class T>
MobileKernel find_pair(int rows, int step, int pairs) {
  return find_mobile<PairKernel, T>(rows, step, pairs);
}

} // namespace polyconv::cuda::mobile

#define POLYCONV_INSTANCE(T) template mobile::MobileKernel mobile::find_pair<T>(int, int, int);
