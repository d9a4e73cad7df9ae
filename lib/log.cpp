// log.cpp - the process-wide log sink: a caller's callback, or stderr where POLYCONV_LOG asks for it.
// SPDX-License-Identifier: Apache-2.0
#include "os.hpp"
#include "registry.hpp"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <iterator>
#include <mutex>
#include <shared_mutex>
#include <string>

namespace polyconv {
namespace {

constexpr int32_t kOff = -1;
constexpr const char *kLevelNames[] = {"error", "warning", "info", "debug"};

void to_stderr(void *, int32_t level, const char *message) {
  const std::string line = std::string("polyconv: ") + kLevelNames[level] + ": " + message + "\n";
  os::write_stderr(line.data(), line.size());
}

// Where messages go. Writers of the sink wait for the messages under way, so that after polyconv_set_log nobody uses
// the old context any more.
struct Sink {
  std::shared_mutex mutex;
  std::atomic<int32_t> level{kOff}; // read without the mutex: nobody listening costs one load
  polyconv_log_callback callback = nullptr;
  void *context = nullptr;

  Sink() {
    const std::string wanted = os::environment("POLYCONV_LOG");
    if (wanted.empty()) return;
    callback = to_stderr;
    const auto found = std::find(std::begin(kLevelNames), std::end(kLevelNames), wanted);
    if (found != std::end(kLevelNames)) {
      level = static_cast<int32_t>(found - std::begin(kLevelNames));
    } else {
      level = POLYCONV_LOG_WARNING;
      const std::string complaint =
          "POLYCONV_LOG is '" + wanted + "', expected error, warning, info or debug: taken as warning";
      to_stderr(nullptr, POLYCONV_LOG_WARNING, complaint.c_str());
    }
  }
};

// Made at first need and never destroyed: backends may log while the process ends.
Sink &sink() {
  static Sink &made = *new Sink;
  return made;
}

} // namespace

void log(int32_t level, const char *format, ...) {
  Sink &to = sink();
  level = std::clamp<int32_t>(level, POLYCONV_LOG_ERROR, POLYCONV_LOG_DEBUG);
  if (level > to.level.load(std::memory_order_relaxed)) return;
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  for (char *c = line; *c != '\0'; ++c) {
    if (*c == '\n' || *c == '\r') *c = ' '; // one message, one line
  }
  const std::shared_lock<std::shared_mutex> lock(to.mutex);
  if (to.callback != nullptr && level <= to.level.load(std::memory_order_relaxed)) {
    to.callback(to.context, level, line);
  }
}

} // namespace polyconv

extern "C" void polyconv_set_log(polyconv_log_callback callback, void *context, int32_t level) {
  polyconv::Sink &to = polyconv::sink();
  const std::unique_lock<std::shared_mutex> lock(to.mutex);
  to.callback = callback;
  to.context = context;
  to.level = callback != nullptr ? std::min<int32_t>(level, POLYCONV_LOG_DEBUG) : polyconv::kOff;
}
