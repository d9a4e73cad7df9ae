// driver.cpp - plans, packs and runs the lowered kernel. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/lowered/plan.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/aligned.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/direct/driver.hpp"
#include "cpu/direct/geometry.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <numeric>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kLine = 16;        // elements of a cache line, and of the longest vector
constexpr double kCopyCycles = 3.0;  // of a shifted vector: a load and a store that leaves the first cache
constexpr double kLowerCycles = 8.5; // the same with all that belongs to it, measured, where vectors could be joined
constexpr double kJoinCycles = 130, kJoinTapCycles = 0.9; // of a tile whose vectors are joined, and of each of its taps
constexpr double kRowUs = 0.004; // of finding and bringing in a source row of a channel, however short

// As in tile.hpp: the most filters of a tile and the vectors of a tile of so many.
int64_t most_filters(Isa isa) {
  return many_registers(isa) ? 8 : 6;
}
int64_t tile_vectors(Isa isa, int64_t filters) {
  return many_registers(isa) ? std::min<int64_t>(25 / filters, 8) : std::min<int64_t>(12 / filters, 3);
}

// The rows of a plane for a strip of `rows` rows of results, and its elements with room for a vector that runs over.
// An odd number of lines keeps planes, which are read at the same place, apart in the cache's sets.
void set_planes(LoweredPlan &p, int64_t rows) {
  const Axis &h = p.rows.axis[1], &w = p.rows.axis[2];
  p.lines = rows + (h.taps - 1) * h.dilation / h.step;
  p.source_rows = (rows - 1) * h.step + (h.taps - 1) * h.dilation + 1;
  p.plane_elements = p.lowers ? (ceil_div(p.lines * p.width + kLine, kLine) | 1) * kLine : 0;
  p.channel_elements = std::min(h.step, h.taps) * w.taps * p.plane_elements; // at most; make_tables counts remainders
}
// What a strip reads: rows, one at a time where they are lowered, and planes.
int64_t rows_bytes(const LoweredPlan &p) {
  return (p.lowers ? 1 : p.source_rows) * p.channels * p.rows.row_elements * 4;
}
int64_t planes_bytes(const LoweredPlan &p) {
  return p.channels * p.channel_elements * 4;
}

// The most rows of a strip that fits, but a few strips for every task; nearly equal.
void set_strips(LoweredPlan &p, int64_t tasks) {
  const int64_t planes = p.images * p.depth * p.groups;
  p.strips = std::clamp<int64_t>(ceil_div(2 * tasks, std::max<int64_t>(planes, 1)), 1, std::max<int64_t>(p.height, 1));
  int64_t fits = 1, most = std::max<int64_t>(ceil_div(p.height, p.strips), 1); // rows: the more, the more bytes
  while (fits < most) {
    const int64_t rows = most - (most - fits) / 2;
    set_planes(p, rows);
    if (rows_bytes(p) + planes_bytes(p) <= kLoweredStripBytes)
      fits = rows;
    else
      most = rows - 1;
  }
  p.strip_rows = ceil_div(p.height, std::max(p.strips, ceil_div(p.height, fits)));
  set_planes(p, p.strip_rows);
  p.strips = ceil_div(p.height, std::max<int64_t>(p.strip_rows, 1));
  p.items = planes * p.strips;
  p.grid = {p.items, 1, std::clamp<int64_t>(p.items, 1, tasks), 1, 1, 1};
}

// Cycles of a core that multiplies and adds two vectors a cycle and loads as many, one where lines are crossed.
double tile_cycles(Isa isa, double filters, double vectors) {
  const double loads = (many_registers(isa) ? vectors : 0.75 * vectors) + 0.5 * filters;
  return std::max(0.5 * filters * vectors, loads) + 0.5;
}

// The vectors and tiles of a block of filters for a strip.
int64_t strip_vectors(const LoweredPlan &p, int64_t lanes) {
  return ceil_div(p.strip_rows * p.width, lanes);
}
int64_t strip_tiles(const LoweredPlan &p, Isa isa, int64_t lanes) {
  const int64_t vectors = tile_vectors(isa, ceil_div(p.filters, p.blocks));
  return p.lowers || p.joins ? ceil_div(strip_vectors(p, lanes), vectors)
                             : p.width / lanes * ceil_div(p.strip_rows, vectors);
}

double join_cycles(const LoweredPlan &p, int64_t tiles) {
  return real(tiles * p.blocks) * (kJoinCycles + kJoinTapCycles * real(p.channels * p.taps));
}

// Whether vectors that run over the end of a row are better joined in every tap than lowered once, by a whole plane.
bool joins(const LoweredPlan &p, Isa isa, int64_t lanes) {
  if (!p.in_place || !many_registers(isa) || p.width % lanes == 0 || p.width < lanes) return false;
  const Axis &h = p.rows.axis[1];
  const int64_t vectors = tile_vectors(isa, ceil_div(p.filters, p.blocks));
  const int64_t rows = h.out + ceil_div((h.taps - 1) * h.dilation, h.step);
  const double lowered =
      real(rows * std::min(h.step, h.taps) * p.channels * p.rows.axis[2].taps * ceil_div(p.width, lanes));
  return join_cycles(p, ceil_div(p.height * p.width, lanes * vectors)) < lowered * kLowerCycles;
}

