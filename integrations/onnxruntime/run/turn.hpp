// turn.hpp - turns a tensor's channels from first to last or back, where a region meets what is around it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_TURN_HPP
#define POLYCONV_ORT_TURN_HPP

#include <cstdint>
#include <vector>

#include "runtime/graph.hpp"

namespace polyconv_ort {

struct Turn {
  std::vector<int64_t> sizes; // batch, channels, and the others
  size_t element = 4;         // bytes: 1, 2 or 4; on the host 1 or 4
  bool to_last = false;       // else back to first
};

// Copies `from`, turned, to `to`, which does not overlap it, on the session's threads.
void turn(const Api &, const Turn &, const void *from, void *to);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_TURN_HPP
