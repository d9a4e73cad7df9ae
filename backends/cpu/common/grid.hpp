// grid.hpp - units of output by panels of output channels: how they are cut into shares, one a task, and these into
// pieces, which tasks that are done take over from slower ones. Plain structs, which every pass may read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/pass.hpp"

#include <cstdint>

namespace polyconv::cpu {

struct Grid {
  int64_t units, panels;             // panels of all groups
  int64_t unit_parts, panel_parts;   // tasks = unit_parts * panel_parts
  int64_t unit_pieces, panel_pieces; // of a share
};

// What one call computes: a share or a piece of one.
struct GridShare {
  int64_t first_unit, last_unit;   // [first, last)
  int64_t first_panel, last_panel; // of all groups
  int32_t same_units;              // as the piece had that was done before in the same scratch, in this run
  char *scratch;
};

// Work that is a list of items: [first, last), and the scratch of the task that does them.
struct ItemShare {
  int64_t first, last;
  char *scratch;
};

namespace POLYCONV_ISA {

// Where piece i of `total` begins, cut into `parts`.
POLYCONV_INLINE int64_t piece(int64_t total, int64_t parts, int64_t i) {
  const int64_t size = total / parts, rest = total % parts;
  return i * size + (i < rest ? i : rest);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu
