// parts.hpp - cuts a grid into tasks and runs it. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/count.hpp"
#include "cpu/common/grid.hpp"

#include <polyconv/sdk/parallel.hpp>

#include <algorithm>

namespace polyconv::cpu {

inline int64_t tasks_of(const Grid &g) {
  return g.unit_parts * g.panel_parts;
}
inline int64_t largest_units(const Grid &g) {
  return ceil_div(g.units, g.unit_parts);
}
inline int64_t largest_panels(const Grid &g) {
  return ceil_div(g.panels, g.panel_parts);
}

// At most `tasks` shares, uncut, whose largest, cost(grid), costs least; between near equals the fewest parts of
// panels, each of which reads the source anew.
template <class Cost>
Grid cut_grid(int64_t units, int64_t panels, int64_t tasks, const Cost &cost) {
  Grid best = {units, panels, 1, 1, 1, 1};
  double least = cost(best);
  for (int64_t of_units = std::min(tasks, units); of_units >= 1; --of_units) {
    const Grid cut = {units, panels, of_units, std::min(tasks / of_units, panels), 1, 1};
    const double largest = cost(cut);
    if (largest < 0.99 * least) best = cut, least = largest;
  }
  return best;
}

// How many pieces are worth taking over one by one, of a share that takes share_us: few enough that claiming them and
// leaving the caches' contents behind does not show.
inline int64_t pieces_for(const Grid &g, double share_us) {
  constexpr double kPieceUs = 12;
  constexpr int64_t kMostPieces = 16;
  if (tasks_of(g) == 1) return 1;
  return std::clamp(static_cast<int64_t>(std::min(share_us, 1e6) / kPieceUs), int64_t{1}, kMostPieces);
}

// Cuts shares of share_us between any units: for kernels whose units read and bring in nothing together.
inline void cut_units(Grid &g, double share_us) {
  g.unit_pieces = std::clamp<int64_t>(largest_units(g), 1, pieces_for(g, share_us));
}

inline GridShare piece_of(const Grid &g, int64_t share, int64_t piece) {
  const sdk::Share units = sdk::share(g.units, g.unit_parts, share % g.unit_parts);
  const sdk::Share panels = sdk::share(g.panels, g.panel_parts, share / g.unit_parts);
  const sdk::Share u = sdk::share(units.end - units.begin, g.unit_pieces, piece / g.panel_pieces);
  const sdk::Share p = sdk::share(panels.end - panels.begin, g.panel_pieces, piece % g.panel_pieces);
  return {units.begin + u.begin, units.begin + u.end, panels.begin + p.begin, panels.begin + p.end, 0, nullptr};
}

// body(piece) for every piece of every share, with the scratch of the task that does it.
template <class Body>
void run_grid(const std::unique_ptr<sdk::Parallel> &parallel, const Grid &g, void *workspace, int64_t scratch_bytes,
              const Body &body) {
  sdk::run_pieces(parallel, tasks_of(g), g.unit_pieces * g.panel_pieces,
                  [&](int64_t task, int64_t share, int64_t piece, int64_t before) {
                    GridShare work = piece_of(g, share, piece);
                    work.same_units = before >= 0 && before / g.panel_pieces == piece / g.panel_pieces;
                    work.scratch = static_cast<char *>(workspace) + task * scratch_bytes;
                    if (work.first_unit < work.last_unit && work.first_panel < work.last_panel) body(work);
                  });
}

// body(share) for the share that each of `tasks` tasks has of the items, with its scratch.
template <class Body>
void run_items(const std::unique_ptr<sdk::Parallel> &parallel, int64_t items, int64_t tasks, void *workspace,
               int64_t scratch_bytes, const Body &body) {
  sdk::run_tasks(parallel, tasks, [&](int64_t task) {
    const sdk::Share mine = sdk::share(items, tasks, task);
    body(ItemShare{mine.begin, mine.end, static_cast<char *>(workspace) + task * scratch_bytes});
  });
}

// body(task, item) for every item; each of at most `tasks` tasks takes neighbours.
template <class Body>
void run_each(const std::unique_ptr<sdk::Parallel> &parallel, int64_t items, int64_t tasks, const Body &body) {
  tasks = std::min(tasks, items);
  sdk::run_tasks(parallel, tasks, [&](int64_t task) {
    const sdk::Share mine = sdk::share(items, tasks, task);
    for (int64_t item = mine.begin; item < mine.end; ++item) body(task, item);
  });
}

// The tasks of work outside plans, such as packing.
inline int64_t threads_of(const std::unique_ptr<sdk::Parallel> &parallel) {
  return parallel ? parallel->threads() : 1;
}

} // namespace polyconv::cpu
