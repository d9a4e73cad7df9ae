// machine.hpp - the GPU that estimates and shares of work suppose. Another one runs the same kernels right, with other
// times; only the shared memory is a bound. Clocks and rates that were fitted to one kernel stand in its formula.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv::cuda {

inline constexpr int kHopperMultiprocessors = 132; // of an H100 or H200
inline constexpr double kHopperClocks = 1755;      // of an H200, in a microsecond
inline constexpr double kHopperFmaClocks = 1485;   // likewise, as warps issue FMAs with loads from shared memory
inline constexpr double kHopperWgmmaClocks = 1600; // likewise, under wgmma, which runs out of power
inline constexpr double kHopperFmaRate = 50.5e6;   // operations in a microsecond, of all, that f32 products reach
inline constexpr int kHopperShared = 227 << 10;    // bytes: what a block may have, and what blocks side by side share
inline constexpr int kLentShared = 99 << 10;       // bytes: what every chip from 8.0 on lends a block
inline constexpr double kPackingUs = 3;            // of new weights, ahead of a run

} // namespace polyconv::cuda
