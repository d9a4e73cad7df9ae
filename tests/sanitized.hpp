// sanitized.hpp - whether a sanitizer has compiled this: with allocators, locks and stack frames of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POLYCONV_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define POLYCONV_TEST_SANITIZED 1
#endif
#endif

namespace polyconv_test {

#if defined(POLYCONV_TEST_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

} // namespace polyconv_test
