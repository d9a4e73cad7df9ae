// wgmma_planes.cuh - the Hopper product of f32 rounded to TF32 where the channels of tensors are planes: a channel's
// pixels are neighbours in memory. The matrix units take TF32 from shared memory only along the depth, but from
// registers as it comes: so activations are the rows of products, and threads pick their pixels and channels of a stage
// from shared memory, where they lie as in memory. Nothing is turned on its way, in or out: of a product's sums, eight
// threads hold eight neighbouring pixels of a channel, 32 bytes of the result.
//
// The producer's threads have a pixel each, or four neighbours where no window shifts them, and copy that pixel of one
// channel after the other (cp.async): so a tile's pixels may lie anywhere, over the ends of rows and images, and
// padding is zeros. Depth goes by blocks of 32 channels, of each the taps: those read the same lines again.
//
// Floor: 2 N K P Q C R S at the rate of TF32 on the tensor cores, 418 TFLOP/s on an H200, and the bytes of both
// tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/async.cuh"
#include "mma_fragments.cuh"
#include "wgmma_planes.hpp"
#include "wgmma_product.cuh"

namespace polyconv::cuda::wgmma {

// Dense: depth counts channels, then taps, without gaps between channels, for layers of few.
template <int Pixels, int Channels, int Groups, int Teams, bool Dense>
struct PlanesTileOf : TileOf<float, Pixels, Channels, Groups, Teams, 1> {
  using Base = TileOf<float, Pixels, Channels, Groups, Teams, 1>;
  static constexpr bool dense = Dense;
  static constexpr int arrivals = 1 + 128; // weights, and each of the producer's threads
  // Bytes of a channel's pixels: the four channels that the threads of a quad read lie in different banks.
  static constexpr int row = (Pixels + 8) * 4;
  static constexpr int weights_bytes = Channels * 128, activation_bytes = Base::depth * row;
  static constexpr int stage_bytes = activation_bytes + weights_bytes, leave_bytes = 0;
  static constexpr int table_bytes = Dense ? kMostDense * 8 : 0; // behind the barriers
  static constexpr int stages = std::min(8, (Base::most_bytes - table_bytes) / stage_bytes);
  static constexpr int shared_bytes = stages * stage_bytes + 1024 + 256 + table_bytes;
  static constexpr int producer_registers = 56;
  static constexpr int consumer_registers =
      std::min(240, (Base::registers * Base::threads - producer_registers * 128) / (128 * Groups) / 8 * 8);
  static_assert(activation_bytes % 1024 == 0 && stages >= 3, "not a tile of planes");
};

// ---------------------------------------------------------------- the producer

// Where a pixel's window begins, and a bit for each tap of each axis: whether that lies inside the image.
struct Window {
  const float *from;
  uint32_t inside;

  Window() = default;
  __device__ Window(const Product &p, int32_t pixel) : from(p.input), inside(0) {
    if (pixel >= p.pixels) return;
    const View<int64_t> &input = p.conv.input;
    Place<int64_t> at = place_of_pixel(p, pixel);
    const int64_t out[3] = {at.d, at.h, at.w};
    int64_t begin[3];
    uint32_t bit = 1;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      begin[axis] = out[axis] * p.conv.stride[axis] - p.conv.pad[axis];
      for (int32_t tap = 0; tap < p.taps[axis]; ++tap, bit <<= 1) {
        const int64_t i = begin[axis] + tap * p.conv.dilation[axis];
        if (i >= 0 && i < input.size[2 + axis]) inside |= bit;
      }
    }
    from += input.at(at.n, 0, begin[0], begin[1], begin[2]);
  }
};

// A block of depth: the taps of a block of channels, then the next.
struct PlanesStep {
  int32_t tap[3], c;
  uint32_t bits;  // of a window that must be set
  int64_t offset; // elements from a window's beginning

