// driver.cpp - see driver.hpp. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/bias/driver.hpp"

#include "cpu/common/parts.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

namespace polyconv::cpu {
namespace {

constexpr int64_t kSplits = 64;

} // namespace

BiasPlan make_bias(const polyconv_layer &layer) {
  BiasPlan p = {};
  p.biased = layer.bias_over_input ? layer.input : layer.output;
  p.wanted = layer.epilogue.has_bias;
  const int64_t lines = p.biased.size[sdk::kN] * p.biased.size[sdk::kD] * p.biased.size[sdk::kH];
  p.splits = std::clamp<int64_t>(lines, 1, kSplits);
  return p;
}

int64_t bias_bytes(const BiasPlan &p) {
  return p.wanted ? p.splits * p.biased.size[sdk::kC] * int64_t{sizeof(double)} : 0;
}

void run_bias(const BiasPlan &p, const polyconv_layer &layer, Isa isa, const std::unique_ptr<sdk::Parallel> &parallel,
              const polyconv_arguments &a, char *workspace) {
  if (!p.wanted) return;
  const int64_t channels = p.biased.size[sdk::kC];
  auto *const totals = reinterpret_cast<double *>(workspace);
  run_each(parallel, p.splits, threads_of(parallel), [&](int64_t, int64_t split) {
    bias_task_by_isa[isa](p, layer.bias_over_input ? a.input : a.output, split, totals + split * channels);
  });
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t split = 0; split < p.splits; ++split) sum += totals[split * channels + c];
    sdk::store_as(a.bias[0], layer.bias_type, c, sum);
  }
}

} // namespace polyconv::cpu
