// pipeline.cuh - rings of stages in shared memory, from warps that fill them to warps that read them. Each stage has
// two barriers: full ones end a phase when what was expected is there, empty ones when all have read it. Every warp
// goes round on its own; barriers tell one phase from the next, no more, so nobody may be a whole round ahead or
// behind. For compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/barrier.cuh"

namespace polyconv::cuda {

// Where a warp is in a ring of `count` stages, and the phase there: 0 in the first round, then 1, 0, ...
struct RingPlace {
  uint32_t stage = 0, phase = 0;

  __device__ __forceinline__ void next(uint32_t count) {
    if (++stage == count) stage = 0, phase ^= 1;
  }
  __device__ __forceinline__ void advance(uint32_t by, uint32_t count) { // by a few
    stage += by;
    while (stage >= count) stage -= count, phase ^= 1;
  }
  __device__ __forceinline__ void skip(uint32_t by, uint32_t count) { // by many
    const uint32_t to = stage + by, rounds = to / count;
    stage = to - rounds * count, phase ^= rounds & 1;
  }
};

// A ring of Stages stages of Bytes bytes; 0: as many as are said at run time. The full barriers lie one after the
// other, 8 bytes each, and the empty ones behind them.
template <int Stages = 0, int Bytes = 0>
class Pipeline {
 public:
  __device__ Pipeline(uint32_t memory, uint32_t barriers, uint32_t stages = Stages, uint32_t bytes = Bytes)
      : memory_(memory), full_(barriers), stages_(stages), bytes_(bytes) {}

  // By one thread, ahead of ptx::barrier_init_fence. `arrivals`: at a full barrier; `readers`: warps.
  __device__ void init(int arrivals, int readers) const {
    for (uint32_t s = 0; s < count(); ++s)
      ptx::barrier_init(full_ + 8 * s, arrivals), ptx::barrier_init(full_ + 8 * (count() + s), readers);
  }
  __device__ uint32_t behind_barriers() const { return full_ + 16 * count(); }

  // Of the stage where this warp is.
  __device__ uint32_t memory() const { return memory_ + place_.stage * bytes(); }
  __device__ uint32_t full() const { return full_ + 8 * place_.stage; }
  __device__ uint32_t empty() const { return empty_at(place_.stage); }
  __device__ void await_full() const { ptx::barrier_wait(full(), place_.phase); }
  __device__ void await_empty() const { ptx::barrier_wait(empty(), place_.phase ^ 1); }
  // This warp has read the stage; the one before it.
  __device__ void release() const {
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(empty());
  }
  __device__ void release_before() const {
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(empty_before());
  }
  __device__ uint32_t empty_before() const { return empty_at(place_.stage == 0 ? count() - 1 : place_.stage - 1); }

  __device__ void next() { place_.next(count()); }
  __device__ void skip(uint32_t stages) { place_.skip(stages, count()); }

 private:
  __device__ uint32_t count() const { return Stages > 0 ? Stages : stages_; }
  __device__ uint32_t bytes() const { return Bytes > 0 ? Bytes : bytes_; }
  __device__ uint32_t empty_at(uint32_t stage) const { return full_ + 8 * (count() + stage); }

  uint32_t memory_, full_, stages_, bytes_;
  RingPlace place_;
};

} // namespace polyconv::cuda
