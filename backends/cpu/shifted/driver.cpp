// driver.cpp - plans, offers, packs and runs the shifted kernel. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/shifted/plan.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kLine = 16;                        // elements of a cache line, and of the longest vector
constexpr int64_t kLeastColumns = 48;                // of a block that is a part of a row
constexpr int64_t kMostParts = 64;                   // of a row
constexpr double kRowCycles = 20, kVectorCycles = 2; // of bringing in a source row, and each of its vectors
constexpr double kTileCycles = 25, kStoreCycles = 2; // of a tile, and each of its vectors
constexpr double kWeightLineCycles = 8;              // of weights that no L2 cache keeps from block to block

// As in tile.hpp.
int64_t tile_filters(Isa isa) {
  return many_registers(isa) ? 14 : 6;
}
constexpr int64_t kTileVectors = 2;

// Blocks of so many rows and columns, at most; nearly equal.
void set_blocks(ShiftedPlan &p, int64_t row_blocks, int64_t column_blocks) {
  const Axis &h = p.axis[1];
  p.row_blocks = row_blocks, p.column_blocks = column_blocks;
  p.block_rows = ceil_div(p.height, row_blocks);
  p.block_columns = ceil_div(p.width, column_blocks);
  p.strip_rows = p.block_rows + (h.taps - 1) * h.dilation;
  p.pitch = p.block_columns + p.reach;
  if (column_blocks == 1) p.pitch -= p.shared;
  // Of the last row what padding takes, and a vector that runs over. An odd number of lines keeps channels, which are
  // read at the same place, apart in the cache's sets.
  p.channel_elements = (ceil_div(p.strip_rows * p.pitch + p.reach + 3 * kLine, kLine) | 1) * kLine;
  p.items = p.images * p.depth * p.groups * row_blocks * column_blocks;
}

int64_t strip_bytes(const ShiftedPlan &p) {
  return p.channels * p.channel_elements * 4;
}

int64_t strip_tiles(const ShiftedPlan &p, Isa isa) {
  const int64_t lanes = vector_bytes(isa) / 4;
  return ceil_div(ceil_div((p.block_rows - 1) * p.pitch + p.block_columns, lanes), kTileVectors) * p.panels;
}

// Cycles of an item.
double item_cycles(const ShiftedPlan &p, Isa isa) {
  const int64_t lanes = vector_bytes(isa) / 4;
  const double vectors = real(ceil_div((p.block_rows - 1) * p.pitch + p.block_columns, lanes));
  const double filters = real(p.filters), steps = real(p.channels * p.taps);
  const double step =
      std::max(0.5 * filters / real(p.panels) * real(kTileVectors), 4.5) / real(kTileVectors); // of a vector
  double cycles = vectors * (real(p.panels) * step * steps + filters * (p.direct ? kStoreCycles : 12));
  cycles += real(strip_tiles(p, isa)) * kTileCycles;
  const int64_t weights = p.filters * p.channels * p.taps * 4;
  if (weights > kShiftedKeptBytes) cycles += real(weights) / 64 * kWeightLineCycles;
  const double row = kRowCycles + real(ceil_div(p.block_columns + p.reach, lanes)) * kVectorCycles;
  return cycles + real(p.strip_rows * p.channels) * row;
}

// The blocks whose largest share costs least, among those whose strip fits; where that of one row does not, none.
double choose_blocks(ShiftedPlan &p, Isa isa, int64_t tasks) {
  double best = 0;
  int64_t rows = 0, columns = 0;
  const int64_t planes = std::max<int64_t>(p.images * p.depth * p.groups, 1), height = std::max<int64_t>(p.height, 1);
  for (int64_t parts = 1; parts <= kMostParts; ++parts) {
    if (parts > 1 && p.width / parts < kLeastColumns) break;
    set_blocks(p, height, parts);
    const int64_t rows_in = (kShiftedStripBytes / (4 * p.channels) - p.reach - 5 * kLine) / p.pitch; // that fit
    const int64_t fit = rows_in - (p.strip_rows - p.block_rows);
    if (fit < 1) continue;
    const int64_t wanted = std::clamp<int64_t>(ceil_div(tasks, planes * parts), 1, height);
    const int64_t blocks = std::max(wanted, ceil_div(p.height, fit));
    for (int64_t more = 0; more < 4 && blocks + more <= height; ++more) {
      set_blocks(p, blocks + more, parts);
      const double cost = real(ceil_div(p.items, tasks)) * item_cycles(p, isa);
      if (rows == 0 || cost < best) best = cost, rows = p.row_blocks, columns = parts;
    }
  }
  if (rows > 0)
    set_blocks(p, rows, columns);
  else
    p.row_blocks = 0;
  return best;
}

