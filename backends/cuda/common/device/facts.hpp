// facts.hpp - what the host asks of a device before it launches anything there. The driver is asked once a process: an
// answer of a kernel (supports) touches no device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv::cuda {

struct DeviceFacts {
  int capability = 0; // 90 is 9.0
  int multiprocessors = 0;
  int64_t block_shared_bytes = 0; // what a block may be lent
  bool begins_early = false;      // kernels can begin while what is ahead of them ends, and their code waits for it
};

// Throws where the device does not answer. From several threads at once.
const DeviceFacts &device_facts(int device);

inline int64_t block_shared_bytes(int device) {
  return device_facts(device).block_shared_bytes;
}
inline int multiprocessors_of(int device) {
  return device_facts(device).multiprocessors;
}

} // namespace polyconv::cuda
