// near.cuh - the product of planes.cuh where outputs lie as inputs do: stride 1, images as large
// before as after. Counted over the pixels of all images, a tap then reads a tile's pixels from a few places on, so of
// 32 channels a tile's pixels and those around come into shared memory once, four at a time where images are whole
// fours, and taps are shifted reads. Where a tap leaves the image, a thread reads zeros that lie behind each channel's
// pixels. Activations and weights have a ring each: one block of channels serves all of its taps.
//
// Floor: that of planes.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planes/planes.cuh"

namespace polyconv::cuda::wgmma {

inline constexpr int kNearCopiers = 96; // threads of the producer's that copy; of its last warp one fetches weights

template <int Pixels, int Channels, int Groups>
struct NearTileOf : TileOf<float, Pixels, Channels, Groups, 1, 1> {
  using Base = TileOf<float, Pixels, Channels, Groups, 1, 1>;
  static constexpr bool turns = leaves_turned(Channels, Reading::kNear);
  static constexpr int weights_bytes = Channels * 128, leave_bytes = turns ? Groups * kTurnBytes : 0;
  static constexpr int producer_registers = 56;
  static constexpr int consumer_registers =
      wgmma::consumer_registers_of(Base::registers * Base::threads, producer_registers, Groups);
};

// Rings of as many stages as fit.
using NearRing = Pipeline<>;

struct NearRings {
  NearRing activations, weights;

  __device__ NearRings(const PlanesProduct &p, uint32_t shared)
      : activations(shared + p.near.weights_stages * p.near.weights_bytes, barriers(p, shared), kNearStages,
                    32 * p.near.row),
        weights(shared, barriers(p, shared) + 16 * kNearStages, p.near.weights_stages, p.near.weights_bytes) {}

 private:
  __device__ static uint32_t barriers(const PlanesProduct &p, uint32_t shared) {
    return shared + p.near.weights_stages * p.near.weights_bytes + kNearStages * 32 * p.near.row;
  }
};

// ---------------------------------------------------------------- the producer

// The pixels of 32 channels, Vector at a time; a thread has some places, of every third channel.
template <class Tile, int Vector>
__device__ inline void copy_near(const PlanesProduct &p, const Turn<Tile> &turn, NearRing &ring) {
  constexpr int kWarps = kNearCopiers / 32, kEach = (32 + kWarps - 1) / kWarps;
  const auto lane = static_cast<int32_t>(threadIdx.x % 32), warp = static_cast<int32_t>(threadIdx.x % 128 / 32);
  const View<int64_t> &input = p.conv.input;
  const auto channels = static_cast<int32_t>(input.size[1]), per_image = p.in[0] * p.in[1] * p.in[2];
  const int64_t plane = input.stride[1];
  const float *from[kNearPlaces];
  int32_t inside = 0; // bits: in the batch
  const auto locate = [&](int32_t base) {
    inside = 0;
#pragma unroll
    for (int i = 0; i < kNearPlaces; ++i) {
      const int32_t pixel = turn.pixel - p.near.before + (base + lane + 32 * i) * Vector, image = pixel / per_image;
      inside |= (pixel >= 0 && pixel < p.pixels ? 1 : 0) << i;
      from[i] = p.input + input.offset + image * input.stride[0] + (pixel - image * per_image) + warp * plane;
    }
  };
  locate(0);
#pragma unroll 1
  for (int32_t c = 0; c < p.tap_blocks * 32; c += 32, ring.next()) {
    ring.await_empty();
#pragma unroll 1
    for (int32_t base = 0; base < p.near.places; base += 32 * kNearPlaces) {
      if (p.near.places > 32 * kNearPlaces) locate(base);
      const uint32_t to = ring.memory() + warp * p.near.row + (base + lane) * Vector * 4;
#pragma unroll
      for (int i = 0; i < kNearPlaces; ++i) {
        if (base + 32 * i >= p.near.places) break;
        const bool wanted = base + 32 * i + lane < p.near.places;
        const int32_t left = inside >> i & 1 ? channels - c - warp : 0;
        const float *at = from[i] + c * plane;
#pragma unroll
        for (int j = 0; j < kEach; ++j, at += kWarps * plane)
          copy_async_if<Vector * 4>(wanted && (j + 1 < kEach || warp + kWarps * j < 32),
                                    to + i * Vector * 128 + j * kWarps * p.near.row, at,
                                    kWarps * j < left ? Vector * 4 : 0);
      }
    }
    ptx::barrier_arrive_copied(ring.full());
  }
}

template <class Tile>
__device__ inline void fetch_near_weights(const PlanesProduct &p, const Turn<Tile> &turn, NearRing &ring) {
  const int32_t taps = p.depth_blocks / p.tap_blocks;
#pragma unroll 1
  for (int32_t c = 0; c < p.tap_blocks * 32; c += 32)
#pragma unroll 1
    for (int32_t tap = 0; tap < taps; ++tap, ring.next()) {
      ring.await_empty();
      ptx::barrier_expect(ring.full(), Tile::weights_bytes - turn.missing(p) * 128);
      ptx::load_box(ring.memory(), turn.weights(p), ring.full(), c, tap, turn.channel);
    }
}

template <class Tile>
__device__ inline void produce_near(const PlanesProduct &p, NearRings &rings) {
  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const int32_t turns = Turn<Tile>::count(p), thread = static_cast<int32_t>(threadIdx.x % 128);
  if (thread == kNearCopiers) {
    for (int32_t i = begin; i < turns; i += step) fetch_near_weights<Tile>(p, Turn<Tile>(p, i), rings.weights);
  } else if (thread < kNearCopiers && p.vector == 4) {
    for (int32_t i = begin; i < turns; i += step) copy_near<Tile, 4>(p, Turn<Tile>(p, i), rings.activations);
  } else if (thread < kNearCopiers) {
    for (int32_t i = begin; i < turns; i += step) copy_near<Tile, 1>(p, Turn<Tile>(p, i), rings.activations);
  }
  await_copies();
}

// ---------------------------------------------------------------- the consumers

// A thread's pixels, rows t / 4 and 8 on of each 64: their bits (Window), and their places in a channel's row.
template <class Tile>
struct NearPixels {
  uint32_t inside[Tile::rows][2];
  int32_t first;

