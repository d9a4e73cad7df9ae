// grid.cuh - kernels that are launched before the one ahead of them in the stream has ended (device/launch.hpp).
// From 9.0 on; before, nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

namespace polyconv::cuda::ptx {

// Lets the next kernel of the stream begin.
__device__ inline void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until everything ahead is done and visible.
__device__ inline void await_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

} // namespace polyconv::cuda::ptx
