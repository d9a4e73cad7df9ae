// tensors.hpp - the tensors that a layer or chain needs from its caller, and where they stand in polyconv_buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdint>
#include <string>
#include <vector>

#include "../work.hpp"

namespace polyconv::bench {

struct TensorUse {
  int32_t which; // POLYCONV_TENSOR_*
  int32_t layer;
  int32_t type;
  int64_t bytes;
  bool written;

  std::string role() const; // "input", "weights0"
  // Moved in every run, unlike what belongs to the network: weights and vectors.
  bool per_run() const;
};

// Tensors between the layers of a chain are not the caller's. Throws Unable for a tensor that cannot be described.
std::vector<TensorUse> tensors_of(const Work &work);

void set_pointer(polyconv_buffers &buffers, const TensorUse &use, void *pointer);
void *pointer_of(const polyconv_buffers &buffers, const TensorUse &use);

} // namespace polyconv::bench
