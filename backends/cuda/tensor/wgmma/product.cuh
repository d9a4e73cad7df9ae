// product.cuh - the tiled product on Hopper's tensor cores. Of a block's last warpgroup, the producer, one thread
// has the TMA fetch activations and another one weights, a block of depth at a time, into a ring in shared memory; the
// consumer warpgroups multiply what has arrived, keep the sums in registers, and finish and store them
// (leave.cuh). While they do, the ring fills with the next tile: blocks stay and take one tile after the other.
// Where there are two teams of consumers, they take turns: one finishes its tile while the other multiplies.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores, 4096 operations a clock and multiprocessor; a tile of
// 128 x 256 fetches 48 KiB for 1024 clocks of products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/pipeline.cuh"
#include "wgmma/leave.cuh"
#include "wgmma/turned.cuh"

namespace polyconv::cuda::wgmma {

// ---------------------------------------------------------------- the ring

// Stages of activations and weights. The ring is one team's at a time: a team may only look at it when the one before
// has seen all of its blocks.
template <class Tile>
class Ring : public Pipeline<Tile::stages, Tile::stage_bytes> {
  using Base = Pipeline<Tile::stages, Tile::stage_bytes>;

 public:
  __device__ explicit Ring(uint32_t memory) : Base(memory, memory + Tile::stages * Tile::stage_bytes) {}
  __device__ void init() const {
    Base::init(Tile::arrivals, 4 * Tile::team_groups);
    for (int t = 0; t < Tile::teams; ++t) ptx::barrier_init(go(t), 4 * Tile::team_groups);
    ptx::barrier_init_fence();
  }
  __device__ uint32_t activations() const { return Base::memory(); }
  __device__ uint32_t weights() const { return activations() + Tile::activation_bytes; }
  // The ring is `team`'s: for its turn `number`, counted from 0; then the next team's.
  __device__ void await_team(int team, uint32_t number) const {
    if constexpr (Tile::teams > 1) ptx::barrier_wait(go(team), (number & 1) ^ (team == 0 ? 1 : 0));
  }
  __device__ void pass_on(int team) const {
    if constexpr (Tile::teams > 1)
      if (threadIdx.x % 32 == 0) ptx::barrier_arrive(go((team + 1) % Tile::teams));
  }

 private:
  __device__ uint32_t go(int team) const { return Base::behind_barriers() + 8 * team; }
};

// ---------------------------------------------------------------- the producer

// A block of depth: its tap and first channel.
struct Step {
  int32_t tap, c, t, r, s;

