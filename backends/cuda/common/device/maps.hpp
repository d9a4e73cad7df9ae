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

// Bytes from one element of an axis to the next, of all axes but the first. An axis of one element may have any stride,
// but a map wants a true one, in whole 16 bytes. `size`: elements, of the first axis too; `bytes`: of one.
inline void set_true_strides(uint64_t bytes, const uint64_t *size, uint32_t strides, uint64_t *stride) {
  for (uint32_t i = 0; i < strides; ++i)
    if (size[i + 1] == 1) stride[i] = i == 0 ? (size[0] * bytes + 15) / 16 * 16 : stride[i - 1] * size[i];
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