  __device__ PlanesStep(const Product &p, int32_t block) {
    const int32_t taps = p.taps[0] * p.taps[1] * p.taps[2], index = block % taps, line = index / p.taps[2];
    c = block / taps * 32;
    tap[0] = line / p.taps[1], tap[1] = line % p.taps[1], tap[2] = index % p.taps[2];
    look(p);
  }
  __device__ int32_t index(const Product &p) const { return (tap[0] * p.taps[1] + tap[1]) * p.taps[2] + tap[2]; }
  __device__ void next(const Product &p) {
    if (++tap[2] == p.taps[2]) tap[2] = 0, ++tap[1];
    if (tap[1] == p.taps[1]) tap[1] = 0, ++tap[0];
    if (tap[0] == p.taps[0]) tap[0] = 0, c += 32;
    look(p);
  }

 private:
  __device__ void look(const Product &p) {
    bits = 1u << tap[0] | 1u << (p.taps[0] + tap[1]) | 1u << (p.taps[0] + p.taps[1] + tap[2]);
    offset = c * p.conv.input.stride[1];
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) offset += tap[axis] * p.conv.dilation[axis] * p.conv.input.stride[2 + axis];
  }
};

// Vector: neighbouring pixels of a copy.
template <class Tile, int Vector>
__device__ inline void fetch_planes(const Product &p, const Turn<Tile> &turn, Ring<Tile> &ring) {
  constexpr int kCopies = Tile::pixels / Vector, kLanes = kCopies < 128 ? kCopies : 128, kEach = kCopies / kLanes;
  constexpr int kStep = 128 / kLanes; // channels that the threads copy at once
  const auto thread = static_cast<int32_t>(threadIdx.x % 128), lane = thread % kLanes, first = thread / kLanes;
  Window windows[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) windows[i] = Window(p, turn.pixel + (lane + i * kLanes) * Vector);
  const int64_t plane = p.conv.input.stride[1];
  const uint32_t mine = first * Tile::row + lane * Vector * 4;
  PlanesStep step(p, turn.first);
#pragma unroll 1
  for (int32_t block = turn.first; block < turn.last; ++block, ring.next(), step.next(p)) {
    ring.await_empty();
    if (thread == 0) {
      ptx::barrier_expect(ring.full(), Tile::weights_bytes);
      ptx::load_box(ring.weights(), &p.weights, ring.full(), step.c, step.index(p), turn.channel);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const bool inside = (windows[i].inside & step.bits) == step.bits;
      const int32_t left = inside ? static_cast<int32_t>(p.conv.input.size[1]) - step.c - first : 0;
      const float *from = windows[i].from + step.offset + first * plane;
      const uint32_t to = ring.activations() + mine + i * kLanes * Vector * 4;
#pragma unroll
      for (int c = 0; c < Tile::depth; c += kStep, from += kStep * plane)
        copy_async<Vector * 4>(to + c * Tile::row, from, c < left);
    }
    ptx::barrier_arrive_copied(ring.full());
  }
}

// A place along the depth of a dense tile: elements from a window's beginning, and the window's bits that must be set.
// Beyond the last place they never are.
__device__ inline uint2 dense_place(const Product &p, int32_t index) {
  const int32_t taps = p.taps[0] * p.taps[1] * p.taps[2], c = index / taps, tap = index - c * taps;
  if (c >= p.conv.input.size[1]) return make_uint2(0, ~0u);
  PlanesStep step(p, tap);
  return make_uint2(static_cast<uint32_t>(step.offset + c * p.conv.input.stride[1]), step.bits);
}

template <class Tile>
__device__ inline void fetch_dense(const Product &p, const Turn<Tile> &turn, Ring<Tile> &ring, uint2 *table) {
  constexpr int kLanes = Tile::pixels < 128 ? Tile::pixels : 128, kEach = Tile::pixels / kLanes, kStep = 128 / kLanes;
  const auto thread = static_cast<int32_t>(threadIdx.x % 128), lane = thread % kLanes, first = thread / kLanes;
  Window windows[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) windows[i] = Window(p, turn.pixel + lane + i * kLanes);
  const uint32_t mine = first * Tile::row + lane * 4;
#pragma unroll 1
  for (int32_t block = turn.first; block < turn.last; ++block, ring.next()) {
    ring.await_empty();
    if (thread == 0) {
      ptx::barrier_expect(ring.full(), Tile::weights_bytes);
      ptx::load_box(ring.weights(), &p.weights, ring.full(), block * Tile::depth, 0, turn.channel);
    }
    const uint2 *const places = table + block * Tile::depth + first;
#pragma unroll
    for (int k = 0; k < Tile::depth; k += kStep) {
      const uint2 place = places[k];
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        copy_async<4>(ring.activations() + mine + i * kLanes * 4 + k * Tile::row,
                      windows[i].from + static_cast<int32_t>(place.x), (windows[i].inside & place.y) == place.y);
    }
    ptx::barrier_arrive_copied(ring.full());
  }
}

