// pipeline.cuh - blocks of k go round in the stages of shared memory: while one is multiplied, a later one is
// copied in, half before and half after.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mma/sources.cuh"

namespace polyconv::cuda::tensor {

// The tile of a thread block.
struct Corner {
  int64_t pixel;
  int32_t channel, group;
};

template <class P, class Tile, Source Kind>
class Pipeline {
  using F = Frame<Tile, P::weights_row>;
  using A = Activations<typename P::Type, Tile, Kind>;
  using W = Weights<Tile, P::weights_row>;
  static constexpr int kAhead = Tile::stages - 1; // stages that are filled before the first is multiplied
  static_assert(Tile::stages >= 3, "what is deposited after a turn is read after the next one at the earliest");

 public:
  static constexpr int bytes = Tile::stages * F::stage;

  // Fills all stages but one, and waits for the first.
  __device__ Pipeline(const MmaProduct &p, unsigned char *stages, const Corner &corner)
      : share_(p, p.blocks),
        activations_(p, corner.pixel, corner.group, share_.first_block()),
        weights_(p, corner.channel, corner.group, share_.first_block()),
        stages_(stages) {
    if constexpr (A::holds_stages)
      fill_together();
    else
      fill();
    await_groups<Tile::stages - 2>();
    __syncthreads();
  }
  __device__ int32_t blocks() const { return share_.blocks(); }
  // The stage that can be read, in bytes from the first.
  __device__ int now() const { return now_; }

  // Two halves of a block, in order. What goes through registers goes out with the first, to have the most time.
  __device__ void fetch(int half) {
    if constexpr (A::holds) {
      if (half == 0) hold(held_);
    } else {
      parts_of<A::parts>(half, [&](int i) { activations_.fetch(held_, stages_ + then_, i); });
    }
    parts_of<W::parts>(half, [&](int i) { weights_.fetch(stages_ + then_ + F::activations, i); });
  }
  // After the turn that followed the fetch.
  __device__ void deposit() { deposit(held_, before_); }

  // The block in now() is read, and the next one fetched: waits for the one that comes.
  __device__ void turn() {
    activations_.next(), weights_.next();
    commit_copies();
    await_groups<Tile::stages - 2>();
    __syncthreads();
    before_ = then_;
    then_ = now_;
    now_ = now_ + F::stage == bytes ? 0 : now_ + F::stage;
  }
  // Nobody uses shared memory any more.
  __device__ void finish() {
    await_copies();
    __syncthreads();
  }

 private:
  // Calls body(i) for those of Parts that belong to a half.
  template <int Parts, class Body>
  __device__ static void parts_of(int half, const Body &body) {
#pragma unroll
    for (int i = 0; i < Parts; ++i)
      if (i * 2 / Parts == half) body(i);
  }
  // A block's activations into registers, and from there into a stage.
  __device__ void hold(typename A::Held &held) {
#pragma unroll
    for (int i = 0; i < A::parts; ++i) activations_.fetch(held, nullptr, i);
  }
  __device__ void deposit(const typename A::Held &held, int stage) {
#pragma unroll
    for (int i = 0; i < A::parts; ++i) activations_.deposit(held, stages_ + stage, i);
  }
  __device__ void go_on() {
    activations_.next(), weights_.next();
    commit_copies();
    then_ += F::stage;
  }
  // All stages but one; those behind the last block of k are never read.
  __device__ void fill() {
#pragma unroll 1
    for (int32_t block = 0; block < kAhead; ++block) {
      if (block < share_.blocks()) {
        fetch(0), fetch(1);
        deposit(held_, then_);
      }
      go_on();
    }
  }
  // Likewise, by loads that are all under way before the first is waited for.
  __device__ void fill_together() {
    typename A::Held held[kAhead];
#pragma unroll
    for (int32_t block = 0; block < kAhead; ++block) {
      if (block < share_.blocks()) {
        hold(held[block]);
#pragma unroll
        for (int i = 0; i < W::parts; ++i) weights_.fetch(stages_ + then_ + F::activations, i);
      }
      go_on();
    }
#pragma unroll
    for (int32_t block = 0; block < kAhead; ++block)
      if (block < share_.blocks()) deposit(held[block], block * F::stage);
  }

  const Share share_;
  A activations_;
  W weights_;
  typename A::Held held_;
  unsigned char *const stages_;
  int now_ = 0, then_ = 0, before_ = 0; // read, filled, filled last
};

} // namespace polyconv::cuda::tensor
