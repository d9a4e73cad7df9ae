// driver.cpp - plans and runs weight gradients as a matrix product. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/product/driver.hpp"

#include "cpu/bias/driver.hpp"
#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <vector>

namespace polyconv::cpu {
namespace {

constexpr int64_t kFewChannels = 4;               // of a group: below, tiles are nearly empty
constexpr int64_t kFewInputs = 7;                 // of a group: rows of a tile are taps of W too
constexpr int64_t kMostListed = int64_t{1} << 22; // weights of a filter

int64_t sums_bytes(const ProductPlan &p) {
  return p.tasks * p.scratch_bytes + p.pieces * p.splits * p.partial_bytes;
}

// The (input channel, tap) of a block of `channels`, in the order of their weights.
std::vector<ProductColumn> make_table(const ProductPlan &p, int64_t channels) {
  const polyconv_tensor &w = p.weights;
  const int64_t taps = p.line_taps * p.axis[2].taps;
  std::vector<ProductColumn> table;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t x = tap % w.size[sdk::kW], y = tap / w.size[sdk::kW] % w.size[sdk::kH];
      const int64_t z = tap / w.size[sdk::kW] / w.size[sdk::kH];
      table.push_back({c / p.tall * p.tile_elements + (tap * p.tall + c % p.tall) * p.wide,
                       c * w.stride[sdk::kC] + z * w.stride[sdk::kD] + y * w.stride[sdk::kH] + x * w.stride[sdk::kW]});
    }
  std::stable_sort(table.begin(), table.end(),
                   [](const ProductColumn &a, const ProductColumn &b) { return a.weight < b.weight; });
  return table;
}

// Rows of a tile are the taps of W where there are few input channels, and neighbouring lines share most of what they
// read where those of H are more than those of D.
polyconv_layer as_walked(const polyconv_layer &l) {
  const bool few = l.weights.size[sdk::kC] <= kFewInputs && l.weights.size[sdk::kK] != l.groups;
  return few ? with_most_taps_last(l) : l;
}

class ProductInstance final : public sdk::Instance {
 public:
  ProductInstance(const polyconv_request &request, Isa isa)
      : layer_(as_walked(*request.layers[0])),
        plan_(product_geometry(layer_, *request.policy, isa, &us_)),
        bias_(make_bias(layer_)),
        isa_(isa) {
    axes_ = make_axis_tables(layer_, plan_.axis);
    const int64_t block = plan_.tall_block * plan_.tall, last = plan_.group_in - (plan_.tall_pieces - 1) * block;
    for (int i = 0; i < 2; ++i) {
      tables_[i] = make_table(plan_, i == 0 ? block : last);
      plan_.table[i] = tables_[i].data();
      plan_.table_size[i] = static_cast<int64_t>(tables_[i].size());
    }
    if (plan_.tasks > 1) parallel_ = sdk::make_parallel(*request.policy);
  }

  void run(const polyconv_arguments &a, void *) const override {
    const ProductPlan &p = plan_;
    const WeightsRun run = {a.input, a.output, a.weights[0]};
    char *const workspace = static_cast<char *>(a.workspace), *const partial = workspace + p.tasks * p.scratch_bytes;
    const auto end = [&](int64_t piece, int64_t wide, void *sums) {
      const int64_t first = piece / p.tall_pieces % p.wide_pieces * p.wide_block;
      if (first + wide < p.wide_panels) product_end_by_isa[isa_](p, run, {piece, 0, wide, nullptr, sums});
    };
    run_each(parallel_, p.pieces * p.splits, plan_.tasks, [&](int64_t task, int64_t item) {
      char *const scratch = workspace + task * p.scratch_bytes;
      void *const sums = p.splits == 1 ? scratch + p.sums_at : partial + item * p.partial_bytes;
      product_sum_by_isa[isa_](p, run, {item / p.splits, item % p.splits, 0, scratch, sums});
      if (p.splits == 1)
        for (int64_t wide = 0; wide < p.wide_block; ++wide) end(item, wide, sums);
    });
    if (p.splits > 1)
      run_each(parallel_, p.pieces * p.wide_block, plan_.tasks, [&](int64_t, int64_t item) {
        const int64_t piece = item / p.wide_block;
        end(piece, item % p.wide_block, partial + piece * p.splits * p.partial_bytes);
      });
    run_bias(bias_, layer_, isa_, parallel_, a, workspace + sums_bytes(p));
  }

 private:
  polyconv_layer layer_;
  double us_ = 0;
  ProductPlan plan_;
  BiasPlan bias_;
  Isa isa_;
  std::vector<int64_t> axes_; // what plan_ points into
  std::vector<ProductColumn> tables_[2];
  std::unique_ptr<sdk::Parallel> parallel_;
};

bool product_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_strips(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  const int64_t filters = layer.weights.size[sdk::kK] / layer.groups;
  const bool diagonal = filters == 1 && layer.weights.size[sdk::kC] == 1 && layer.groups > 1;
  if (!diagonal && filters < kFewChannels)
    return offer.reject("lays output channels along the vectors: takes %" PRId64 " of a group or more, not %" PRId64
                        ", or one of each of several channels",
                        kFewChannels, filters);
  const int64_t listed = layer.weights.size[sdk::kC] * sdk::taps(layer);
  if (listed > kMostListed)
    return offer.reject("lists the weights of a filter: takes %" PRId64 " at most, not %" PRId64, kMostListed, listed);
  const polyconv_layer walked = as_walked(layer);
  const ProductPlan p = product_geometry(walked, *request.policy, isa, &offer.estimate_us);
  return fits_workspace(request, 1, sums_bytes(p) + bias_bytes(make_bias(walked)), offer);
}

} // namespace

const sdk::Kernel kernel_dense_weights = kernel_by_isa("dense_weights", supports_by_isa<product_offer>,
                                                       create_by_isa<ProductInstance>, POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cpu
