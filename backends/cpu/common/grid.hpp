// grid.hpp - units of output by panels of output channels: how they are cut into shares, one a task, and these into
// pieces, which tasks that are done take over from slower ones. Plain structs, which every pass may read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

} // namespace polyconv::cpu
