// planes.cuh - the Hopper product of f32 rounded to TF32 where the channels of tensors are planes: a channel's
// pixels are neighbours in memory. The matrix units take TF32 from shared memory only along the depth, but from
// registers as it comes: so activations are the rows of products, and threads pick their pixels and channels of a stage
// from shared memory, where they lie as in memory. Nothing is turned on its way in; on its way out, a warpgroup's sums
// go through 8 KiB of shared memory, 32 channels at a time, so that stores are of 32 neighbouring pixels.
//
// The producer's threads have a pixel each, and copy that pixel of one channel after the other (cp.async): so a tile's
// pixels may lie anywhere, over the ends of rows and images, and padding is zeros. Depth goes by blocks of 32 channels,
// of each the taps, which read the same lines again; near.cuh reads them once. Where channels are few,
// depth has no gaps between them, and two producers take a tile each in turn.
//
// Floor: 2 N K P Q C R S at the rate of TF32 on the tensor cores, 418 TFLOP/s on an H200, and the bytes of both
// tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/async.cuh"
#include "mma/fragments.cuh"
#include "planes/leave.cuh"
#include "wgmma/product.cuh"

namespace polyconv::cuda::wgmma {

// Tiles of the ways by taps and dense.
template <int Pixels, int Channels, int Groups, int Teams, Reading Way>
struct PlanesTileOf : TileOf<float, Pixels, Channels, Groups, Teams, 1> {
  using Base = TileOf<float, Pixels, Channels, Groups, Teams, 1>;
  static constexpr bool dense = Way == Reading::kDense, turns = leaves_turned(Channels, Way);
  static constexpr int producers = dense ? 2 : 1, threads = 128 * (Groups + producers);
  static constexpr int arrivals = 1 + 128; // weights, and each of the producer's threads
  // Bytes of a channel's pixels: the four channels that the threads of a quad read lie in different banks.
  static constexpr int row = (Pixels + 8) * 4;
  static constexpr int weights_bytes = Channels * 128, activation_bytes = Base::depth * row;
  static constexpr int stage_bytes = activation_bytes + weights_bytes, leave_bytes = turns ? Groups * kTurnBytes : 0;
  static constexpr int table_bytes = dense ? kMostDense * 8 : 0; // behind the barriers
  static constexpr int stages = std::min(8, (Base::most_bytes - table_bytes - leave_bytes) / stage_bytes);
  static constexpr int shared_bytes = leave_bytes + stages * stage_bytes + 1024 + 256 + table_bytes;
  static constexpr int registers = 65536 / threads / 8 * 8, producer_registers = dense ? 48 : 56;
  static constexpr int consumer_registers =
      wgmma::consumer_registers_of(registers * threads, producer_registers, Groups, producers);
  static_assert(activation_bytes % 1024 == 0 && leave_bytes % 1024 == 0 && stages >= 3, "not a tile of planes");
  static_assert(!dense || kMostDense < stages * 32, "a producer may pass over a tile: less than a round of the ring");
};

// ---------------------------------------------------------------- the producer

// Where a pixel's window begins, and a bit for each tap of each axis: whether that lies inside the image.
struct Window {
  const float *from;
  uint32_t inside;

  Window() = default;
  __device__ Window(const PlanesProduct &p, int32_t pixel) : from(p.input), inside(0) {
    if (pixel >= p.pixels) return;
    const View<int64_t> &input = p.conv.input;
    const int32_t row = pixel / p.out[2], plane = row / p.out[1], image = plane / p.out[0];
    const int32_t out[3] = {plane - image * p.out[0], row - plane * p.out[1], pixel - row * p.out[2]};
    int32_t begin[3], bit = 0;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      begin[axis] = out[axis] * p.stride[axis] - p.pad[axis];
      inside |= taps_inside(p, axis, begin[axis]) << bit, bit += p.taps[axis];
    }
    from += input.at(image, 0, begin[0], begin[1], begin[2]);
  }

 private:
  // The taps of an axis that read between the first and the last element.
  __device__ static uint32_t taps_inside(const PlanesProduct &p, int axis, int32_t begin) {
    const int32_t size = p.in[axis], dilation = p.dilation[axis];
    const auto before = [&](int32_t element) { // taps that read elements before it
      const int32_t distance = max(element - begin, 0);
      return min(dilation == 1 ? distance : (distance + dilation - 1) / dilation, p.taps[axis]);
    };
    return (1u << before(size)) - (1u << before(0));
  }
};

