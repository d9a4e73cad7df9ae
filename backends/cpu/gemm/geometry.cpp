// geometry.cpp - plans a matrix product: orientation, blocks and shares by what they cost. Compiled for the baseline
// CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/gemm/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

constexpr int64_t kBlockOfK = 512;          // at most: a tile's operands then share the L2 cache with the weights
constexpr int64_t kPackedBytes = 256 << 10; // of a block of activations: a quarter of a common L2 cache
constexpr int64_t kAlignment = 64;

GemmArithmetic arithmetic_of(const polyconv_layer &layer) {
  return layer.sum_type == POLYCONV_F64   ? GemmArithmetic::kF64
         : layer.sum_type == POLYCONV_S32 ? GemmArithmetic::kPairs
                                          : GemmArithmetic::kF32;
}
// Costs are counted in multiply-adds of vectors, which the register tile starts one of a cycle.
struct Costs {
  double panel; // of one pixel, one k and one panel, averaged over a group's panels
  double pack;  // of one pixel and one k
  double store; // of one pixel and one output channel
};

// Packing one pixel and one k: a copy where they lie side by side, in runs of so many with a cost each; else element by
// element.
double pack_cost(const GemmPlan &p) {
  const double vector = static_cast<double>(p.vector);
  if (p.channels_along) {
    if (p.input.stride[sdk::kC] != 1) return 1.5;
    const bool merged = p.axis[2].dilation == 1 && p.axis[2].stride == p.group_in; // the taps of a row
    return 2 / vector + 16 / static_cast<double>(p.channel_elements * (merged ? p.taps[2] : 1));
  }
  if (p.axis[2].stride * p.axis[2].step != 1) return 1.5;
  const double run = static_cast<double>(std::min(p.out[2], p.tile_columns));
  const double tap = 28 / static_cast<double>(p.channel_elements); // finding a run, for all channels of its tap
  return 6 / vector + (6 + tap) / run;
}

// Tiles are whole thirds of rows and whole vectors.
Costs costs_of(const GemmPlan &p, bool in_place) {
  const double vector = static_cast<double>(p.vector);
  const int64_t last = p.group_out - (p.panels - 1) * p.panel_channels;
  const int64_t unit = p.channels_along ? p.vector : p.tile_rows / 3;
  const int64_t channels = (p.panels - 1) * p.panel_channels + round_up(last, unit);
  const int64_t written = p.epilogue.result.stride[p.channels_along ? sdk::kC : sdk::kW];
  return {static_cast<double>(channels) / (vector * static_cast<double>(p.panels)), in_place ? 0.0 : pack_cost(p),
          written == 1 ? 4 / vector : 2.0};
}

// What the largest of `tp` by `to` shares costs, per k.
double share_cost(const GemmPlan &p, const Costs &costs, int64_t tp, int64_t to) {
  const int64_t units = ceil_div(ceil_div(p.pixels, p.pixel_unit), tp);
  const int64_t panels = ceil_div(p.groups * p.panels, to);
  const double groups = static_cast<double>(ceil_div(panels, p.panels));
  const double channels = static_cast<double>(std::min(panels * p.panel_channels, p.groups * p.group_out));
  return static_cast<double>(units * p.pixel_unit) * (costs.panel * static_cast<double>(panels) + costs.pack * groups +
                                                      costs.store * channels / static_cast<double>(p.k));
}

struct Parts {
  int64_t pixels, panels;
  double cost; // of the largest share
};

Parts choose_parts(const GemmPlan &p, const Costs &costs, int64_t tasks) {
  Parts best = {1, 1, share_cost(p, costs, 1, 1)};
  const int64_t units = ceil_div(p.pixels, p.pixel_unit);
  for (int64_t tp = std::min(tasks, units); tp >= 1; --tp) {
    const int64_t to = std::min(tasks / tp, p.groups * p.panels);
    const double cost = share_cost(p, costs, tp, to);
    if (cost < 0.99 * best.cost) best = {tp, to, cost}; // between equals the fewest copies of the weights' traffic
  }
  return best;
}

