// at_least.cuh - a relu, or with a floor of minus infinity none: NaN stays what it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace polyconv::cuda::chain {

__device__ __forceinline__ float at_least(float v, float floor) {
#if __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(v) : "f"(floor));
  return v;
#else
  return v < floor ? floor : v;
#endif
}

} // namespace polyconv::cuda::chain