// A block of depth: the taps of a block of channels, then the next.
struct PlanesStep {
  int32_t tap[3], c;
  uint32_t bits;  // of a window that must be set
  int64_t offset; // elements from a window's beginning

  __device__ PlanesStep(const PlanesProduct &p, int32_t block) {
    const int32_t taps = p.taps[0] * p.taps[1] * p.taps[2], index = block % taps, line = index / p.taps[2];
    c = block / taps * 32;
    tap[0] = line / p.taps[1], tap[1] = line % p.taps[1], tap[2] = index % p.taps[2];
    look(p);
  }
  __device__ int32_t index(const PlanesProduct &p) const { return (tap[0] * p.taps[1] + tap[1]) * p.taps[2] + tap[2]; }
  __device__ void next(const PlanesProduct &p) {
    if (++tap[2] == p.taps[2]) tap[2] = 0, ++tap[1];
    if (tap[1] == p.taps[1]) tap[1] = 0, ++tap[0];
    if (tap[0] == p.taps[0]) tap[0] = 0, c += 32;
    look(p);
  }

 private:
  __device__ void look(const PlanesProduct &p) {
    bits = 1u << tap[0] | 1u << (p.taps[0] + tap[1]) | 1u << (p.taps[0] + p.taps[1] + tap[2]);
    offset = c * p.conv.input.stride[1];
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) offset += tap[axis] * p.tap_offset[axis];
  }
};

// Vector: neighbouring pixels of a copy.
template <class Tile, int Vector>
__device__ inline void fetch_planes(const PlanesProduct &p, const Turn<Tile> &turn, Ring<Tile> &ring) {
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
      ptx::barrier_expect(ring.full(), Tile::weights_bytes - turn.missing(p) * 128);
      ptx::load_box(ring.weights(), turn.weights(p), ring.full(), step.c, step.index(p), turn.channel);
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
__device__ inline uint2 dense_place(const PlanesProduct &p, int32_t index) {
  const int32_t taps = p.taps[0] * p.taps[1] * p.taps[2], c = index / taps, tap = index - c * taps;
  if (c >= p.conv.input.size[1]) return make_uint2(0, ~0u);
  PlanesStep step(p, tap);
  return make_uint2(static_cast<uint32_t>(step.offset + c * p.conv.input.stride[1]), step.bits);
}

template <class Tile>
__device__ inline void fetch_dense(const PlanesProduct &p, const Turn<Tile> &turn, Ring<Tile> &ring, uint2 *table) {
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
      ptx::barrier_expect(ring.full(), Tile::weights_bytes - turn.missing(p) * 128);
      ptx::load_box(ring.weights(), turn.weights(p), ring.full(), block * Tile::depth, 0, turn.channel);
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

// All of a block's tiles, by a warpgroup of producers, `which` of them.
template <class Tile>
__device__ inline void produce_planes(const PlanesProduct &p, Ring<Tile> &ring, int which, uint2 *table) {
  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const int32_t turns = Turn<Tile>::count(p);
  if constexpr (Tile::dense) {
    for (auto i = static_cast<int32_t>(threadIdx.x % 128); i < p.depth_blocks * Tile::depth; i += 128)
      table[i] = dense_place(p, i); // both halves of a warp write the same
    ptx::meet(1, 128 * Tile::producers);
    for (int32_t i = begin, number = 0; i < turns; i += step, ++number)
      if (number % Tile::producers == which)
        fetch_dense<Tile>(p, Turn<Tile>(p, i), ring, table);
      else
        ring.skip(p.depth_blocks);
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

// ---------------------------------------------------------------- the kernel

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks)
    multiply_planes(const __grid_constant__ PlanesProduct p) {
  extern __shared__ unsigned char unaligned[];
  const uint32_t shared = (ptx::shared_address(unaligned) + 1023) / 1024 * 1024; // swizzled memory begins at 1024 bytes
  Ring<Tile> ring(shared + Tile::leave_bytes);
  if (threadIdx.x == 0) ring.init();
  if (threadIdx.x == 32) ptx::prefetch(&p.weights);
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it
  const auto group = static_cast<int>(threadIdx.x / 128);
  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const int32_t turns = Turn<Tile>::count(p);
  if (group >= Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    const uint32_t behind =
        shared - ptx::shared_address(unaligned) + Tile::leave_bytes + Tile::stages * Tile::stage_bytes + 256;
    produce_planes<Tile>(p, ring, group - Tile::groups, reinterpret_cast<uint2 *>(unaligned + behind));
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
      leave_planes<Tile>(p, sums, turn, member, shared);
    }
  }
}

} // namespace polyconv::cuda::wgmma
