// per_result.cuh - a step of one thread a result, from one stored tensor, such as pooling. `Step` has
//
//   name                                             for errors
//   by_type(type, body)                              body(stored, computed) with values of the two types
//   launch<Stored, T>(grid, conv, from, to, count)   the kernel; conv counts with 32 or 64 bits
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "blocks.hpp"
#include "common/epilogue.cuh"

namespace polyconv::cuda::direct {

struct Grid {
  unsigned blocks;
  int threads;
  cudaStream_t stream;
};

template <class Step>
class PerResult final : public CudaInstance {
 public:
  PerResult(const polyconv_request &request, int threads)
      : CudaInstance(request), threads_(threads), small_(fits_int32(layer_)) {}

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const int64_t count = sdk::elements(layer_.result);
    if (count == 0) return;
    const Grid grid = {blocks_for(count, threads_), threads_, stream};
    Step::by_type(layer_.input.type, [&](auto stored, auto computed) {
      using Stored = decltype(stored);
      const auto go = [&](const auto &p) {
        Step::template launch<Stored, decltype(computed)>(grid, p, static_cast<const Stored *>(a.input), a.output,
                                                          count);
      };
      small_ ? go(Conv<int32_t>(layer_, a)) : go(Conv<int64_t>(layer_, a));
    });
    check_launch(Step::name);
  }

  const int threads_;
  const bool small_;
};

template <class Step>
std::unique_ptr<sdk::Instance> create_per_result(const polyconv_request &request, int32_t config) {
  return std::make_unique<PerResult<Step> >(request, kBlockSizes[config]);
}

} // namespace polyconv::cuda::direct
