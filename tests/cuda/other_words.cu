// other_words.cu - see other_words.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "other_words.hpp"

#include <cstdint>

namespace cuda_test {
namespace {

__global__ void count_others(const uint16_t *first, uint16_t *result, size_t words, unsigned *count) {
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  unsigned others = 0;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
    others += first[i] != result[i];
    result[i] = 0xffff; // no number in f16, bf16 and f32
  }
  if (others > 0) atomicAdd(count, others);
}

} // namespace

void count_other_words(const void *first, void *result, size_t bytes, void *count, void *stream) {
  count_others<<<264, 256, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint16_t *>(first), static_cast<uint16_t *>(result), bytes / 2, static_cast<unsigned *>(count));
}

} // namespace cuda_test
