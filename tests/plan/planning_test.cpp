// planning_test.cpp - what planning asks the memory for: a plan by estimate keeps the answers of those few kernels that
// take the layer. Keeping all, a kilobyte each, and putting them in order was two thirds of a plan's time.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <new>

#include "plan_job.hpp"
#include "sanitized.hpp"
#include "skip.hpp"

using namespace job;

namespace {

size_t largest = 0, sum = 0; // bytes, of what is asked for since both were 0

} // namespace

// The library takes these too: its own come from the same place as the program's. gcc, where it has put one of them in
// line and not the other, takes them for a pair that does not match.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
#endif
void *operator new(size_t bytes) {
  largest = std::max(largest, bytes);
  sum += bytes;
  if (void *pointer = std::malloc(bytes)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void *pointer) noexcept {
  std::free(pointer);
}
void operator delete(void *pointer, size_t) noexcept {
  std::free(pointer);
}

TEST_CASE("a plan by estimate does not keep a kilobyte of each kernel that says no") {
#if defined(_WIN32)
  polyconv_test::skip("a DLL takes no operator new of the program's");
#else
  if (polyconv_test::kSanitized) return polyconv_test::skip("a sanitizer brings an operator new of its own");
  polyconv_options o = options();
  o.threads = 1;
  const polyconv_problem p = problem("fwd:n1,c64,k64,i20x20,f3x3");
  try_plan({p}, o); // backends are loaded at the first
  largest = sum = 0;
  const Plan plan = try_plan({p}, o);
  REQUIRE_MESSAGE(plan != nullptr, error());
  MESSAGE("a plan allocates " << sum << " bytes, " << largest << " of them at once");
  REQUIRE(sum > 0);
  CHECK(largest < size_t{64} << 10);
#endif
}
