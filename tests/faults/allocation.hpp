// allocation.hpp - allocations that fail when a test says so. allocation.cpp replaces operator new and the C library's
// allocators in the test program, and with that in the library and the plug-ins that it loads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace faults {

enum class Kind {
  Cxx, // operator new and aligned allocation: what polyconv's own code asks for
  All  // malloc, calloc and realloc too: what the C library and the dynamic linker ask for
};

// From now on the n-th allocation of this thread fails, n from 0; with `and_later` all behind it too. None of other
// threads does.
void arm(int64_t n, Kind kind = Kind::Cxx, bool and_later = false);

// No allocation fails any more. Whether one did.
bool disarm();

// Whether this program can make those of Kind::All fail: not under a sanitizer, which has allocators of its own.
bool all_can_fail();

// Blocks of operator new that are not given back yet, in all threads.
int64_t live_blocks();

} // namespace faults
