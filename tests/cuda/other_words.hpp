// other_words.hpp - comparing what two runs wrote, without taking it off the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cuda_test {

// Adds the number of 16-bit words in which two pieces of device memory differ to a 32-bit `count` in device memory, on
// the default stream.
void count_other_words(const void *a, const void *b, size_t bytes, void *count);

} // namespace cuda_test