// Microseconds of one thread.
double serial_us(const LoweredPlan &p, Isa isa, int64_t lanes) {
  const int64_t tiles = strip_tiles(p, isa, lanes), strip = strip_vectors(p, lanes);
  const double vectors = real(p.items * strip), tile = real(strip) / real(std::max<int64_t>(tiles, 1));
  const double filters = real(ceil_div(p.filters, p.blocks));
  double cycles = real(p.items * tiles) * real(p.blocks * p.channels * p.taps) * tile_cycles(isa, filters, tile);
  cycles += vectors * real(p.filters) * (p.direct ? 2.0 : 12.0); // stores
  const int64_t lines = p.lines * std::min(p.rows.axis[1].step, p.rows.axis[1].taps);
  const double source_rows = real(p.items) * real(p.channels * lines);
  // A row of a tap begins and ends, which short rows of small groups are made of; fitted where there are 16 registers.
  const double row = many_registers(isa) ? 0 : 12;
  if (p.lowers)
    cycles += source_rows * real(p.rows.axis[2].taps) * (real(ceil_div(p.width, lanes)) * kCopyCycles + row);
  if (p.joins) cycles += real(p.items) * join_cycles(p, tiles);
  if (!p.in_place)
    cycles += source_rows * real(ceil_div(p.width, lanes)) * (p.rows.source_step == 1 ? 6.0 : 2.0 * real(lanes));
  return cycles * cycle_us(isa) + source_rows * kRowUs;
}

LoweredPlan lowered_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  LoweredPlan p{};
  p.rows = make_gather(layer);
  p.epilogue = p.rows.epilogue;
  const Axis &w = p.rows.axis[2];
  const int64_t lanes = vector_bytes(isa) / 4;
  const Axis &h = p.rows.axis[1];
  const bool padded = w.before || w.after || h.before || h.after;
  p.in_place = layer.input.type == POLYCONV_F32 && layer.input.stride[kW] == 1 && w.step == 1 && !padded;
  p.direct = p.epilogue.simple && p.epilogue.whole_images && layer.result.stride[kW] == 1;
  p.images = layer.input.size[kN];
  p.depth = layer.output.size[kD]; // the input may have more: output padding of a transposed problem
  p.groups = layer.groups;
  p.channels = p.rows.reduce;
  p.filters = p.rows.produce;
  p.blocks = ceil_div(p.filters, most_filters(isa));
  p.width = w.out;
  p.height = h.out;
  p.taps = h.taps * w.taps;
  p.joins = joins(p, isa, lanes);
  p.lowers = p.width % lanes != 0 && !p.joins;
  // A source row in scratch: one chunk, as wide as the results read.
  p.rows.plane_elements = round_up(p.width + (w.taps - 1) * w.dilation / w.step, kLine) + kLine;
  p.rows.plane_count = std::min(w.step, w.taps); // at most; make_direct_tables counts
  p.rows.row_elements = p.rows.plane_count * p.rows.plane_elements;
  p.source_row = p.in_place ? layer.input.stride[kH] : p.lowers ? 0 : p.channels * p.rows.row_elements;
  p.source_channel = p.in_place ? layer.input.stride[kC] : p.rows.row_elements;
  set_strips(p, policy.threads < 1 ? 1 : policy.threads);
  const double us = serial_us(p, isa, lanes);
  set_strips(p, tasks_for(policy, us));
  if (layer.input.stride[kW] == 1) {
    const int64_t tiles = p.blocks * strip_tiles(p, isa, lanes);
    p.rows_ahead = ceil_div(p.channels * p.source_rows, std::max<int64_t>(tiles, 1));
  }
  p.lowered_at = p.in_place ? 0 : round_up(rows_bytes(p), 64);
  p.sums_at = round_up(p.lowered_at + planes_bytes(p), 64);
  p.scratch_bytes = p.sums_at + (p.direct ? 0 : 25 * lanes * 4);
  const double moved =
      4.0 * static_cast<double>(elements(layer.input) + elements(layer.result) + elements(layer.weights));
  p.estimate_us = estimate_us(tasks_of(p.grid), us, moved);
  cut_units(p.grid, us / real(tasks_of(p.grid)));
  return p;
}

// [group][block of filters][channel][tap][filter of the block]
void pack_weights(const LoweredPlan &p, const polyconv_layer &layer, const void *raw, float *out) {
  const polyconv_tensor &w = layer.weights;
  for (int64_t group = 0; group < p.groups; ++group)
    for (int64_t block = 0; block < p.blocks; ++block) {
      const int64_t first = group * p.filters + block * p.filters / p.blocks;
      const int64_t last = group * p.filters + (block + 1) * p.filters / p.blocks;
      for (int64_t c = 0; c < p.channels; ++c)
        for (int64_t r = 0; r < w.size[kH]; ++r)
          for (int64_t s = 0; s < w.size[kW]; ++s)
            for (int64_t k = first; k < last; ++k) *out++ = load_as<float>(raw, w.type, at(w, k, c, 0, r, s));
    }
}

