// constant_cost.hpp - what a tile of cuda-constant costs, and the choice of the cheapest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/machine.hpp"
#include "tiling.hpp"

namespace polyconv::cuda::constant {

// What a block's work costs: issue slots of all its warps, and the cycles for which a warp waits on top of its own.
struct Cost {
  double slots, wait;
};

// Staging all channels, part after part: element by element with copies, or in turns through registers, which is for
// f32 within the image. Decides which of the two.
inline Cost stage_cost(const polyconv_layer &l, Tiling &t) {
  const int64_t outputs = (l.output.size[3] + t.tiles_h - 1) / t.tiles_h; // rows of a block on the average
  const int64_t rows = std::min<int64_t>(t.rows, outputs + t.below), all = l.weights.size[1];
  const int64_t parts = (all + t.channels - 1) / t.channels, phases = int64_t{t.row_phases} * t.col_phases;
  const auto planes = static_cast<double>(all * t.images * phases);
  const double copies = static_cast<double>(rows * ((t.phase_cols + 7) / 8 * 8)) / 32;
  const Cost by_copies = {planes * 22 * copies, planes * 800 + static_cast<double>(parts) * 700};
  const int64_t units = int64_t{t.channels} * t.images * t.quads * t.phase_cols, turn = 4 * t.threads();
  const auto turns = static_cast<double>(parts * phases * ((units + turn - 1) / turn));
  const Cost by_turns = {turns * 300 * t.threads() / 32, turns * 700};
  t.in_turns = planes > 1 ? 1 : 0; // one plane waits for its copies only once, and its sums begin as soon
  const bool padded = l.pad_begin[1] + l.pad_begin[2] + l.pad_end[1] + l.pad_end[2] > 0;
  return padded || l.input.type != POLYCONV_F32 || !t.in_turns ? by_copies : by_turns;
}

// A group of filters, staging aside, where `apart` blocks are side by side in a multiprocessor that did not start
// together.
inline Cost group_cost(const polyconv_layer &l, const Shape &shape, const Passes &passes, const Split &split, int warps,
                       int64_t apart) {
  const int sums = shape.filters * shape.rows, vector = vector_rows(passes.taps, shape.rows);
  const bool looped = passes.taps == 1 || passes.taps == 4;
  const auto columns = static_cast<double>(l.weights.size[1] * l.weights.size[4]);
  // The constant cache holds 2 KB. Blocks apart are not at the same weights: three and more throw each other's out.
  const bool fit = split.groups * columns * passes.count * split.row * 4 <= 2048;
  const double crowd = fit || apart < 3 ? 0 : static_cast<double>(apart * split.row * 4 - 256) / 25;
  const double pair = 1 + std::clamp(crowd, 0.0, 12.0);
  // Weights in 56 of the 63 uniform registers are there before the products begin; more are waited for.
  const double pairs = split.row / 2, late = std::max(0.0, pairs - 28);
  const double loads = (shape.rows + passes.taps + vector - 2) / vector;
  const double pass = pair * pairs + 11.7 * late + 0.8 * loads + (looped ? 110 : 0);
  const double column = passes.count * pass + static_cast<double>(sums * l.weights.size[3]);
  const double wait = unrolls(passes.taps, shape) ? 72 : 144; // for weights and inputs, in a pass
  return {warps * (columns * column + 7.3 * sums), columns * passes.count * wait + 630};
}

// Blocks of a launch that a multiprocessor of an H200 has side by side.
inline int64_t resident_blocks(const Shape &shape, int taps, bool plain, const Tiling &t) {
  const int64_t warps = t.threads() / 32, by_registers = 512 / registers(taps, shape, plain) * 4 / warps;
  const int64_t by_shared = kHopperShared / (shared_bytes(shape, t) + 1024),
                of_processor = ceil_div(t.blocks, kHopperMultiprocessors);
  return std::max<int64_t>(std::min({by_registers, by_shared, 64 / warps, int64_t{32}, of_processor}), 1);
}

// Microseconds on an H200. The terms were fitted to 235 measured pairs of shape and tiling, but for the crowd at the
// constant cache (docs/performance/cuda/constant.md): right to 7 % for large batches, to 18 % for small ones (one
// sigma).
inline double estimate(const polyconv_layer &l, const Shape &shape, const Passes &passes, const Split &split,
                       bool plain, Tiling &t) {
  const int warps = t.threads() / 32;
  const int64_t resident = resident_blocks(shape, passes.taps, plain, t);
  const int64_t of_processor = ceil_div(t.blocks, kHopperMultiprocessors),
                apart = of_processor < 2 * resident ? 1 : resident;
  const Cost group = group_cost(l, shape, passes, split, warps, apart), stage = stage_cost(l, t);
  const double stages = l.weights.size[1] > t.channels || !plain ? split.groups : 1; // for each group of filters
  const double slots = split.groups * group.slots + stages * stage.slots;
  const double wait = split.groups * group.wait + stages * stage.wait;

  const auto side_by_side = static_cast<double>(resident);
  const double idle = 2.5 / (side_by_side * warps) + 0.15 / (side_by_side * side_by_side); // too few warps, or blocks
  // Few taps of several channels wait more for their weights than the terms above tell.
  const double short_of_weights = passes.taps == 3 && l.weights.size[1] > 1 ? 2.3 : 1;
  const double cycles = (slots / 4 * (1 + idle) + wait / side_by_side) * short_of_weights;
  const auto blocks = static_cast<double>(of_processor * split.launches);
  const double bytes =
      4 * (static_cast<double>(sdk::elements(l.input)) * split.launches + static_cast<double>(sdk::elements(l.result)));
  // Results whose columns are not neighbours go out in sectors of 32 bytes, up to one for each.
  const double apart_bytes =
      4 * static_cast<double>(sdk::elements(l.result) * std::clamp<int64_t>(l.result.stride[4], 1, 8));
  const double scattered = l.result.stride[4] == 1 ? 0 : apart_bytes / 1.1e6;
  // One by one, as pooling asks; a thread's own one after the other.
  const polyconv_pool &pool = l.epilogue.pool;
  const double pooled = sdk::has_pooling(l) ? static_cast<double>(pool.window[1] * pool.window[2]) : 1;
  const double finishing = plain ? 0
                                 : std::max(static_cast<double>(sdk::elements(l.output)) / 84e3,
                                            shape.filters * shape.rows * (0.25 + 0.1 * pooled));
  return 3.0 * split.launches + std::max({blocks * cycles / 1.98e3, bytes / 3.9e6, scattered}) + finishing;
}

// Whether the least tile fits; then choose_tiling finds one.
inline bool fits(const polyconv_layer &l, const Shape &shape, int64_t shared) {
  Tiling t = {};
  t.result_cols = t.images = 1, t.cols = static_cast<int32_t>(sdk::pool_window(l, 2).size);
  t.stripes = static_cast<int32_t>((sdk::pool_window(l, 1).size + shape.rows - 1) / shape.rows);
  return complete(l, shape.rows, shared, t);
}

// The best tiling for a shape; false where none fits into shared memory.
inline bool choose_tiling(const polyconv_layer &l, const Shape &shape, const Split &split, bool plain, int64_t shared,
                          Tiling &best, double &best_us) {
  const sdk::PoolWindow down = sdk::pool_window(l, 1), across = sdk::pool_window(l, 2);
  const int taps = taps_of(l);
  const int threads = std::min(kMostThreads, most_threads(registers(taps, shape, plain)));
  const int64_t most = (threads - across.size) / across.stride + 1; // results side by side
  if (threads < across.size) return false;
  const int64_t width = std::max<int64_t>(l.result.size[4], 1), height = std::max<int64_t>(l.result.size[3], 1);
  const int64_t fewest = (width + most - 1) / most;
  const int64_t needed_rows = (height - 1) * down.stride + down.size;
  bool found = false;
  Passes passes;
  if (!make_passes(l, taps, 0, passes)) return false;
  const int64_t choices[] = {fewest, fewest + 1, fewest + 2, fewest + 3, fewest * 4, fewest * 8, width};
  for (int i = 0; i < 7 && !(found && i == 6); ++i) { // the last, single columns, where nothing else fits
    const int64_t parts = choices[i];
    if (parts > width) continue;
    Tiling t = {};
    t.result_cols = static_cast<int32_t>((width + parts - 1) / parts);
    t.cols = static_cast<int32_t>((t.result_cols - 1) * across.stride + across.size);
    for (t.stripes = 1; t.stripes * t.cols <= threads; ++t.stripes) {
      const bool tall = int64_t{t.stripes} * shape.rows >= needed_rows, whole = tall && parts == 1;
      for (t.images = 1; t.images * t.stripes * t.cols <= threads; ++t.images) {
        if (!complete(l, shape.rows, shared, t)) break;
        const double us = estimate(l, shape, passes, split, plain, t);
        if (!found || us < best_us) found = true, best_us = us, best = t;
        if (!whole) break; // several images only where each is whole
      }
      if (tall) break;
    }
  }
  return found;
}

} // namespace polyconv::cuda::constant
