// texture_cost.hpp - what a run of cuda-texture takes: the slowest of issuing, fetching, waiting and moving bytes. The
// rates are fitted to an H200; of other chips they order the configs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "common/machine.hpp"
#include "launch.hpp"

namespace polyconv::cuda::texture {

inline constexpr double kClock = 1980;               // cycles a microsecond, as fitted
inline constexpr double kLatency = 500, kQueue = 45; // cycles from a row's fetches to its texels: all, each
inline constexpr double kBytes = 3.2e6;              // a microsecond

// Texels a microsecond. The unit takes the four lanes of a quad at once only where they read neighbours: the further
// apart the patches of a plane are, the less. Linear fetches pass as loads do.
inline double fetch_rate(Path path, int32_t across) {
  if (path == kLinear) return across > 4 ? 0.92e6 : 1.2e6;
  return across > 4 ? 0.25e6 : across > 1 ? 0.4e6 : 0.85e6;
}

// n: the filter's size where it is unrolled, else 0.
inline double estimate_us(const polyconv_layer &l, Path path, const Patch &patch, const Tiling &t, int n) {
  const double channels = static_cast<double>(l.weights.size[1]), taps = static_cast<double>(sdk::taps(l));
  const double width = patch.across + n - 1;
  const double steps = t.down + (n > 0 ? n - 1 : 0), threads = t.threads(), blocks = static_cast<double>(t.blocks);
  const double fetches = channels * (n > 0 ? width : taps * patch.across);
  // Instructions of a warp: a row of inputs or of outputs, and what a block begins with.
  const double row = (n > 0 ? channels * taps * patch.across + 4 * fetches : fetches * 7) + 8 * patch.across + 40;
  const double start = 250 + 40 * channels * taps / threads;
  // Many sums leave registers for few warps, which hide less; and a last wave of few blocks leaves the chip half empty.
  const double resident = std::floor(std::min(512.0 / (n * patch.across + 60), 8.0));
  const double waves = blocks / (kHopperMultiprocessors * resident), tail = std::ceil(waves) / std::max(waves, 1.0);
  const double one = n == 7 ? 0.72 : n == 5 || patch.across > 4 ? 0.55 : 0.62; // channel
  const double busy = l.weights.size[1] > 1 ? 0.45 : one;
  const double rate = kHopperMultiprocessors * 4 * kClock * busy; // instructions of warps
  const double issue_us = blocks * threads / 32 * (steps * row + start) / rate * (1 + tail) / 2;
  // Lanes that are apart meet more cache lines in a fetch: columns of several channels, or narrow blocks.
  const double spread =
      static_cast<double>(std::min<int64_t>(std::max<int64_t>(l.input.stride[4], 1), 8)) * (t.cols < 32 ? 1.3 : 1.0);
  const double fetch_us = spread * blocks * threads * steps * fetches / fetch_rate(path, patch.across);
  const double waits = channels * (n > 0 ? 1 : taps / 2); // one after another
  const double wait_us = std::ceil(waves) * steps * (waits * kLatency + fetches * spread * kQueue + row) / kClock;
  const double bytes = static_cast<double>(sdk::elements(l.input) * element_bytes(l.input.type)) +
                       static_cast<double>(sdk::elements(l.result) * element_bytes(l.result.type));
  const double bytes_us = bytes / kBytes, all = issue_us + fetch_us + bytes_us; // they overlap, not perfectly
  // Results whose columns are not neighbours go out in sectors of 32 bytes, up to one for each.
  const int64_t apart = l.result.stride[4] == 1 ? 0 : std::min<int64_t>(l.result.stride[4] * 4, 32);
  const double apart_us = static_cast<double>(sdk::elements(l.result) * apart) / 2.1e6;
  return 3 + std::max(std::max(issue_us, fetch_us), std::max(wait_us, bytes_us)) + 0.05 * all + apart_us;
}

} // namespace polyconv::cuda::texture
