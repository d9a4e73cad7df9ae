// at_least.cuh - the larger and the smaller of two values, NaN where either is: a relu, or with a floor of minus
// infinity none; a clipped one's other bound.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace polyconv::cuda::chain {

__device__ __forceinline__ float at_least(float v, float floor) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(v), "f"(floor));
  return larger;
}
__device__ __forceinline__ float at_most(float v, float bound) {
  float smaller;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(v), "f"(bound));
  return smaller;
}

} // namespace polyconv::cuda::chain
