// maps.hpp - the driver's functions that describe a tensor to the TMA, found at run time: nothing links the driver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h> // CUtensorMap

#include "common/device/check.hpp"

namespace polyconv::cuda {

inline void check_map(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return;
  throw sdk::Error(POLYCONV_DEVICE_ERROR,
                   std::string("CUDA: no tensor map of the ") + what + ": error " + std::to_string(result));
}

template <class Function>
Function entry_point(const char *name) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult how;
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how),
        "looking for the driver's maps");
  if (how != cudaDriverEntryPointSuccess)
    throw sdk::Error(POLYCONV_UNAVAILABLE, std::string("CUDA: the driver has no ") + name);
  return reinterpret_cast<Function>(found);
}

} // namespace polyconv::cuda
