// mma_cost.cpp - what a layer costs on the product by mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/bytes.hpp>

#include <algorithm>
#include <cmath>

#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "common/pieces.hpp"
#include "common/sums/partials.hpp"
#include "mma/product.hpp"

namespace polyconv::cuda::tensor {
namespace {

// How many times as long as one of f16 a block of k takes.
double slower(Products products, int tile, Source source) {
  const bool gathered = source == Source::kGathered;
  // Shifted: words that go through registers as well, a guess from how many instructions that takes.
  const double words = source == Source::kWords ? 1.9 : source == Source::kShifted ? 2.5 : 1;
  switch (products) {
    case Products::kTf32: return gathered ? 3 : 1.05 * words;
    case Products::kEmulated:
      return (tile == k128x64 ? 2.65 : 2.3) * (gathered ? 1.5 : source == Source::kWords ? 1.2 : 1);
    default: return gathered ? 7 : words;
  }
}

} // namespace

// Fitted to products of f16 at batches 1 to 128 on an H200; see docs/performance/cuda/tensor-mma.md.
double mma_us(const polyconv_layer &l, Products products, int tile, Source source, int splits) {
  const auto parts = [](int64_t count, int64_t of) { return real(ceil_div(count, of)); };
  const MmaShape &shape = kMmaShapes[tile];
  const double tiles = parts(l.output.size[0] * sdk::spatial(l.output), shape.pixels) *
                       parts(l.output.size[1] / l.groups, shape.channels) * static_cast<double>(l.groups);
  const double blocks = std::ceil(static_cast<double>(mma_blocks(l, products)) / splits);
  const double busiest = std::ceil(tiles * splits / kHopperMultiprocessors);
  const double there = std::min(busiest, static_cast<double>(shape.blocks)), full = shape.blocks;
  const double hidden = there / (there + shape.waiting) * ((full + shape.waiting) / full); // blocks wait for memory
  const double us = busiest * shape.block_us * (blocks * slower(products, tile, source) + shape.ends) / hidden;
  const double bytes = static_cast<double>(sdk::elements(l.input) * sdk::type_bytes(l.input.type) +
                                           sdk::elements(l.output) * sdk::type_bytes(l.result.type));
  const double partials = splits == 1 ? 0 : 3.5 + static_cast<double>(partials_bytes(l, splits)) / 1.2e6;
  // What is more than a bias and a relu, clipped or not, is finished one by one.
  const bool plain = l.epilogue.residual_from == POLYCONV_RESIDUAL_NONE && l.save == POLYCONV_SAVE_NONE &&
                     l.epilogue.activation <= POLYCONV_ACT_CLIPPED_RELU;
  const double rate = shape.pixels * shape.channels <= 64 * 64 ? 125e3 : 80e3; // more blocks hide more of it
  const double finishing = plain ? 0 : static_cast<double>(sdk::elements(l.output)) / rate;
  // Rows of results that are no whole 16 bytes leave by words; five layers on an H100.
  const bool ragged = splits == 1 && sdk::type_bytes(l.result.type) == 2 && l.result.stride[1] == 1 &&
                      !in_pieces(l.result, 8, l.output.size[1] / l.groups);
  const double stored = shape.pixels * std::min<double>(shape.channels, real(l.output.size[1] / l.groups));
  const double words = ragged ? stored * (0.35e-3 * busiest + 0.25e-3) : 0;
  return 3 + std::max(us + words, bytes / 3.5e6) + partials + finishing;
}

} // namespace polyconv::cuda::tensor
