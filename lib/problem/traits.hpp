// traits.hpp - what is unusual about a layer (POLYCONV_TRAIT_*), and which kernels may hear of it: those whose table
// declares that they handle it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

namespace polyconv {

// Traits of how the tensors that are read lie in memory: dense copies of them have none.
inline constexpr uint64_t kMemoryTraits = POLYCONV_TRAIT_OVERLAP | POLYCONV_TRAIT_NEGATIVE_STRIDE;
// Traits of the pooling: a layer whose pooling is a step of its own has none.
inline constexpr uint64_t kPoolingTraits = POLYCONV_TRAIT_DILATED_POOLING | POLYCONV_TRAIT_CLIPPED_POOLING;

// What a kernel's table declares; 0 where it is too short to say.
uint64_t takes_of(const polyconv_kernel &kernel);

// kMemoryTraits of one tensor.
uint64_t memory_traits_of(const polyconv_tensor &tensor);

// Sets layer->traits to those of what `op` (POLYCONV_OP_*) asks with it.
void set_traits(int32_t op, polyconv_layer *layer);

// The lowest of the traits (not 0) in words: "negative strides", for a sentence that begins with "takes no ".
const char *trait_words(uint64_t traits);

} // namespace polyconv
