// ladder.cpp - the order of the techniques, in one place.
// SPDX-License-Identifier: Apache-2.0
#include "command/ladder.hpp"

namespace polyconv::bench {

namespace {

constexpr Rung kCuda[] = {{"direct", "cuda-direct/*"},
                          {"shared memory", "cuda-shared/*"},
                          {"constant memory", "cuda-constant/*"},
                          {"warp shuffle", "cuda-shuffle/*"},
                          {"texture", "cuda-texture/*"},
                          {"im2col + GEMM", "cuda-gemm/im2col*"},
                          {"implicit GEMM", "cuda-gemm/implicit*"},
                          {"tensor cores", "cuda-tensor/*"}};

constexpr Rung kCpu[] = {{"reference", "reference/*"},
                         {"direct", "threads/direct*"},
                         {"image filter", "threads/image*"},
                         {"depthwise", "threads/depthwise*"},
                         {"lowered rows", "threads/lowered*"},
                         {"shifted rows", "threads/shifted*"},
                         {"pixels in place", "threads/pointwise*"},
                         {"register tiles", "threads/dense*"}};

} // namespace

std::vector<Rung> ladder_of(const std::string &device_kind) {
  if (device_kind == "cuda") return {std::begin(kCuda), std::end(kCuda)};
  if (device_kind == "cpu") return {std::begin(kCpu), std::end(kCpu)};
  return {};
}

} // namespace polyconv::bench
