// launch.hpp - launches of 9.0 and on: clusters, and kernels that begin while what is ahead of them ends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/check.hpp"
#include "common/device/facts.hpp"

namespace polyconv::cuda {

// What a launch asks for beside blocks and threads. `early`: the kernel begins while what is ahead of it in the stream
// still ends, and waits for it itself; `together`: all blocks run at once, to wait for each other
// (cooperative_groups::this_grid().sync()). All of it is for 9.0 and on.
struct LaunchWay {
  bool early = false, together = false;
  unsigned cluster = 1; // blocks
};

template <class... Parameters, class... Arguments>
cudaError_t try_launch(const LaunchWay &way, void (*kernel)(Parameters...), dim3 blocks, int threads, int shared_bytes,
                       cudaStream_t stream, const Arguments &...arguments) {
  cudaLaunchAttribute attributes[3] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks, config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes), config.stream = stream, config.attrs = attributes;
  const auto attribute = [&](cudaLaunchAttributeID id) -> cudaLaunchAttributeValue & {
    attributes[config.numAttrs].id = id;
    return attributes[config.numAttrs++].val;
  };
  if (way.early)
    attribute(cudaLaunchAttributeProgrammaticStreamSerialization).programmaticStreamSerializationAllowed = 1;
  if (way.together) attribute(cudaLaunchAttributeCooperative).cooperative = 1;
  if (way.cluster > 1) attribute(cudaLaunchAttributeClusterDimension).clusterDim = {way.cluster, 1, 1};
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// Launches a kernel early, in clusters of blocks.
template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), unsigned cluster, dim3 blocks, int threads, int shared_bytes,
                     cudaStream_t stream, const Arguments &...arguments) {
  check(try_launch({true, false, cluster}, kernel, blocks, threads, shared_bytes, stream, arguments...),
        "launching a kernel that begins early");
}
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 blocks, int threads, int shared_bytes, cudaStream_t stream,
                  const Arguments &...arguments) {
  launch_clusters(kernel, 1, blocks, threads, shared_bytes, stream, arguments...);
}

// Likewise with all blocks at once. False, and nothing is launched, where the device has no room for all of them:
// another chip, or a part of one.
template <class... Parameters, class... Arguments>
bool launch_together(void (*kernel)(Parameters...), unsigned cluster, dim3 blocks, int threads, int shared_bytes,
                     cudaStream_t stream, const Arguments &...arguments) {
  const cudaError_t error =
      try_launch({true, true, cluster}, kernel, blocks, threads, shared_bytes, stream, arguments...);
  if (error == cudaErrorCooperativeLaunchTooLarge) {
    static_cast<void>(cudaGetLastError()); // it is nobody else's
    return false;
  }
  check(error, "launching blocks that wait for each other");
  return true;
}

// Early where the device knows that (`early`); elsewhere as usual.
template <class... Parameters, class... Arguments>
void launch_early_if(bool early, void (*kernel)(Parameters...), dim3 blocks, int threads, int shared_bytes,
                     cudaStream_t stream, const Arguments &...arguments) {
  check(try_launch({early}, kernel, blocks, threads, shared_bytes, stream, arguments...), "launching a kernel");
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
