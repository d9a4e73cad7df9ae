// tensors.hpp - the tensors that a layer or chain needs from its caller, where they stand in polyconv_buffers, and what
// follows from their sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdint>
#include <string>
#include <vector>

#include "work/work.hpp"

namespace polyconv::bench {

struct TensorUse {
  int32_t which; // POLYCONV_TENSOR_*
  int32_t layer;
  int32_t type;
  int64_t bytes;
  bool written;
  int64_t shift = 0; // bytes from the first to the pointer of a run, where strides are negative

  std::string name() const; // "input", "weights"
  std::string role() const; // the name, with the layer where each has its own: "input", "weights0"
  // Moved in every run, unlike what belongs to the network: weights and vectors.
  bool per_run() const;
};

// Tensors between the layers of a chain are not the caller's. Throws Unable for a tensor that cannot be described.
std::vector<TensorUse> tensors_of(const Work &work);

void set_pointer(polyconv_buffers &buffers, const TensorUse &use, void *first);
void *pointer_of(const polyconv_buffers &buffers, const TensorUse &use);

// Bytes of all tensors of a layer or chain, those between layers left out.
int64_t tensor_bytes(const Work &work);

// Bytes that must move at least: input, weights and output once; and operations. Of a network: of all its layers, each
// as often as it counts.
double compulsory_bytes(const Work &work);
double flops_of(const Work &work);

// "2.00 GiB, more than the 1.00 GiB that this machine has to spare".
std::string more_than(int64_t bytes, int64_t memory_limit);

} // namespace polyconv::bench