void set_blocks(GemmPlan &p) {
  const int64_t bytes = element_bytes(p);
  const int64_t blocks = ceil_div(p.k, kBlockOfK);
  p.k_block = ceil_div(p.k, blocks);
  // Rows an odd number of cache lines apart spread over the sets of the L1 cache.
  const int64_t line = 64 / bytes;
  p.row_stride = (ceil_div(p.k_block, line) | 1) * line;
  p.tile_pixels = p.channels_along ? p.tile_rows : p.tile_columns;
  const int64_t tile_bytes = p.tile_pixels * p.row_stride * bytes;
  const int64_t tile_sums = blocks > 1 ? p.panels * p.tile_rows * p.tile_columns * bytes : 0;
  const int64_t tiles =
      std::clamp<int64_t>(kPackedBytes / std::max(tile_bytes, tile_sums), 1, kGemmBlockPixels / p.tile_pixels);
  p.block_pixels = tiles * p.tile_pixels;
  p.packed_bytes = round_up(tiles * tile_bytes, kAlignment);
  p.sums_bytes = round_up(tiles * tile_sums, kAlignment);
}

} // namespace

bool gemm_channels_last(const polyconv_layer &layer) {
  const polyconv_tensor &t = layer.result;
  return t.stride[sdk::kC] == 1 && (t.size[sdk::kC] > 1 || t.stride[sdk::kW] != 1);
}

namespace {

// The layer as a matrix product; nothing that depends on the orientation.
GemmPlan make_product(const polyconv_layer &layer) {
  GemmPlan p{};
  p.input = layer.input;
  p.epilogue = make_epilogue(layer);
  p.arithmetic = arithmetic_of(layer);
  p.zero_point = layer.input_zero_point;
  const bool zero = sdk::is_quantised(layer) && layer.pad_mode == POLYCONV_PAD_ZERO;
  p.pad_value = zero ? layer.input_zero_point : layer.pad_value;
  p.groups = layer.groups;
  p.group_in = layer.weights.size[sdk::kC];
  p.group_out = layer.output.size[sdk::kC] / layer.groups;
  for (int i = 0; i < 3; ++i) {
    p.taps[i] = layer.weights.size[2 + i];
    p.out[i] = layer.output.size[2 + i];
    p.axis[i] = {layer.input.size[2 + i],
                 layer.input.stride[2 + i],
                 layer.stride[i],
                 layer.dilation[i],
                 layer.pad_begin[i],
                 nullptr,
                 nullptr};
  }
  p.images = layer.output.size[sdk::kN];
  p.image_pixels = sdk::spatial(layer.output);
  p.pixels = p.images * p.image_pixels;
  p.channel_elements = p.arithmetic == GemmArithmetic::kPairs ? ceil_div(p.group_in, 2) : p.group_in;
  p.k = p.channel_elements * sdk::taps(layer);
  return p;
}

void set_orientation(GemmPlan &p, Isa isa, bool channels_along) {
  p.channels_along = channels_along;
  p.tile_rows = isa == kAvx512 ? 12 : 6;
  p.vector = vector_bytes(isa) / element_bytes(p);
  p.tile_columns = 2 * p.vector;
  p.panel_channels = channels_along ? p.tile_columns : p.tile_rows;
  p.panels = ceil_div(p.group_out, p.panel_channels);
  p.pixel_unit = channels_along ? p.tile_rows / 3 : p.vector;
}

// The orientation that wastes less, counted for one image so that packed weights do not depend on the batch.
bool better_along_channels(GemmPlan p, Isa isa) {
  p.pixels = p.image_pixels;
  double cost[2];
  for (int along = 0; along < 2; ++along) {
    set_orientation(p, isa, along);
    cost[along] = share_cost(p, costs_of(p, false), 1, 1);
  }
  return cost[1] < cost[0];
}

} // namespace

GemmPlan gemm_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa, bool in_place) {
  GemmPlan p = make_product(layer);
  set_orientation(p, isa, in_place ? gemm_channels_last(layer) : better_along_channels(p, isa));
  set_blocks(p);
  const Costs costs = costs_of(p, in_place);
  const double step_us = 2.0 * static_cast<double>(p.vector * p.k) / flops_per_us(isa, layer.sum_type);
  const Parts parts = choose_parts(p, costs, tasks_for(policy, share_cost(p, costs, 1, 1) * step_us));
  p.pixel_parts = parts.pixels;
  p.panel_parts = parts.panels;
  const int64_t tasks = parts.pixels * parts.panels;
  const double bytes = static_cast<double>(sdk::elements(layer.input) * 4 + sdk::elements(layer.result) * 4) +
                       static_cast<double>(p.groups * p.panels * p.panel_channels * p.k * element_bytes(p));
  p.estimate_us = estimate_us(tasks, parts.cost * step_us * static_cast<double>(tasks), bytes);
  return p;
}

} // namespace polyconv::cpu