  __device__ Step(const Product &p, int32_t block, int32_t depth) {
    tap = p.by_tap_blocks(block), c = (block - tap * p.tap_blocks) * depth;
    r = p.by_taps[2](tap), s = tap - r * p.taps[2], t = p.by_taps[1](r);
    r -= t * p.taps[1];
  }
  __device__ void next(const Product &p, int32_t depth) {
    c += depth;
    if (c >= p.tap_blocks * depth) next_tap(p);
  }
  __device__ void next_tap(const Product &p) {
    c = 0, ++tap;
    if (++s == p.taps[2]) s = 0, ++r;
    if (r == p.taps[1]) r = 0, ++t;
  }
};

// Rows of 64 filters, one for each channel of a block of depth, box after box.
template <class Tile>
__device__ inline void fetch_across(const Product &p, const Step &step, int32_t filter, int32_t filters,
                                    const Ring<Tile> &ring) {
  const int32_t s = p.taps_reversed ? p.taps[2] - 1 - step.s : step.s,
                r = p.taps_reversed ? p.taps[1] - 1 - step.r : step.r,
                t = p.taps_reversed ? p.taps[0] - 1 - step.t : step.t;
#pragma unroll 1
  for (int32_t chunk = 0; chunk < filters; chunk += 64)
    ptx::load_box(ring.weights() + chunk * Tile::weights_row, &p.weights, ring.full(), filter + chunk, s, r, t, step.c);
}

// Two threads fetch, each of a warp of its own: what one takes for both boxes of a block of depth is longer than a
// small tile's products. Packed weights may come while the kernel ahead in the stream still runs (`begins`): packing
// lets none begin before its end. Their bytes are awaited with the activations'.
template <class Tile>
__device__ inline void fetch_weights(const Product &p, const Turn<Tile> &turn, Ring<Tile> &ring, bool begins) {
  if (begins && p.new_weights) ptx::await_previous();
  Step step(p, turn.first, Tile::depth);
  const CUtensorMap *const map = turn.weights(p);
#pragma unroll 1
  for (int32_t block = turn.first; block < turn.last; ++block, ring.next(), step.next(p, Tile::depth)) {
    ring.await_empty();
    if constexpr (Tile::across)
      fetch_across<Tile>(p, step, turn.channel, Tile::channels - turn.missing(p), ring);
    else if constexpr (Tile::weights_row == Tile::row)
      ptx::load_box(ring.weights(), map, ring.full(), step.c, step.tap, turn.channel);
    else // in parts (emulated/emulated.cuh)
      ptx::load_box(ring.weights(), map, ring.full(), step.c, step.tap, turn.channel, 0);
  }
}

// `begins`: the kernel ahead in the stream may still run.
template <class Tile>
__device__ inline void fetch_activations(const Product &p, const Turn<Tile> &turn, Ring<Tile> &ring, bool begins) {
  // The tile's first pixel.
  const int32_t row = p.by_out[2](turn.pixel), plane = p.by_out[1](row), image = p.by_out[0](plane);
  const int32_t w = (turn.pixel - row * p.out[2]) * p.walk[2].step, h = (row - plane * p.out[1]) * p.walk[1].step;
  const int32_t d = (plane - image * p.out[0]) * p.walk[0].step + p.walk[0].first[0];
  const int32_t group = p.by_group(turn.channel) * p.group_channels; // the first channel of the tile's first
  const int32_t bytes = Tile::stage_bytes - turn.missing(p) * Tile::weights_row;
  Step step(p, turn.first, Tile::depth);
  Walk::Tap y = p.walk[1].at(step.r), z = p.walk[0].at(step.t);
  if (begins) ptx::await_previous();
  // What a tap takes beside its blocks is short: where it has one, nothing else is as long.
  for (int32_t block = turn.first; block < turn.last;) {
    const Walk::Tap x = p.walk[2].at(step.s);
    const CUtensorMap *map = &p.activations[2 * y.phase + x.phase];
    const int32_t from_w = w + p.walk[2].first_of(x.phase), from_h = h + p.walk[1].first_of(y.phase);
    const auto tap_w = static_cast<uint16_t>(x.shift), tap_h = static_cast<uint16_t>(y.shift);
    const auto tap_d = static_cast<uint16_t>(z.shift);
    const int32_t end = min(turn.last, block + p.tap_blocks - step.c / Tile::depth);
#pragma unroll 1
    for (; block < end; ++block, ring.next(), step.c += Tile::depth) {
      ring.await_empty();
      ptx::barrier_expect(ring.full(), bytes);
      if (p.flat)
        ptx::load_pixels(ring.activations(), map, ring.full(), group + step.c, from_w, from_h, image, tap_w, tap_h);
      else
        ptx::load_pixels(ring.activations(), map, ring.full(), group + step.c, from_w, from_h, d, image, tap_w, tap_h,
                         tap_d);
    }
    step.next_tap(p);
    if (step.s == 0) y = p.walk[1].at(step.r), z = p.walk[0].at(step.t);
  }
}

// Of the producer's warpgroup.
__device__ inline bool fetches() {
  return threadIdx.x % 128 == 0 || threadIdx.x % 128 == 32;
}
template <class Tile>
__device__ inline void fetch(const Product &p, const Turn<Tile> &turn, Ring<Tile> &ring, bool begins) {
  if (threadIdx.x % 128 == 0)
    fetch_activations<Tile>(p, turn, ring, begins);
  else
    fetch_weights<Tile>(p, turn, ring, begins);
}

// ---------------------------------------------------------------- the consumers

// What one of a product's factors is in shared memory, and what 32 bytes more of depth add to that.
template <class Tile>
__device__ inline uint64_t along_descriptor(uint32_t at) {
  return Tile::row == 128 ? ptx::matrix_descriptor(at) : ptx::narrow_descriptor(at);
}
template <class Tile>
__device__ inline uint64_t weights_descriptor(uint32_t at) {
  return Tile::across ? ptx::across_descriptor(at, 64 * Tile::weights_row) : along_descriptor<Tile>(at);
}
inline constexpr int kStepAlong = 32 >> 4, kStepAcross = 16 * 128 >> 4;

// The products of `steps` instructions along the depth of a block, at most `Most`: a group of instructions for each
// number of them, since one in a loop waits for the one before.
template <class Tile, int Most = Tile::row / 32>
__device__ __forceinline__ void multiply_steps(float (&sums)[Tile::rows][Tile::columns / 2], uint64_t a, uint64_t b,
                                               int32_t steps, bool begun) {
  // Of descriptors: a step along the depth, to the next 64 rows.
  constexpr bool kAcrossA = Tile::across && Tile::turned, kAcrossB = Tile::across && !Tile::turned;
  constexpr int kStepA = kAcrossA ? kStepAcross : kStepAlong, kStepB = kAcrossB ? kStepAcross : kStepAlong;
  constexpr int kRow = 64 * Tile::row >> 4;
  // Of a part: its instructions, its columns, and where the weights of the next one begin.
  constexpr int kSteps = Tile::row / 32 / Tile::parts, kColumns = Tile::columns / Tile::parts;
  constexpr int kPart = kColumns * Tile::row >> 4;
  if constexpr (Tile::parts == 1 && Most > 1)
    if (steps < Most) return multiply_steps<Tile, Most - 1>(sums, a, b, steps, begun);
  ptx::products_fence();
#pragma unroll
  for (int row = 0; row < Tile::rows; ++row)
#pragma unroll
    for (int k = 0; k < Most; ++k) {
      const int part = k / kSteps, step = k % kSteps;
      auto &of_part = reinterpret_cast<float(&)[kColumns / 2]>(sums[row][part * (kColumns / 2)]);
      ptx::multiply<typename Tile::T, kColumns, kAcrossA, kAcrossB>(
          of_part, a + row * kRow + k * kStepA, b + part * kPart + step * kStepB, step > 0 || begun);
    }
  ptx::products_commit();
}

// A tap's last block of depth may hold fewer channels than it is deep: its other instructions are left out.
template <class Tile>
__device__ inline void sum_up(float (&sums)[Tile::rows][Tile::columns / 2], const Product &p, const Turn<Tile> &turn,
                              Ring<Tile> &ring, int member, int team) {
  static_assert(Tile::row == 128 || Tile::row == 64, "not a swizzled row");
  static_assert(Tile::parts == 1 || !Tile::turned, "parts are columns of a product");
  int32_t left = p.tap_blocks - (turn.first - p.by_tap_blocks(turn.first) * p.tap_blocks); // blocks of a tap
  for (int32_t block = turn.first; block < turn.last; ++block, ring.next()) {
    ring.await_full();
    const uint64_t weights = weights_descriptor<Tile>(ring.weights());
    const uint64_t activations = along_descriptor<Tile>(ring.activations());
    const uint64_t a = (Tile::turned ? weights : activations) + member * Tile::rows * (64 * Tile::row >> 4);
    const uint64_t b = Tile::turned ? activations : weights;
    const bool last = --left == 0;
    multiply_steps<Tile>(sums, a, b, last ? p.last_steps : Tile::row / 32, block > turn.first);
    if (last) left = p.tap_blocks;
    ptx::products_wait<1>(); // the products of the stage before are done
    if (block > turn.first) ring.release_before();
  }
  ring.pass_on(team);
  ptx::products_wait<0>();
  ring.release_before();
}

// ---------------------------------------------------------------- the kernel

// Of a problem that is one product: how many turns; the product that a turn belongs to, which is then counted within
// it; and what the producer's last warp has to do.
template <class Tile>
__device__ inline int32_t count_turns(const Product &p) {
  return Turn<Tile>::count(p);
}
__device__ inline const Product &product_of(const Product &p, int32_t &) {
  return p;
}

template <class Tile>
__device__ inline void work_aside(const Product &, uint32_t) {}

template <class Tile, class Problem>
__global__ void __launch_bounds__(Tile::threads, Tile::blocks) multiply_tiles(const __grid_constant__ Problem problem) {
  extern __shared__ unsigned char unaligned[];
  const uint32_t shared = (ptx::shared_address(unaligned) + 1023) / 1024 * 1024; // swizzled memory begins at 1024 bytes
  Ring<Tile> ring(shared + Tile::leave_bytes);
  if (threadIdx.x == 0) ring.init();
  if (threadIdx.x == 32) {
    int32_t turn = 0;
    const Product &p = product_of(problem, turn);
    ptx::prefetch(&p.activations[0]), ptx::prefetch(&p.weights), ptx::prefetch(&p.results);
  }
  __syncthreads();
  ptx::let_next_begin();
  const auto group = static_cast<int>(warp_in_block() / 4);
  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  const int32_t turns = count_turns<Tile>(problem);
  if (group == Tile::groups) {
    ptx::release_registers<Tile::producer_registers>();
    if (threadIdx.x / 32 == 4 * Tile::groups + 3) ptx::await_previous(), work_aside<Tile>(problem, shared);
    if (!fetches()) return;
    for (int32_t i = begin; i < turns; i += step) {
      int32_t turn = i;
      const Product &p = product_of(problem, turn);
      fetch<Tile>(p, Turn<Tile>(p, turn), ring, i == begin);
    }
  } else {
    ptx::take_registers<Tile::consumer_registers>();
    ptx::await_previous(); // up to here a run overlaps with the end of what is ahead of it
    float sums[Tile::rows][Tile::columns / 2];
    std::conditional_t<Tile::turned, TurnedOutlet<Tile>, Outlet<Tile>> outlet(shared);
    const int team = group / Tile::team_groups, member = group % Tile::team_groups;
    uint32_t number = 0; // of turns, of all teams
    for (int32_t i = begin; i < turns; i += step, ++number) {
      int32_t within = i;
      const Product &p = product_of(problem, within);
      const Turn<Tile> turn(p, within);
      if (static_cast<int>(number % Tile::teams) != team) {
        ring.skip(turn.last - turn.first);
        continue;
      }
      ring.await_team(team, number / Tile::teams);
      sum_up<Tile>(sums, p, turn, ring, member, team);
      if constexpr (Tile::turned)
        outlet.leave(p, sums, turn.pixel, turn.channel + member * Tile::rows * 64);
      else
        leave<Tile>(p, sums, turn, member, outlet);
    }
    outlet.close();
  }
}

// ---------------------------------------------------------------- launch

// `Pairs`: neighbours that share pixels are a cluster, and so run side by side, on one side of the second cache.
template <class Tile, void Kernel(Product), bool Pairs = false>
Launcher launcher() {
  const auto prepare = [] { allow_shared(Kernel, Tile::shared_bytes); };
  const auto launch = [](const Product &p, int multiprocessors, cudaStream_t stream) {
    const int64_t turns = static_cast<int64_t>(p.pixel_tiles) * p.channel_tiles * p.splits;
    const auto blocks = static_cast<unsigned>(std::min<int64_t>(turns, multiprocessors * Tile::blocks));
    const unsigned cluster = Pairs && p.pixels_next == 0 && p.channel_tiles > 1 && blocks % 2 == 0 ? 2 : 1;
    launch_clusters(Kernel, cluster, blocks, Tile::threads, Tile::shared_bytes, stream, p);
  };
  return {prepare, launch};
}

template <class Tile>
Launcher product_launcher() {
  return launcher<Tile, multiply_tiles<Tile, Product>, true>();
}

} // namespace polyconv::cuda::wgmma
