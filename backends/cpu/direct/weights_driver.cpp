// weights_driver.cpp - plans and runs weight gradients. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/accepts.hpp"
#include "cpu/direct/weights_plan.hpp"
#include "cpu/kernels.hpp"

#include "cpu/bias/driver.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/direct/driver.hpp"
#include "cpu/direct/geometry.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <vector>

namespace polyconv::cpu {
namespace {

constexpr int64_t kMostAcross = 16; // output channels of a piece with W along the vectors
constexpr int64_t kItems = 64;      // of work to aim for, whatever the number of threads
constexpr double kStoreUs = 0.002;  // of turning one weight's sum around and storing it

// Chooses the axis along the vectors and the channels of a piece; returns multiply-adds done per one that counts.
double choose_blocks(WeightsPlan &p, int64_t lanes, int64_t bytes) {
  const double k = static_cast<double>(p.group_out), width = static_cast<double>(p.rows.width);
  const double along = static_cast<double>(round_up(p.group_out, lanes)) / k * (p.group_out > lanes ? 1.0 : 1.2);
  const double across = static_cast<double>(round_up(p.rows.width, lanes)) / width * (p.group_out < 3 ? 1.4 : 1.1);
  p.channels_along = along < across;
  p.k_stride = p.group_out > lanes ? 2 * lanes : lanes;
  p.k_block = p.channels_along ? p.k_stride : std::min(p.group_out, kMostAcross);
  p.k_blocks = ceil_div(p.group_out, p.k_block);
  p.column_elements = p.channels_along ? p.k_stride : p.k_block * lanes;
  const int64_t taps = p.rows.axis[0].taps * p.rows.axis[1].taps * p.rows.axis[2].taps;
  const int64_t most = std::clamp<int64_t>(kDirectSumsBytes / (p.column_elements * taps * bytes), 1, p.group_in);
  p.c_blocks = ceil_div(p.group_in, most);
  p.c_block = ceil_div(p.group_in, p.c_blocks);
  p.c_blocks = ceil_div(p.group_in, p.c_block);
  p.sums = round_up(taps * p.c_block * p.column_elements, 64 / bytes); // whole vectors, whole cache lines
  return p.channels_along ? along : across;
}

// Everything but the number of tasks and the estimate is a function of the layer and the instruction set.
WeightsPlan weights_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  WeightsPlan p{};
  p.rows = make_gather(layer);
  p.gradient = layer.output;
  p.weights = layer.result;
  p.group_out = layer.weights.size[sdk::kK] / layer.groups;
  p.group_in = layer.weights.size[sdk::kC];
  const int64_t bytes = sum_bytes(layer.sum_type), lanes = vector_bytes(isa) / bytes;
  const double waste = choose_blocks(p, lanes, bytes);
  DirectPlan &rows = p.rows;
  rows.reduce = p.c_block;
  rows.block = 1;
  set_chunks(rows, lanes);
  set_block_rows(rows, kMostPairs);
  p.gradient_elements = (p.channels_along ? p.k_stride : p.k_block) * round_up(rows.chunk, lanes);
  p.units = rows.images * rows.rows[0] * rows.row_blocks * rows.chunks;
  p.pieces = layer.groups * p.k_blocks * p.c_blocks;
  p.splits = std::clamp<int64_t>(ceil_div(kItems, p.pieces), 1, std::max<int64_t>(p.units, 1));
  p.bias = make_bias(layer);

  p.gradient_at = place_lists(rows, rows_bytes(rows));
  p.columns_at = round_up(p.gradient_at + rows.block_rows * p.gradient_elements * bytes, 64);
  p.sums_at = round_up(p.columns_at + p.c_block * rows.axis[2].taps * 8, 64);
  p.scratch_bytes = round_up(p.sums_at + (p.splits == 1 ? p.sums * bytes : 0), 64);
  p.partial_bytes = p.splits == 1 ? 0 : p.sums * bytes;

  const double rate = flops_per_us(isa, layer.sum_type);
  double arithmetic = sdk::flops(layer) * waste * 1.1 / rate;
  p.tasks = std::min(tasks_for(policy, arithmetic), p.pieces * p.splits);
  const double loads = static_cast<double>(sdk::elements(layer.input)) * static_cast<double>(p.k_blocks) +
                       static_cast<double>(sdk::elements(layer.output)) * static_cast<double>(p.c_blocks);
  arithmetic += loads * 2.0 * static_cast<double>(lanes) / rate;
  arithmetic += static_cast<double>(sdk::elements(layer.weights)) * kStoreUs;
  const double moved = static_cast<double>(sdk::elements(layer.input) + sdk::elements(layer.output)) * 4.0;
  p.estimate_us = estimate_us(p.tasks, arithmetic, moved);
  p.bias_at = p.tasks * p.scratch_bytes + (p.splits == 1 ? 0 : p.pieces * p.splits * p.partial_bytes);
  p.workspace_bytes = p.bias_at + bias_bytes(p.bias);
  return p;
}

class WeightsInstance final : public sdk::Instance {
 public:
  WeightsInstance(const polyconv_request &request, Isa isa)
      : layer_(*request.layers[0]), plan_(weights_geometry(layer_, *request.policy, isa)), isa_(isa) {
    make_direct_tables(layer_, plan_.rows, tables_);
    if (plan_.tasks > 1) parallel_ = sdk::make_parallel(*request.policy);
  }

  void run(const polyconv_arguments &a, void *) const override {
    const WeightsRun run = {a.input, a.output, a.weights[0]};
    char *workspace = static_cast<char *>(a.workspace);
    char *partial = workspace + plan_.tasks * plan_.scratch_bytes;
    run_each(parallel_, plan_.pieces * plan_.splits, plan_.tasks, [&](int64_t task, int64_t item) {
      char *scratch = workspace + task * plan_.scratch_bytes;
      void *sums = plan_.splits == 1 ? scratch + plan_.sums_at : partial + item * plan_.partial_bytes;
      weights_sum_by_isa[isa_](plan_, run, {item / plan_.splits, item % plan_.splits, scratch, sums});
    });
    if (plan_.splits > 1)
      run_each(parallel_, plan_.pieces, plan_.tasks, [&](int64_t, int64_t piece) {
        weights_join_by_isa[isa_](plan_, run, piece, partial + piece * plan_.splits * plan_.partial_bytes);
      });
    run_bias(plan_.bias, layer_, isa_, parallel_, a, workspace + plan_.bias_at);
  }

 private:
  polyconv_layer layer_;
  WeightsPlan plan_;
  Isa isa_;
  DirectTables tables_; // what plan_ points into
  std::unique_ptr<sdk::Parallel> parallel_;
};

bool weights_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_one_layer(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (!goes(POLYCONV_BACKWARD_WEIGHTS, layer, offer)) return false;
  const WeightsPlan p = weights_geometry(layer, *request.policy, isa);
  if (!fits_workspace(request, 1, p.workspace_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  return true;
}

} // namespace

const sdk::Kernel kernel_direct_weights = kernel_by_isa("direct_weights", supports_by_isa<weights_offer>,
                                                        create_by_isa<WeightsInstance>, POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cpu
