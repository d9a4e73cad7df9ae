// host_clock.hpp - the host's own clock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace polyconv::bench {

using HostClock = std::chrono::steady_clock;

inline double seconds_since(HostClock::time_point begin) {
  return std::chrono::duration<double>(HostClock::now() - begin).count();
}

} // namespace polyconv::bench
