// platform.hpp - the little that tests ask of the operating system and that C++17 lacks on one of those that they run
// on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#include <process.h>
#else
#include <unistd.h>
#endif

namespace polyconv_test {

// Aligned to a power of two, of at least `bytes`; given back by free_aligned.
inline void *allocate_aligned(size_t alignment, size_t bytes) {
#if defined(_WIN32)
  return _aligned_malloc(bytes, alignment);
#else
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#endif
}
inline void free_aligned(void *pointer) {
#if defined(_WIN32)
  _aligned_free(pointer);
#else
  std::free(pointer);
#endif
}

inline int process_id() {
#if defined(_WIN32)
  return _getpid();
#else
  return getpid();
#endif
}

} // namespace polyconv_test
