// weights_plan.cu - how the gradient of weights of small groups is cut: units, slices, patches, shares of the depth,
// and its time.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "common/machine.hpp"
#include "grouped/weights.hpp"

namespace polyconv::cuda::tensor {
namespace {

constexpr int64_t kLongestSum = int64_t{1} << 17; // pixels: so many roundings stay below those of the result

int32_t power_of_two(int32_t least) {
  int32_t v = 1;
  while (v < least) v *= 2;
  return v;
}

// Matrices of a warp: the shape that leaves the fewest sums without a row or column, of equals the larger one, for it
// reads its factors for more products.
void set_warp(int32_t warps, GroupedWeights *p) {
  const int32_t down = small(ceil_div(p->all_chunks(), 2)), across = p->unit_filters() / 8;
  const auto cost = [&](const GroupedWarpShape &s) {
    const double all = real(ceil_div(down, s.rows)) * ceil_div(across, s.columns);
    return all * (s.rows * (2.0 + s.columns) + 4); // loads of x and products; what a warp does once a step
  };
  const GroupedWarpShape *best = kGroupedWarpShapes;
  for (const GroupedWarpShape &s : kGroupedWarpShapes)
    if (cost(s) <= cost(*best)) best = &s;
  p->rows = best->rows, p->columns = best->columns;
  p->column_warps = small(ceil_div(across, p->columns));
  const int32_t wanted = small(ceil_div(down, p->rows)), most = std::max(1, warps / p->column_warps);
  p->turn_slices = small(ceil_div(wanted, most));
  p->row_warps = small(ceil_div(wanted, p->turn_slices));
}

// Slices of about so many channels, in whole units; and warps for all that.
void set_slices(const polyconv_layer &l, const GroupedBlock &block, GroupedWeights *p) {
  const int32_t all = small(ceil_div(l.groups, p->unit_groups)), of_unit = p->row_warps * p->column_warps;
  const int32_t wide = std::max(p->unit_channels(), p->unit_filters());
  p->units = std::clamp(std::min(block.channels / wide, block.warps / of_unit), 1, all);
  p->slices = small(ceil_div(all, p->units));
  p->units = small(ceil_div(all, p->slices));
  p->x_chunks = power_of_two(p->units * p->unit_channels() / 8);
  p->dy_chunks = power_of_two(p->units * p->unit_filters() / 8);
  p->parts = std::max(1, block.warps / p->part_warps());
}

// Clocks of a multiprocessor for a chunk of 16 bytes on its way into shared memory.
double chunk_clocks(int32_t width) {
  return width == 16 ? 0.35 : width == 8 ? 0.5 : width == 4 ? 0.7 : 1.4;
}

// Likewise for a patch: its chunks; and what its warps read, four clocks for 512 bytes, or multiply.
double patch_clocks(const GroupedWeights &p) {
  const double chunks = real(p.patches.positions) * p.x_chunks * chunk_clocks(p.x.width) +
                        real(p.patches.pixels) * p.dy_chunks * chunk_clocks(p.dy.width);
  const double step = p.rows * std::max(4.6, 2.3 * p.columns) + 4.6 * ((p.columns + 1) / 2) + 10;
  return chunks + real(ceil_div(p.patches.pixels / 16, p.parts)) * p.warps() * step;
}

bool fits(GroupedWeights *p) {
  if (p->patches.positions > kLentShared / 32 || p->run * p->phases() > kMostPatch[3]) return false;
  const double images = real(p->patches.tile[0]);
  if (images > 1 && images * real(std::max(p->x.image, p->dy.image)) > INT32_MAX) return false; // offsets of a patch
  p->tables_at = std::max(2 * p->stage_bytes(), p->leaving_bytes());
  return p->shared_bytes() <= kLentShared;
}

// Blocks that share a multiprocessor.
int32_t blocks_together(const GroupedWeights &p) {
  return std::clamp(std::min(kGroupedWarps / p.warps(), kHopperShared / (p.shared_bytes() + 1024)), 1, 8);
}

// Microseconds of the products, and of what splits leave to add. A block alone takes twice as long for a patch as its
// work, for its warps wait for each other, and then for memory; others beside it hide that. 28 layers on an H200.
double multiplying_us(const GroupedWeights &p) {
  const int32_t together = blocks_together(p);
  const double blocks = real(p.tiles()) * p.splits, rounds = std::ceil(blocks / (kHopperMultiprocessors * together));
  const double beside = std::min<double>(together, std::ceil(blocks / kHopperMultiprocessors));
  const double work = patch_clocks(p), patch = std::max(1.2 * beside * work, 1000 + 2 * work);
  return (rounds * real(ceil_div(p.patches.count, p.splits)) * patch + 2000) / kHopperClocks;
}
double adding_us(const GroupedWeights &p) {
  return p.splits == 1 ? 0 : 2.5 + real(grouped_pieces_bytes(p)) / 1.8e6 + p.splits * 0.01;
}

// As many splits as leave no multiprocessor without work, or fewer where their sums would take longer.
void set_splits(GroupedWeights *p) {
  const int64_t workers = int64_t{kHopperMultiprocessors} * blocks_together(*p);
  const int64_t least = ceil_div(int64_t{p->patches.count} * p->patches.pixels / p->parts, kLongestSum);
  const int64_t most = std::max(workers / std::max(p->tiles(), 1), least);
  double best = 0;
  int32_t chosen = 1;
  for (int64_t wanted = most; wanted >= std::max<int64_t>(least, 1); wanted /= 2) {
    p->splits = small(std::clamp<int64_t>(wanted, 1, std::max(p->patches.count, 1)));
    const double us = multiplying_us(*p) + adding_us(*p);
    if (best == 0 || us < best) best = us, chosen = p->splits;
  }
  p->splits = chosen;
}

// Positions of a row by their residue of the stride.
void set_phases(GroupedWeights *p) {
  p->run = small(ceil_div(p->patches.patch[3], p->phases()));
  p->patches.positions = p->patches.positions / p->patches.patch[3] * p->run * p->phases();
  const int32_t(&tiles)[4] = p->patches.tiles;
  p->whole = tiles[1] == 1 && tiles[2] == 1 && tiles[3] == 1 ? 1 : 0;
}

} // namespace

int64_t grouped_unit(const polyconv_layer &l) {
  const int64_t channels = l.weights.size[1], filters = l.weights.size[0] / l.groups;
  return std::max(8 / std::gcd<int64_t>(8, channels), 8 / std::gcd<int64_t>(8, filters)); // powers of two
}

GroupedWeights make_grouped_weights(const polyconv_layer &l, const GroupedBlock &block) {
  GroupedWeights p = {{}, {}, View<int64_t>(l.weights)};
  p.result_type = l.result.type;
  p.groups = small(l.groups), p.group_channels = small(l.weights.size[1]);
  p.group_filters = small(l.weights.size[0] / l.groups);
  p.unit_groups = small(grouped_unit(l));
  p.patches = make_patches(l);
  set_warp(block.warps, &p);
  set_slices(l, block, &p);
  p.x.width = slab_width(l.input, 0), p.dy.width = slab_width(l.output, 0);
  p.x.image = l.input.stride[0], p.dy.image = l.output.stride[0];
  choose_patches(&p.patches, [&] {
    set_phases(&p);
    if (!fits(&p)) return 0.0;
    set_splits(&p);
    return multiplying_us(p) + adding_us(p);
  });
  p.splits = 0;
  if (p.patches.pixels == 0) return p;
  set_phases(&p);
  if (fits(&p)) set_splits(&p);
  return p;
}

int64_t grouped_pieces_bytes(const GroupedWeights &p) {
  return p.splits == 1 ? 0 : aligned_bytes(int64_t{p.splits} * p.tiles() * p.piece_sums() * 4);
}

double grouped_weights_us(const polyconv_layer &l, const GroupedWeights &p) {
  const double multiplying = multiplying_us(p);
  const double x = 2 * real(sdk::elements(l.input)), dy = 2 * real(sdk::elements(l.output));
  const double moving = std::max((x + dy) / 3.8e6, (x + dy) * p.turn_slices / 5.5e6);
  return 4 + std::max(multiplying, moving) + 0.2 * std::min(multiplying, moving) + adding_us(p);
}

int grouped_warp_shape(const GroupedWeights &p) {
  for (int i = 0; i < kGroupedWarpShapeCount; ++i)
    if (kGroupedWarpShapes[i].rows == p.rows && kGroupedWarpShapes[i].columns == p.columns) return i;
  return -1;
}

} // namespace polyconv::cuda::tensor
