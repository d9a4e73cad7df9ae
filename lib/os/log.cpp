// log.cpp - the process-wide log sink: a caller's callback, or stderr where POLYCONV_LOG asks for it.
// SPDX-License-Identifier: Apache-2.0
#include "os/log.hpp"

#include "os/os.hpp"

#include <polyconv/polyconv.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>

namespace polyconv {
namespace {

constexpr int32_t kOff = -1;
constexpr const char *kLevelNames[] = {"error", "warning", "info", "debug"};

constexpr size_t kLineSize = 2048;

// A line is written at once, so that those of several threads and processes do not mix.
void to_stderr(void *, int32_t level, const char *message) {
  try {
    const std::string line = std::string("polyconv: ") + kLevelNames[level] + ": " + message + "\n";
    os::write_stderr(line.data(), line.size());
  } catch (...) { // no memory to say anything with
  }
}

// Where messages go. Writers of the sink wait for the messages under way, so that after polyconv_set_log nobody uses
// the old context any more.
struct Sink {
  std::shared_mutex mutex;
  std::atomic<int32_t> level{kOff}; // read without the mutex: nobody listening costs one load
  polyconv_log_callback callback = nullptr;
  void *context = nullptr;

  Sink() noexcept {
    try {
      read_environment();
    } catch (...) { // out of memory: nobody listens then
    }
  }

 private:
  void read_environment() {
    const std::string wanted = os::environment("POLYCONV_LOG");
    if (wanted.empty()) return;
    callback = to_stderr;
    const auto found = std::find(std::begin(kLevelNames), std::end(kLevelNames), wanted);
    if (found != std::end(kLevelNames)) {
      level = static_cast<int32_t>(found - std::begin(kLevelNames));
      return;
    }
    level = POLYCONV_LOG_WARNING;
    char complaint[kLineSize];
    std::snprintf(complaint, sizeof complaint,
                  "POLYCONV_LOG is '%s', expected error, warning, info or debug: taken as warning", wanted.c_str());
    to_stderr(nullptr, POLYCONV_LOG_WARNING, complaint);
  }
};

// Made at first need, where making it cannot fail, and never destroyed: backends may log while the process ends.
Sink &sink() noexcept {
  alignas(Sink) static unsigned char memory[sizeof(Sink)];
  static Sink &made = *new (memory) Sink;
  return made;
}

// True while this thread is in a callback, which may call polyconv: then it holds the mutex, and what polyconv would
// say goes nowhere, as it would come back to the same callback.
thread_local bool in_callback = false;

struct Handing {
  Handing() { in_callback = true; }
  ~Handing() { in_callback = false; }
  Handing(const Handing &) = delete;
  Handing &operator=(const Handing &) = delete;
};

} // namespace

bool listens(int32_t level) noexcept {
  return level <= sink().level.load(std::memory_order_relaxed) && !in_callback;
}

void log(int32_t level, const char *format, ...) {
  level = std::clamp<int32_t>(level, POLYCONV_LOG_ERROR, POLYCONV_LOG_DEBUG);
  if (!listens(level)) return;
  char line[kLineSize];
  std::string longer; // of a plan of eight layers
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  const int length = std::vsnprintf(line, sizeof line, format, arguments);
  if (length >= static_cast<int>(sizeof line)) {
    longer.resize(static_cast<size_t>(length));
    std::vsnprintf(longer.data(), longer.size() + 1, format, again);
  }
  va_end(again);
  va_end(arguments);
  char *const whole = longer.empty() ? line : longer.data();
  for (char *c = whole; *c != '\0'; ++c) {
    if (*c == '\n' || *c == '\r') *c = ' '; // one message, one line
  }
  Sink &to = sink();
  const std::shared_lock<std::shared_mutex> lock(to.mutex);
  if (to.callback == nullptr || level > to.level.load(std::memory_order_relaxed)) return;
  const Handing mark;
  to.callback(to.context, level, whole);
}

} // namespace polyconv

extern "C" void polyconv_set_log(polyconv_log_callback callback, void *context, int32_t level) {
  polyconv::Sink &to = polyconv::sink();
  if (polyconv::in_callback) to.mutex.unlock_shared(); // that of the message that this thread is handing over
  to.mutex.lock();
  to.callback = callback;
  to.context = context;
  to.level = callback != nullptr ? std::min<int32_t>(level, POLYCONV_LOG_DEBUG) : polyconv::kOff;
  to.mutex.unlock();
  if (polyconv::in_callback) to.mutex.lock_shared();
}
