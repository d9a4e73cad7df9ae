// facts.cpp - see facts.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/facts.hpp"

#include <mutex>

#include "common/device/check.hpp"

namespace polyconv::cuda {
namespace {

DeviceFacts ask(int device) {
  const auto attribute = [&](cudaDeviceAttr which, const char *what) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, device), what);
    return value;
  };
  DeviceFacts facts;
  facts.capability = attribute(cudaDevAttrComputeCapabilityMajor, "asking for the compute capability") * 10 +
                     attribute(cudaDevAttrComputeCapabilityMinor, "asking for the compute capability");
  // Code of an earlier architecture does not wait, though the device would let it begin.
  facts.begins_early = facts.capability >= POLYCONV_CUDA_WAITS_FROM;
  for (const int chip : {POLYCONV_CUDA_WAITS_AT}) facts.begins_early = facts.begins_early || facts.capability == chip;
  facts.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, "counting multiprocessors");
  facts.block_shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, "asking what a block may share");
  return facts;
}

} // namespace

const DeviceFacts &device_facts(int device) {
  constexpr int kMost = 64; // devices that are remembered
  static std::once_flag asked[kMost];
  static DeviceFacts remembered[kMost];
  if (device < 0 || device >= kMost) {
    thread_local DeviceFacts other;
    return other = ask(device);
  }
  std::call_once(asked[device], [&] { remembered[device] = ask(device); });
  return remembered[device];
}

} // namespace polyconv::cuda
