// gpu_kernels.hpp - every kernel that a GPU ran meanwhile, when and how long, as CUPTI, NVIDIA's library for profilers,
// records it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "subject/host_clock.hpp"

namespace polyconv::bench {

struct GpuKernel {
  std::string name; // as in the source: "polyconv::cuda::tile_kernel<…>(…)"
  HostClock::time_point begin;
  double us;
};

// Records from begin_gpu_kernels to take_gpu_kernels, on all streams of the process. False, and nothing is recorded,
// where this bench was built without cupti.h, the library of that version is not there, or it refuses.
bool begin_gpu_kernels();

// The kernels that have ended since, in the order of their beginnings. The caller has waited for them.
std::vector<GpuKernel> take_gpu_kernels();

} // namespace polyconv::bench
