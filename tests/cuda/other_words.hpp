// other_words.hpp - comparing what two runs wrote, without taking it off the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cuda_test {

// Adds the number of 16-bit words of `result` that are not as in the `first` one to a 32-bit `count`, all in device
// memory, on a CUDA stream; and wipes `result`, so that the next run has to write every word.
void count_other_words(const void *first, void *result, size_t bytes, void *count, void *stream);

} // namespace cuda_test
