// inverted.cuh - an inverted residual: a 1 x 1 layer that expands, a 3 x 3 depthwise layer, and a 1 x 1 layer
// that projects. A block has the input of a tile, halo included, in shared memory, expands it by a chunk of channels at
// a time into shared memory, and goes on from there as pair/tensor.cuh does: the expanded tensor is never larger than
// that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mobile/exact.cuh"
#include "mobile/fetch.cuh"

namespace polyconv::cuda::mobile {

// Shared memory of a block.
struct InvertedRoom {
  unsigned char *hidden, *input, *weights; // a chunk expanded; the tile's input; the weights of all chunks or of two
  float *bias;                             // of the three layers
  uint32_t table;
  Alarms alarms;

  __device__ InvertedRoom(unsigned char *shared, const Mobile &m) : hidden(shared) {
    input = hidden + m.hidden_bytes();
    weights = input + m.positions() * m.input_pitch();
    bias = reinterpret_cast<float *>(weights + (m.resident ? m.chunks() : 2) * m.inverted_bytes());
    unsigned char *const behind = reinterpret_cast<unsigned char *>(bias + 2 * m.hidden_biases() + m.result_biases());
    table = shared_address(behind);
    alarms.words = reinterpret_cast<uint32_t *>(behind + kTableBytes + 12 * m.positions());
  }
};

// Where a warp expands from and to; addresses of shared memory. Weights and bias: of the chunk.
struct Expansion {
  uint32_t input, hidden, weights, bias, offsets;
};

// 32 positions x 32 channels of the chunk, of which the second 16 may not be there.
template <class T>
__device__ inline void expand_block(const Mobile &m, const Expansion &e, int first, int group, bool both,
                                    const Bounds<T> &bounds) {
  const int lane = lane_of(), depth = m.channel_groups(), last = m.positions() - 1, pitch = m.input_pitch();
  uint32_t from[2];
  float sum[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i) from[i] = e.input + min(first + i * 16 + lane % 16, last) * pitch + lane / 16 * 16;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const uint32_t at = e.bias + (group * kGroup + j * 8 + lane % 4 * 2) * 4;
    const float low = j < 2 || both ? __uint_as_float(ptx::load_settled(at)) : 0.0f,
                high = j < 2 || both ? __uint_as_float(ptx::load_settled(at + 4)) : 0.0f;
#pragma unroll
    for (int i = 0; i < 2; ++i) sum[i][j][0] = sum[i][j][2] = low, sum[i][j][1] = sum[i][j][3] = high;
  }
  uint32_t weights = e.weights + group * depth * kFragmentBytes + lane * 16;
#pragma unroll 1
  for (int k = 0; k < depth; ++k, weights += kFragmentBytes) {
    uint32_t a[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) load_matrices(a[i], from[i] + k * kGroup * 2);
    const uint4 v = ptx::load_shared(weights), w = ptx::load_shared(both ? weights + depth * kFragmentBytes : weights);
    const uint32_t b[8] = {v.x, v.y, v.z, v.w, w.x, w.y, w.z, w.w};
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) multiply_add(sum[i][j], a[i], b + 2 * j, T());
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int position = first + i * 16 + h * 8 + lane / 4;
      if (position > last) continue;
      const bool inside =
          static_cast<int>(ptx::load_settled(e.offsets + position * 4)) >= 0; // else it is the next layer's padding
      const uint32_t to = e.hidden + position * m.pitch() + (group * kGroup + lane % 4 * 2) * 2;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (j < 2 || both)
          ptx::store_word(to + j * 16,
                          inside ? bounds.apply(pair_of(sum[i][j][2 * h], sum[i][j][2 * h + 1], T())) : 0u);
    }
}

template <class T>
__device__ inline void expand_chunk(const Mobile &m, const Expansion &e, int groups, const Bounds<T> &bounds) {
  const int warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll 1
  for (int first = static_cast<int>(threadIdx.x) / 32 * 32; first < m.positions(); first += warps * 32)
#pragma unroll 1
    for (int group = 0; group < groups; group += 2) expand_block<T>(m, e, first, group, group + 1 < groups, bounds);
}

// All weights of a chunk: those of the first layer before the others.
__device__ inline void fetch_all_weights(const Mobile &m, int slice, int chunk, uint32_t to) {
  const int of_chunk = m.chunk() / kGroup, groups = min(of_chunk, m.hidden_groups() - chunk * of_chunk);
  const int of_group = m.channel_groups() * kFragmentBytes;
  fetch_bytes(to, static_cast<const char *>(m.expand) + int64_t{chunk} * of_chunk * of_group, groups * of_group);
  fetch_weights(m, slice, chunk, to + m.expand_bytes());
}

