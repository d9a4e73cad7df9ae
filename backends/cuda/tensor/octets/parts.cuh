// parts.cuh - what the roles of warps in cuda-tensor/octets share: where things are in shared memory, items of
// work, and predicated accesses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "banded/parts.cuh"
#include "banded/runs.cuh"
#include "octets/octets.hpp"

namespace polyconv::cuda::octets {

using banded::beyond_16;
using banded::Turn;

// Where a block's parts of shared memory are.
struct Shared {
  uint32_t barriers, weights, ring, raw, stages;

  __device__ __forceinline__ Shared(const Geometry &g, const char *first) {
    barriers = ptx::shared_address(first);
    weights = barriers + kBarrierBytes;
    ring = weights + g.depth_rows * g.pairs * g.blocks * 256;
    raw = ring + g.slots * g.slot_units * kUnit;
    stages = raw + kLoaders * kRawStages * g.raw_stage;
  }
  __device__ __forceinline__ uint32_t slot_full(int32_t slot) const { return barriers + slot * 8; }
  __device__ __forceinline__ uint32_t slot_empty(int32_t slot) const { return barriers + (kMostSlots + slot) * 8; }
  __device__ __forceinline__ uint32_t stage_full(int32_t stage) const {
    return barriers + (2 * kMostSlots + stage) * 8;
  }
  __device__ __forceinline__ uint32_t stage_empty(int32_t stage) const {
    return barriers + (2 * kMostSlots + kStages + stage) * 8;
  }
};

// What a block does of one octet.
struct Item {
  int32_t image, first_row, rows, steps; // the first of an octet; output rows
};

// The first image of an octet, and any of them.
__device__ __forceinline__ int32_t first_image(const Geometry &g, int32_t octet) {
  const int32_t run = octet >> g.image_shift;
  return (run * (kImages - 1) << g.image_shift) + octet;
}
__device__ __forceinline__ int32_t image_of(const Geometry &g, const Item &item, int32_t n) {
  return item.image + (n << g.image_shift);
}
// How many there are.
__device__ __forceinline__ int32_t images_of(const Geometry &g, const Item &item) {
  return min((g.images - item.image - 1 >> g.image_shift) + 1, kImages);
}

// A block's share of all steps, an item after the other.
class Share {
 public:
  __device__ __forceinline__ explicit Share(const Geometry &g) {
    const auto from = static_cast<int32_t>(blockIdx.x) / g.groups * int64_t{g.share};
    left_ = static_cast<int32_t>(min(g.all_steps - from, int64_t{g.share}));
    octet_ = static_cast<int32_t>(from / g.steps);
    step_ = static_cast<int32_t>(from - int64_t{octet_} * g.steps);
  }
  __device__ __forceinline__ bool there() const { return left_ > 0; }
  __device__ __forceinline__ Item take(const Geometry &g, int32_t rows_of_step) {
    const int32_t steps = min(g.steps - step_, left_), first = step_ * rows_of_step;
    const Item item = {first_image(g, octet_), first, min(g.output_h - first, steps * rows_of_step), steps};
    left_ -= steps, ++octet_, step_ = 0;
    return item;
  }

 private:
  int32_t left_, octet_, step_; // the next item's
};

// A run of results in memory, from a row of an item's on.
__device__ __forceinline__ uint16_t *run_of(const Geometry &g, const Pointers &p, const Item &item, int32_t image,
                                            int32_t filter, int32_t row) {
  return static_cast<uint16_t *>(p.y) + (image_of(g, item, image) * g.y_image + int64_t{filter} * g.y_filter +
                                         int64_t{item.first_row + row} * g.y_row);
}
// Where it waits: neighbouring images are not neighbours, so that a warp's stores fall into different banks.
__device__ __forceinline__ uint32_t place_of(const Geometry &g, int32_t image, int32_t filter) {
  return filter * g.y_wait_filter + (image / 2 + image % 2 * (kImages / 2)) * g.y_wait_image;
}

} // namespace polyconv::cuda::octets
