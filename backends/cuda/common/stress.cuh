// stress.cuh - for a build that looks for races (POLYCONV_STRESS): warps sleep at random where they meet, and a missing
// wait shows as other bits. There, every source is compiled with this header ahead of it (cmake/PolyconvCuda.cmake).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace polyconv::cuda {

// A warp now and then sleeps for up to 4 us; in other builds it does nothing.
__device__ inline void dawdle() {
#ifdef POLYCONV_STRESS
  const uint32_t drawn = (static_cast<uint32_t>(clock()) + threadIdx.x / 32 * 40503u) * 2654435761u;
  if (drawn >> 30 == 0) __nanosleep(drawn >> 16 & 4095);
#endif
}

} // namespace polyconv::cuda

#ifdef POLYCONV_STRESS
// Before they meet: what is to be ready may be late. After: others run ahead, to write over what is still to be read.
// Inside its own expansion a macro's name stands for the function.
#define __syncthreads() (polyconv::cuda::dawdle(), __syncthreads(), polyconv::cuda::dawdle())
#define __syncwarp(...) (polyconv::cuda::dawdle(), __syncwarp(__VA_ARGS__), polyconv::cuda::dawdle())
#endif