template <class T, int Rows, int Step, int Pairs>
__global__ void __launch_bounds__(most_threads(Rows, Pairs), 1) fuse_inverted(const __grid_constant__ Mobile m) {
  constexpr int kChunk = chunk_of(Rows), kGroups = kChunk / kGroup;
  extern __shared__ __align__(16) unsigned char shared[];
  const InvertedRoom room(shared, m);
  const int warp = static_cast<int>(threadIdx.x) / 32, pair = warp / m.shares, share = warp % m.shares;
  const int chunks = m.chunks(), of_chunk = m.inverted_bytes();
  const int tiles = (m.all_tiles() - static_cast<int>(blockIdx.x) - 1) / static_cast<int>(gridDim.x) + 1;
  const Units units(m, pair);
  const Bounds<T> expanded(m.expanded), filtered(m.filtered);
  float *const filter_bias = room.bias + m.hidden_biases(), *const last_bias = filter_bias + m.hidden_biases();
  const Table table(m, room.table);
  const Fetcher fetcher(m, m.channel_groups() * 2, m.input_pitch());
  const uint32_t input = shared_address(room.input), weights = shared_address(room.weights),
                 hidden = shared_address(room.hidden);
  Walk ahead(m, static_cast<int>(blockIdx.x)); // the last tile whose offsets are known

  fill_bias(room.bias, m.expanded.bias, m.hidden, m.hidden_biases());
  fill_bias(filter_bias, m.filtered.bias, m.hidden, m.hidden_biases());
  fill_bias(last_bias, m.projected.bias, m.results, m.result_biases());
  room.alarms.clear(tiles);
  table.begin(m);
  __syncthreads();
  const auto look_ahead = [&](int tile) {
    ahead.advance(m, table.step());
    if (tile < tiles) table.fill(m, tile, ahead);
  };
  table.fill(m, 0, ahead);
  look_ahead(1);
  __syncthreads();
  fetcher.fetch<T, 2>(m, table.offsets(0), table.tile(0).image, 0, input);
  for (int chunk = 0; chunk < (m.resident ? chunks : 1); ++chunk)
    fetch_all_weights(m, table.tile(0).slice, chunk, weights + chunk * of_chunk);
  int turn = 0; // of the weights
  const uint32_t result_bias = shared_address(last_bias);
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    MobileSums<Rows, Pairs> sums;
    begin_sums<Rows, Pairs>(sums, share, result_bias + table.tile(tile).slice * Pairs * 64);
    Watch<T> watch;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk, turn ^= 1) {
      const bool last = chunk + 1 == chunks, more = tile + 1 < tiles;
      const int groups = min(kGroups, m.hidden_groups() - chunk * kGroups);
      await_copies();
      __syncthreads(); // the weights are there, and nobody reads the chunk before
      if (!m.resident && (!last || more))
        fetch_all_weights(m, table.tile(last ? tile + 1 : tile).slice, last ? 0 : chunk + 1,
                          weights + (turn ^ 1) * of_chunk);
      const uint32_t here = weights + (m.resident ? chunk : turn) * of_chunk;
      const Expansion e = {input, hidden, here, shared_address(room.bias + chunk * kChunk), table.offsets(tile)};
      expand_chunk<T>(m, e, groups, expanded);
      __syncthreads(); // the chunk is expanded, and after the last nobody needs the input or its offsets
      if (last && more) {
        fetcher.fetch<T, 2>(m, table.offsets(tile + 1), table.tile(tile + 1).image, 0, input);
        look_ahead(tile + 2);
      }
      const Sixteen first = {hidden, here + m.expand_bytes(), shared_address(filter_bias + chunk * kChunk),
                             static_cast<uint32_t>(m.patch[1] * m.pitch())};
      filter_and_project<T, Rows, Step, Pairs>(sums, m, units, first, first.filters + m.filter_bytes(), share, groups,
                                               filtered, watch);
    }
    if (watch.alarmed()) room.alarms.raise(tile);
    if (m.shares > 1) {
      __syncthreads();
      add_shares<Rows, Pairs>(sums, m, pair, share, room.hidden);
    }
    if (room.alarms.let_leave(m, tile) && share == 0) store_units<T, Rows, Pairs>(m, sums, table.tile(tile), units);
  }
  __syncthreads();
  room.alarms.answer<T>(m);
}

template <class T, int Rows, int Step, int Pairs>
struct InvertedKernel {
  static constexpr MobileKernel kernel = fuse_inverted<T, Rows, Step, Pairs>;
};

template <class T>
MobileKernel find_inverted(int rows, int step, int pairs) {
  return find_mobile<InvertedKernel, T>(rows, step, pairs);
}

} // namespace polyconv::cuda::mobile

#define POLYCONV_INSTANCE(T) template mobile::MobileKernel mobile::find_inverted<T>(int, int, int);