// All of a block's tiles, by the producer's warpgroup.
template <class Tile>
__device__ inline void produce_planes(const Product &p, Ring<Tile> &ring, uint2 *table) {
  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const int32_t turns = Turn<Tile>::count(p);
  if constexpr (Tile::dense) {
    for (auto i = static_cast<int32_t>(threadIdx.x % 128); i < p.depth_blocks * Tile::depth; i += 128)
      table[i] = dense_place(p, i);
    ptx::meet(1, 128);
    for (int32_t i = begin; i < turns; i += step) fetch_dense<Tile>(p, Turn<Tile>(p, i), ring, table);
  } else if (p.vector == 4) {
    for (int32_t i = begin; i < turns; i += step) fetch_planes<Tile, 4>(p, Turn<Tile>(p, i), ring);
  } else {
    for (int32_t i = begin; i < turns; i += step) fetch_planes<Tile, 1>(p, Turn<Tile>(p, i), ring);
  }
  await_copies();
}

// ---------------------------------------------------------------- the consumers

// A thread's activations of a stage: rows t / 4 and 8 on of its warp's pixels, channels t % 4 and 4 on of every eight.
template <class Tile>
struct PlanesFactors {
  uint32_t a[Tile::rows][Tile::depth / 8][4];

  // `member`: of the warpgroup, in its team.
  __device__ void load(uint32_t activations, int member) {
    const uint32_t pixel = member * Tile::rows * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    const uint32_t from = activations + threadIdx.x % 4 * Tile::row + pixel * 4;
#pragma unroll
    for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
      for (int k = 0; k < Tile::depth / 8; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[row][k][i] = tensor::rounded_to_tf32(
              ptx::load_word(from + (k * 8 + i / 2 * 4) * Tile::row + (row * 64 + i % 2 * 8) * 4));
  }
};

template <class Tile>
__device__ inline void sum_planes(float (&sums)[Tile::rows][Tile::channels / 2], const Turn<Tile> &turn,
                                  Ring<Tile> &ring, int member, int team) {
  constexpr int kStep = 32 >> 4; // of a descriptor: along the depth
#pragma unroll 1
  for (int32_t block = turn.first; block < turn.last; ++block) {
    ring.await_full();
    PlanesFactors<Tile> x;
    x.load(ring.activations(), member);
    const uint64_t w = ptx::matrix_descriptor(ring.weights());
    ptx::products_fence();
#pragma unroll
    for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
      for (int k = 0; k < Tile::depth / 8; ++k)
        ptx::multiply_held<float, Tile::channels>(sums[row], x.a[row][k], w + k * kStep, k > 0 || block > turn.first);
    ptx::products_commit();
    ring.next();
    if (block + 1 == turn.last) ring.pass_on(team);
    ptx::products_wait<0>();
    ring.release_before();
  }
}

// ---------------------------------------------------------------- a tile leaves

// Goes over a thread's sums of a pixel, two neighbours of every eight channels: body(place among the sums, pointer to
// the channel). `plane`: elements from one channel to the next; `channels`: from the thread's first one on.
template <class Tile, class T, class Body>
__device__ inline void each_channel(T *first, int64_t plane, int32_t channels, const Body &body) {
  T *second = first + plane;
#pragma unroll
  for (int j = 0; j < Tile::channels / 8; ++j, first += 8 * plane, second += 8 * plane) {
    if (8 * j < channels) body(4 * j, first);
    if (8 * j + 1 < channels) body(4 * j + 1, second);
  }
}

// Bias, residual and a relu, clipped or not: straight into the result's planes.
template <class Tile>
__device__ inline void leave_in_planes(const Product &p, float (&sums)[Tile::rows][Tile::channels / 2], int32_t pixel,
                                       int32_t channel) {
  const Epilogue &e = p.conv.epilogue;
  const float least = e.activation != POLYCONV_ACT_NONE ? 0.0f : -INFINITY;
  const float most = e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.alpha : INFINITY;
  channel += static_cast<int32_t>(threadIdx.x % 4) * 2, pixel += static_cast<int32_t>(threadIdx.x % 32 / 4);
  const int32_t channels = p.channels - channel;
  if (e.bias != nullptr) {
    each_channel<Tile>(static_cast<const float *>(e.bias) + channel, 1, channels, [&](int i, const float *bias) {
#pragma unroll
      for (auto &row : sums) row[i] += *bias, row[i + 2] += *bias;
    });
  }
#pragma unroll
  for (int index = 0; index < 2 * Tile::rows; ++index) {
    const int32_t mine = pixel + 8 * index + index / 2 * 48;
    if (mine >= p.pixels) continue;
    float *const values = sums[index / 2] + index % 2 * 2;
    Place<int64_t> at = place_of_pixel(p, mine);
    at.c = channel;
    if (e.residual != nullptr) {
      each_channel<Tile>(static_cast<const float *>(e.residual) + p.conv.residual.at(at), p.conv.residual.stride[1],
                         channels, [&](int i, const float *added) { values[i] += e.residual_scale * *added; });
    }
    each_channel<Tile>(static_cast<float *>(p.result) + p.conv.result.at(at), p.conv.result.stride[1], channels,
                       [&](int i, float *to) { *to = ptx::greater(ptx::lesser(values[i], most), least); });
  }
}

template <class Tile>
__device__ inline void leave_planes(const Product &p, float (&sums)[Tile::rows][Tile::channels / 2],
                                    const Turn<Tile> &turn, int member) {
  const int32_t pixel = turn.pixel + member * Tile::rows * 64 + static_cast<int32_t>(threadIdx.x % 128 / 32 * 16);
  if (p.plain) return leave_in_planes<Tile>(p, sums, pixel, turn.channel);
  constexpr int kChunks = Tile::channels / 32;
#pragma unroll 1
  for (int index = 0; index < Tile::rows * kChunks; ++index) {
    const int32_t channel = turn.channel + 32 * (index % kChunks), first = pixel + index / kChunks * 64;
    Values v;
    take_chunk<Tile>(sums, index, v);
    finish_each(p, v, first, channel);
  }
}

// ---------------------------------------------------------------- the kernel

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) multiply_planes(const __grid_constant__ Product p) {
  extern __shared__ unsigned char unaligned[];
  const uint32_t shared = (ptx::shared_address(unaligned) + 1023) / 1024 * 1024; // swizzled memory begins at 1024 bytes
  Ring<Tile> ring(shared);
  if (threadIdx.x == 0) ring.init();
  if (threadIdx.x == 32) ptx::prefetch(&p.weights);
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it
  const auto group = static_cast<int>(threadIdx.x / 128);
  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const int32_t turns = Turn<Tile>::count(p);
  if (group == Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    const uint32_t behind = shared - ptx::shared_address(unaligned) + Tile::stages * Tile::stage_bytes + 256;
    produce_planes<Tile>(p, ring, reinterpret_cast<uint2 *>(unaligned + behind));
  } else {
    ptx::take_registers<Tile::consumer_registers>();
    float sums[Tile::rows][Tile::channels / 2];
    const int team = group / Tile::team_groups, member = group % Tile::team_groups;
    uint32_t number = 0; // of turns, of all teams
    for (int32_t i = begin; i < turns; i += step, ++number) {
      const Turn<Tile> turn(p, i);
      if (static_cast<int>(number % Tile::teams) != team) {
        ring.skip(turn.last - turn.first);
        continue;
      }
      ring.await_team(team, number / Tile::teams);
      sum_planes<Tile>(sums, turn, ring, member, team);
      leave_planes<Tile>(p, sums, turn, member);
    }
  }
}

} // namespace polyconv::cuda::wgmma
