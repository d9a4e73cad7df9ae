// driver.hpp - the CPU-independent half of the dense kernel: geometry, offer, packed weights, instance. Driver side
// only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/rows.hpp"
#include "cpu/dense/plan.hpp"

#include <polyconv/sdk/parallel.hpp>

#include <algorithm>

namespace polyconv::cpu {

typedef void (*DenseTaskFunction)(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share);

inline int64_t element_bytes(const DensePlan &p) {
  return p.arithmetic == DenseArithmetic::kF64 ? 8 : 4;
}

// Channels of an element.
inline int64_t element_channels(DenseArithmetic arithmetic) {
  return arithmetic == DenseArithmetic::kQuads                                           ? 4
         : arithmetic == DenseArithmetic::kPairs || arithmetic == DenseArithmetic::kBf16 ? 2
                                                                                         : 1;
}

// Block sizes, shares and scratch for a forward layer: arithmetic alone, no tables.
DensePlan dense_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);

// Cuts the columns of a line into p.tiles of nearly equal size.
inline void cut_tiles(DensePlan &p) {
  const int64_t tiles = std::max<int64_t>(p.tiles, 1);
  p.tile_size = p.columns / tiles, p.long_tiles = p.columns % tiles;
}

// kDots and kByteDots stand for the vectors that they have and the arithmetic that they add.
bool dense_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> dense_create(const polyconv_request &request, Isa isa, DenseTaskFunction task);

} // namespace polyconv::cpu
