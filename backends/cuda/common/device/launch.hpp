// launch.hpp - launches of 9.0 and on: clusters, and kernels that begin while what is ahead of them ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/device/facts.hpp"

namespace polyconv::cuda {

// Launches a kernel in clusters of blocks; it begins while what is ahead of it in the stream still ends, and waits for
// it itself. (9.0 and on)
template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), unsigned cluster, dim3 blocks, int threads, int shared_bytes,
                     cudaStream_t stream, const Arguments &...arguments) {
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = cluster, attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks, config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes), config.stream = stream;
  config.attrs = attributes, config.numAttrs = cluster > 1 ? 2 : 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching a kernel that begins early");
}
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 blocks, int threads, int shared_bytes, cudaStream_t stream,
                  const Arguments &...arguments) {
  launch_clusters(kernel, 1, blocks, threads, shared_bytes, stream, arguments...);
}

// Likewise where the device knows that (`early`); elsewhere as usual.
template <class... Parameters, class... Arguments>
void launch_early_if(bool early, void (*kernel)(Parameters...), dim3 blocks, int threads, int shared_bytes,
                     cudaStream_t stream, const Arguments &...arguments) {
  if (early) return launch_early(kernel, blocks, threads, shared_bytes, stream, arguments...);
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks, config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes), config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching a kernel");
}

// Whether a device knows that.
inline bool begins_early(int device) {
  return device_facts(device).begins_early;
}

// Likewise where the current device knows that: what every kernel that awaits what is ahead of it is launched by. Such
// a kernel lets the next one begin (ptx::let_next_begin) only where a block of that takes a multiprocessor: small
// blocks that wait crowd on the multiprocessors that are done first (1 x 1 of 256 channels on 14 x 14, f32: 11 us with
// none, 24 with them; a gradient of depthwise weights behind conversions 16 and 21).
template <class... Parameters, class... Arguments>
void launch_waiting(void (*kernel)(Parameters...), dim3 blocks, int threads, size_t shared_bytes, cudaStream_t stream,
                    const Arguments &...arguments) {
  int device = 0;
  check(cudaGetDevice(&device), "asking for the current device");
  launch_early_if(begins_early(device), kernel, blocks, threads, static_cast<int>(shared_bytes), stream, arguments...);
}

} // namespace polyconv::cuda
