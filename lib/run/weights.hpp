// weights.hpp - packed weights as objects: one layer's weights in the format that a kernel asked for, on their own
// from then on. They outlive the plan that they were made with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.hpp"
#include "registry/device_memory.hpp"

struct polyconv_weights {
  polyconv::WeightsFormat format;
  const polyconv_device *device = nullptr;
  std::shared_ptr<const polyconv::KernelInstance> packer; // NULL where the format is raw
  int32_t packer_layer = 0;                               // the packer's own count
  int32_t raw_type = 0;                                   // of the numbers that are packed
  bool dynamic = false;                                   // may be updated
  void *data = nullptr;                                   // the caller's memory, or `memory`
  polyconv::DeviceMemory memory;
  std::vector<char> host_copy;  // of `data`, for kernels with POLYCONV_KERNEL_HOST_WEIGHTS on devices with own memory
  void *packed_event = nullptr; // recorded after packing, where the device has events; none where each run packs

  // What run hands to the kernel.
  void *for_run() const { return host_copy.empty() ? data : const_cast<char *>(host_copy.data()); }

  polyconv_weights() = default;
  ~polyconv_weights();
  polyconv_weights(const polyconv_weights &) = delete;
  polyconv_weights &operator=(const polyconv_weights &) = delete;
};

namespace polyconv {

// Memory for one layer's weights, not yet filled. Checks layer and `memory` (the caller's, or NULL). Throws Failure.
std::unique_ptr<polyconv_weights> empty_weights(const polyconv_plan &plan, int32_t layer, void *memory);

// Fills it from raw weights (pack, or a copy where the format is raw). Asynchronous and without allocation, but for
// kernels with host weights: their copy is made and waited for here. Throws Failure.
void pack_weights(polyconv_weights *weights, const void *raw, void *stream);

// The file of docs/weights-file.md. Throw Failure.
void save_weights(const polyconv_weights &weights, const std::string &path);
std::unique_ptr<polyconv_weights> load_weights(const polyconv_plan &plan, int32_t layer, const std::string &path,
                                               void *memory, void *stream);

// The weights format of a layer of a plan. Throws Failure(INVALID_ARGUMENT) for a layer that is not there.
const PlanLayer &layer_of(const polyconv_plan &plan, int32_t layer);

} // namespace polyconv
