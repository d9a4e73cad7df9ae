// run_once.hpp - a plan packed, bound and run on the device of fake_runtime.hpp, over tensors that nobody reads or
// writes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.hpp>

#include <string>
#include <vector>

namespace fake_cuda {

// What is refused throws.
inline void run_once(const polyconv::Device &device, const std::vector<polyconv::Problem> &chain,
                     const polyconv::Plan &plan) {
  std::vector<polyconv::Memory> memory;
  const auto make = [&](int64_t bytes) {
    memory.emplace_back(device, static_cast<size_t>(bytes) + 1);
    return memory.back().get();
  };
  polyconv::Buffers buffers;
  buffers.input = make(chain.front().bytes(POLYCONV_TENSOR_INPUT));
  buffers.output = make(chain.back().bytes(POLYCONV_TENSOR_OUTPUT));
  buffers.workspace = make(plan.info().workspace_bytes);
  buffers.workspace_size = static_cast<size_t>(plan.info().workspace_bytes);
  std::vector<polyconv::Weights> packed;
  for (size_t i = 0; i < chain.size(); ++i) {
    const auto layer = static_cast<int32_t>(i);
    buffers.weights[i] = make(chain[i].bytes(POLYCONV_TENSOR_WEIGHTS));
    if (chain[i].epilogue.has_bias) buffers.bias[i] = make(chain[i].out_channels * 4);
    if (chain[i].epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER)
      buffers.residual[i] = make(chain[i].bytes(POLYCONV_TENSOR_OUTPUT));
    if (plan.weights_format(layer) == "raw") continue;
    packed.emplace_back(plan, layer, buffers.weights[i]);
    buffers.packed[i] = packed.back().get();
  }
  plan.bind(buffers).run();
}

} // namespace fake_cuda