  __device__ NearPixels(const PlanesProduct &p, const Turn<Tile> &turn, int member) {
    first = member * Tile::rows * 64 + static_cast<int32_t>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4);
#pragma unroll
    for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        inside[row][half] = Window(p, turn.pixel + first + row * 64 + half * 8).inside;
  }
};

// The products of a tap: of each eight channels the activations are read while those before are multiplied.
template <class Tile>
__device__ inline void multiply_near(float (&sums)[Tile::rows][Tile::channels / 2],
                                     const uint32_t (&from)[Tile::rows][2], uint32_t row_bytes, uint32_t weights,
                                     bool accumulate) {
  constexpr int kStep = 32 >> 4; // of a descriptor: along the depth
  const uint64_t w = ptx::matrix_descriptor(weights);
  uint32_t a[2][Tile::rows][4];
  const auto load = [&](int k) {
#pragma unroll
    for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[k % 2][row][i] = tensor::rounded_to_tf32(ptx::load_word(from[row][i % 2] + (k * 8 + i / 2 * 4) * row_bytes));
  };
  load(0);
#pragma unroll
  for (int k = 0; k < Tile::depth / 8; ++k) {
    ptx::products_fence();
#pragma unroll
    for (int row = 0; row < Tile::rows; ++row)
      ptx::multiply_held<float, Tile::channels>(sums[row], a[k % 2][row], w + k * kStep, k > 0 || accumulate);
    ptx::products_commit();
    if (k + 1 == Tile::depth / 8) break;
    if (k > 0) ptx::products_wait<1>(); // whose registers come next
    load(k + 1);
  }
  ptx::products_wait<0>();
}

template <class Tile>
__device__ inline void sum_near(float (&sums)[Tile::rows][Tile::channels / 2], const PlanesProduct &p,
                                const Turn<Tile> &turn, NearRings &rings, int member) {
  const NearPixels<Tile> pixels(p, turn, member);
  const uint32_t quad = threadIdx.x % 4 * p.near.row;
  const uint32_t zeros = quad + p.near.row - 64 + threadIdx.x % 32 / 4 * 4;
#pragma unroll 1
  for (int32_t block = 0; block < p.tap_blocks; ++block) {
    rings.activations.await_full();
    PlanesStep step(p, 0);
    const int32_t taps = p.depth_blocks / p.tap_blocks;
#pragma unroll 1
    for (int32_t tap = 0; tap < taps; ++tap, step.next(p)) {
      uint32_t from[Tile::rows][2];
#pragma unroll
      for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const bool inside = (pixels.inside[row][half] & step.bits) == step.bits;
          const int32_t place =
              pixels.first + row * 64 + half * 8 + p.near.first_tap + static_cast<int32_t>(step.offset);
          from[row][half] = rings.activations.memory() + (inside ? quad + place * 4 : zeros);
        }
      rings.weights.await_full();
      multiply_near<Tile>(sums, from, p.near.row, rings.weights.memory(), block > 0 || tap > 0);
      rings.weights.release(), rings.weights.next();
    }
    rings.activations.release(), rings.activations.next();
  }
}

// ---------------------------------------------------------------- the kernel

// Zeros behind the pixels of each channel of each stage, where no copy writes.
__device__ inline void clear_zeros(const PlanesProduct &p, unsigned char *shared) {
  float *const stages = reinterpret_cast<float *>(shared + p.near.weights_stages * p.near.weights_bytes);
  for (auto i = static_cast<int32_t>(threadIdx.x); i < kNearStages * 32 * 16; i += static_cast<int32_t>(blockDim.x))
    stages[i / 16 * (p.near.row / 4) + p.near.row / 4 - 16 + i % 16] = 0;
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 1) multiply_near_planes(const __grid_constant__ PlanesProduct p) {
  extern __shared__ unsigned char unaligned[];
  const uint32_t begins = ptx::shared_address(unaligned), shared = (begins + 1023) / 1024 * 1024;
  NearRings rings(p, shared + Tile::leave_bytes);
  if (threadIdx.x == 0) {
    rings.activations.init(kNearCopiers, 4 * Tile::groups);
    rings.weights.init(1, 4 * Tile::groups);
    ptx::barrier_init_fence();
  }
  if (threadIdx.x == 32) ptx::prefetch(&p.weights);
  clear_zeros(p, unaligned + (shared - begins) + Tile::leave_bytes);
  __syncthreads();
  ptx::let_next_begin();
  ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it
  const auto group = static_cast<int>(threadIdx.x / 128);
  if (group == Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    produce_near<Tile>(p, rings);
    return;
  }
  ptx::take_registers<Tile::consumer_registers>();
  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const int32_t turns = Turn<Tile>::count(p);
  float sums[Tile::rows][Tile::channels / 2];
  for (int32_t i = begin; i < turns; i += step) {
    const Turn<Tile> turn(p, i);
    sum_near<Tile>(sums, p, turn, rings, group);
    leave_planes<Tile>(p, sums, turn, group, shared);
  }
}

} // namespace polyconv::cuda::wgmma
