// plan.hpp - what every plan of a fused launch asks and counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/instance.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::chain {

// What a layer finds outside its input where its padding is one value.
inline float padding_of(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_CONSTANT ? static_cast<float>(l.pad_value) : 0.0f;
}

// What a block of this request may have.
inline int64_t most_shared(const polyconv_request &request) {
  return std::min(block_shared_bytes(request.policy->device_index), sdk::shared_memory_limit(*request.policy));
}

// Lets a kernel have what the device lends a block.
template <class Kernel>
void allow_shared(Kernel *kernel, int device) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(block_shared_bytes(device))),
        "asking for shared memory");
}

} // namespace polyconv::cuda::chain
