// together.hpp - launches whose blocks wait for each other (cooperative_groups::this_grid().sync()), 9.0 and on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"

namespace polyconv::cuda {

// Launches a kernel in clusters of blocks that all run at once; it begins while what is ahead of it in the stream still
// ends, and waits for it itself. False, and nothing is launched, where the device has no room for all of them: another
// chip, or a part of one.
template <class... Parameters, class... Arguments>
bool launch_together(void (*kernel)(Parameters...), unsigned cluster, dim3 blocks, int threads, int shared_bytes,
                     cudaStream_t stream, const Arguments &...arguments) {
  cudaLaunchAttribute attributes[3] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = 1;
  attributes[2].id = cudaLaunchAttributeClusterDimension;
  attributes[2].val.clusterDim.x = cluster, attributes[2].val.clusterDim.y = attributes[2].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks, config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes), config.stream = stream;
  config.attrs = attributes, config.numAttrs = cluster > 1 ? 3 : 2;
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error == cudaErrorCooperativeLaunchTooLarge) {
    static_cast<void>(cudaGetLastError()); // it is nobody else's
    return false;
  }
  check(error, "launching blocks that wait for each other");
  return true;
}

} // namespace polyconv::cuda
