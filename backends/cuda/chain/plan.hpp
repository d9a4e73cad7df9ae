// plan.hpp - what every plan of a fused launch asks and counts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/instance.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::chain {

inline constexpr int64_t kMostShared = 227 << 10; // that a block may have on 9.0
inline constexpr int kMultiprocessors = 132;      // of an H200: for estimates, which touch no device

// A size that is known to fit.
inline int32_t small(int64_t v) {
  return static_cast<int32_t>(v);
}

// What a layer finds outside its input where its padding is one value.
inline float padding_of(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_CONSTANT ? static_cast<float>(l.pad_value) : 0.0f;
}

// What a block of this request may have.
inline int64_t most_shared(const polyconv_request &request) {
  return std::min(kMostShared, sdk::shared_memory_limit(*request.policy));
}

inline int multiprocessors_of(int device) {
  int count = 0;
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "counting multiprocessors");
  return count;
}

// Lets a kernel have kMostShared on the current device; throws where that lends a block less, as chips before 9.0 do.
template <class Kernel>
void allow_shared(Kernel *kernel) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMostShared)),
        "asking for shared memory");
}

} // namespace polyconv::cuda::chain