struct LoweredTables {
  DirectTables rows;
  std::vector<int64_t> remainders, source_taps, taps;
};

void make_tables(const polyconv_layer &layer, LoweredPlan &p, LoweredTables &tables) {
  make_direct_tables(layer, p.rows, tables.rows);
  const Axis &h = p.rows.axis[1], &w = p.rows.axis[2];
  const int64_t period = h.step / std::gcd(h.step, h.dilation); // of the remainders
  for (int64_t r = 0; r < std::min(period, h.taps); ++r) tables.remainders.push_back(r * h.dilation % h.step);
  for (int64_t r = 0; r < h.taps; ++r) {
    const int64_t planes = r % period * w.taps;
    for (int64_t s = 0; s < w.taps; ++s) {
      tables.source_taps.push_back(r * h.dilation * p.source_row + p.rows.taps[s].source);
      tables.taps.push_back((planes + s) * p.plane_elements + r * h.dilation / h.step * p.width);
    }
  }
  p.remainders = static_cast<int64_t>(tables.remainders.size());
  p.remainder = tables.remainders.data();
  p.source_tap = tables.source_taps.data();
  p.tap = tables.taps.data();
}

// Results beyond the caches, whose rows are whole vectors, or every strip of every channel of which begins on one.
bool may_stream(const LoweredPlan &p, int64_t vector) {
  const polyconv_tensor &r = p.epilogue.result;
  const int64_t rows = p.lowers || p.joins ? p.strip_rows : 1; // of which the first begins on a vector
  const bool strips = rows == p.height || rows * r.stride[kH] * 4 % vector == 0;
  return p.direct && strips && steps_aligned(r, {kN, kC, kD}, vector) && elements(r) * 4 >= kStreamPlanesBytes;
}

class LoweredInstance final : public Instance {
 public:
  LoweredInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]),
        plan_(lowered_geometry(layer_, *request.policy, isa)),
        isa_(isa),
        vector_(vector_bytes(isa)),
        may_stream_(may_stream(plan_, vector_)) {
    make_tables(layer_, plan_, tables_);
    if (tasks_of(plan_.grid) > 1) parallel_ = make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override {
    pack_weights(plan_, layer_, raw, static_cast<float *>(packed));
  }

  void run(const polyconv_arguments &a, void *) const override {
    const LayerRun run = layer_run(plan_.epilogue, a, may_stream_ && aligned(a.output, vector_));
    run_grid(parallel_, plan_.grid, a.workspace, plan_.scratch_bytes,
             [&](const GridShare &share) { lowered_task_by_isa[isa_](plan_, run, share); });
  }

 private:
  polyconv_layer layer_;
  LoweredPlan plan_;
  Isa isa_;
  int64_t vector_;
  bool may_stream_;
  LoweredTables tables_; // what plan_ points into
  std::unique_ptr<Parallel> parallel_;
};

bool takes_layer(const polyconv_layer &layer, Offer &offer) {
  if (!goes(POLYCONV_FORWARD, layer, offer)) return false;
  if (layer.sum_type != POLYCONV_F32) return offer.reject("sums in f32; this layer sums in f64 or s32");
  if (layer.weights.size[kD] != 1 || layer.stride[0] != 1 || layer.pad_begin[0] + layer.pad_end[0] != 0)
    return offer.reject("filters planes: depth has a kernel, stride or padding here");
  if (layer.weights.size[kC] == 1 && layer.output.size[kC] == layer.groups)
    return offer.reject("reads each channel for several filters; here it is one, see image and depthwise");
  if (taps(layer) == 1) return offer.reject("shifts rows under a kernel; this one is 1x1");
  if (layer.result.stride[kW] != 1 && layer.result.size[kW] > 1)
    return wants_layout(POLYCONV_CHANNELS_FIRST, "stores rows of results, whose columns must lie side by side", offer);
  return true;
}

bool lowered_offer(const polyconv_request &request, Isa isa, Offer &offer) {
  if (!takes_strips(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (!takes_layer(layer, offer) || !takes_no_pooling(layer, offer)) return false;
  const LoweredPlan p = lowered_geometry(layer, *request.policy, isa);
  if (rows_bytes(p) + planes_bytes(p) > kLoweredStripBytes)
    return offer.reject("keeps what a row of results reads in the cache: %" PRId64 " bytes here, at most %" PRId64,
                        rows_bytes(p) + planes_bytes(p), kLoweredStripBytes);
  if (!fits_workspace(request, tasks_of(p.grid), p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  set_weights(offer, elements(layer.weights) * 4, "cpu_lowered_f32_%d:1", static_cast<int>(most_filters(isa)));
  return true;
}

} // namespace

const sdk::Kernel kernel_lowered =
    kernel_by_isa("lowered", supports_by_isa<lowered_offer>, create_by_isa<LoweredInstance>);

} // namespace polyconv::cpu
