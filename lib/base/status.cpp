// status.cpp - the last error of each thread, kept in a fixed buffer: reporting a failure never allocates, so it
// works when memory has run out and inside polyconv_run.
// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace polyconv {
namespace {

constexpr size_t kSentenceSize = 1024;

// One thread's sentence. The type is trivial, so that threads need no constructor or destructor for it.
thread_local char sentence_of_thread[kSentenceSize];

} // namespace

void set_last_error(const char *sentence) noexcept {
  if (sentence == nullptr) sentence = "";
  // The sentence may lie in the buffer itself (an error passed on), so memmove, not snprintf.
  const size_t length = std::min(std::strlen(sentence), kSentenceSize - 1);
  std::memmove(sentence_of_thread, sentence, length);
  sentence_of_thread[length] = '\0';
}

const char *last_error() noexcept {
  return sentence_of_thread;
}

Failure failure(polyconv_status status, const char *format, ...) {
  char sentence[kSentenceSize];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return Failure(status, sentence);
}

polyconv_status fail(polyconv_status status, const char *format, ...) noexcept {
  char sentence[kSentenceSize]; // arguments may point into the thread's own buffer
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  set_last_error(sentence);
  return status;
}

} // namespace polyconv
