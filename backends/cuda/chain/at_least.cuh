// at_least.cuh - a relu, or with a floor of minus infinity none: NaN stays what it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace polyconv::cuda::chain {

__device__ __forceinline__ float at_least(float v, float floor) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(floor));
  return v;
}

} // namespace polyconv::cuda::chain