ShiftedPlan make_plan(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  ShiftedPlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  p.pad_value = layer.pad_mode == POLYCONV_PAD_CONSTANT ? layer.pad_value : 0.0;
  for (int i = 0; i < 3; ++i) p.axis[i] = make_axis(layer, i);
  p.direct = p.epilogue.simple;
  p.images = layer.output.size[kN];
  p.depth = layer.output.size[kD];
  p.groups = layer.groups;
  p.channels = layer.weights.size[kC];
  p.filters = layer.output.size[kC] / layer.groups;
  p.panels = ceil_div(p.filters, tile_filters(isa));
  p.height = p.axis[1].out, p.width = p.axis[2].out;
  p.taps = sdk::taps(layer);
  p.reach = (p.axis[2].taps - 1) * p.axis[2].dilation;
  const bool valued = layer.pad_mode == POLYCONV_PAD_ZERO || layer.pad_mode == POLYCONV_PAD_CONSTANT;
  // Rows share what is padding behind one and before the next. A row that output padding makes longer ends inside.
  const int64_t behind = std::max<int64_t>(p.width + p.reach - p.axis[2].before - p.axis[2].in, 0);
  p.shared = valued ? std::min({p.axis[2].before, behind, p.reach}) : 0; // pitch stays a row of results
  const int64_t threads = std::max<int64_t>(policy.threads, 1);
  const double cycles = choose_blocks(p, isa, threads);
  p.grid = {p.items, 1, std::clamp<int64_t>(p.items, 1, threads), 1, 1, 1};
  cut_units(p.grid, cycles * cycle_us(isa));
  p.sums_at = round_up(strip_bytes(p), 64);
  p.scratch_bytes = p.sums_at + tile_filters(isa) * kTileVectors * vector_bytes(isa);
  const double moved = 4.0 * real(elements(layer.input) + elements(layer.result) + elements(layer.weights));
  p.estimate_us = estimate_us(tasks_of(p.grid), cycles * cycle_us(isa) * real(tasks_of(p.grid)), moved);
  return p;
}

class ShiftedInstance final : public Instance {
 public:
  ShiftedInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]), plan_(make_plan(layer_, *request.policy, isa)), isa_(isa) {
    axes_ = make_axis_tables(layer_, plan_.axis);
    for (int64_t r = 0; r < plan_.axis[1].taps; ++r)
      for (int64_t s = 0; s < plan_.axis[2].taps; ++s)
        taps_.push_back(r * plan_.axis[1].dilation * plan_.pitch + s * plan_.axis[2].dilation);
    plan_.tap = taps_.data();
    if (tasks_of(plan_.grid) > 1) parallel_ = make_parallel(*request.policy);
  }

  // [panel][channel][tap][filter of the panel]; panels are shared among the threads.
  void pack(int, const void *raw, void *packed, void *) override {
    run_each(parallel_, plan_.groups * plan_.panels, threads_of(parallel_),
             [&](int64_t, int64_t i) { pack_panel(raw, i, static_cast<float *>(packed)); });
  }

  void run(const polyconv_arguments &a, void *) const override {
    const LayerRun run = layer_run(plan_.epilogue, a);
    run_grid(parallel_, plan_.grid, a.workspace, plan_.scratch_bytes,
             [&](const GridShare &share) { shifted_task_by_isa[isa_](plan_, run, share); });
  }

 private:
  void pack_panel(const void *raw, int64_t number, float *packed) const {
    const ShiftedPlan &p = plan_;
    const polyconv_tensor &w = layer_.weights;
    const Share filters = share(p.filters, p.panels, number % p.panels);
    const int64_t first = number / p.panels * p.filters + filters.begin, count = filters.end - filters.begin;
    float *out = packed + first * p.channels * p.taps;
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t r = 0; r < w.size[kH]; ++r)
        for (int64_t s = 0; s < w.size[kW]; ++s)
          for (int64_t k = first; k < first + count; ++k) *out++ = load_as<float>(raw, w.type, at(w, k, c, 0, r, s));
  }

  polyconv_layer layer_;
  ShiftedPlan plan_;
  Isa isa_;
  std::vector<int64_t> axes_, taps_; // what plan_ points into
  std::unique_ptr<Parallel> parallel_;
};

bool takes_layer(const polyconv_layer &layer, Offer &offer) {
  if (!goes(POLYCONV_FORWARD, layer, offer)) return false;
  if (layer.sum_type != POLYCONV_F32 || !is_float(layer.input.type))
    return offer.reject("takes floats and sums in f32");
  if (layer.weights.size[kD] != 1 || layer.stride[0] != 1 || layer.pad_begin[0] + layer.pad_end[0] != 0)
    return offer.reject("filters planes: depth has a kernel, stride or padding here");
  if (layer.stride[1] != 1 || layer.stride[2] != 1)
    return offer.reject("takes stride 1, not %dx%d", static_cast<int>(layer.stride[1]),
                        static_cast<int>(layer.stride[2]));
  if (taps(layer) == 1) return offer.reject("shifts rows under a kernel; this one is 1x1");
  if (layer.input.stride[kW] != 1 || layer.result.stride[kW] != 1)
    return wants_layout(POLYCONV_CHANNELS_FIRST, "reads and stores rows, whose columns must lie side by side", offer);
  if (layer.output.size[kW] < kLine)
    return offer.reject("takes rows of %d results or more, not %" PRId64, static_cast<int>(kLine),
                        layer.output.size[kW]);
  return true;
}

bool shifted_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_strips(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (!takes_layer(layer, offer) || !takes_no_pooling(layer, offer)) return false;
  const ShiftedPlan p = make_plan(layer, *request.policy, isa);
  if (p.row_blocks == 0)
    return offer.reject("keeps what a row of results reads in the cache: %" PRId64 " bytes here, at most %" PRId64,
                        strip_bytes(p), kShiftedStripBytes);
  if (!fits_workspace(request, tasks_of(p.grid), p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  set_weights(offer, elements(layer.weights) * 4, "cpu_shifted_f32_%d:1", static_cast<int>(tile_filters(isa)));
  return true;
}

} // namespace

const sdk::Kernel kernel_shifted =
    kernel_by_isa("shifted", supports_by_isa<shifted_offer>, create_by_isa<ShiftedInstance>);

} // namespace polyconv::cpu
