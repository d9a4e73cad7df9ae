// notes.cpp - see notes.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "api/notes.hpp"

#include <polyconv/polyconv.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>
#include <set>

namespace polyconv::bench {

namespace {

struct Notes {
  std::mutex mutex;
  std::map<std::string, std::string> by_kernel;
  std::set<std::string> told; // warnings while backends were loaded, each once: two may say the same
  bool loading = false;
  int32_t echoed = -1; // levels up to this go to stderr
};

// Never destroyed: backends may log while the process ends.
Notes &notes() {
  static Notes &kept = *new Notes;
  return kept;
}

const char *const kLevels[] = {"error", "warning", "info", "debug"};

int32_t echoed_level() {
  const char *wanted = std::getenv("POLYCONV_LOG");
  if (wanted == nullptr || *wanted == '\0') return -1;
  const auto *found = std::find(std::begin(kLevels), std::end(kLevels), std::string(wanted));
  return found != std::end(kLevels) ? static_cast<int32_t>(found - std::begin(kLevels)) : POLYCONV_LOG_WARNING;
}

// Keeps a line of log that is a note; under the lock.
void keep_if_note(const std::string &line) {
  const size_t end = line.find(": ");
  const std::string who = line.substr(0, end); // a kernel has a '/', and its name no space
  if (end == std::string::npos || who.find('/') == std::string::npos || who.find(' ') != std::string::npos) return;
  notes().by_kernel[who] = line.substr(end + 2);
}

void receive(void *, int32_t level, const char *message) {
  const std::string text = message;
  const std::lock_guard<std::mutex> lock(notes().mutex);
  if (level <= notes().echoed || (notes().loading && level <= POLYCONV_LOG_WARNING && notes().told.insert(text).second))
    std::cerr << std::string("polyconv: ") + kLevels[level] + ": " + message + "\n";
  if (level == POLYCONV_LOG_INFO) keep_if_note(text);
}

} // namespace

void keep_notes() {
  notes().echoed = echoed_level();
  polyconv_set_log(receive, nullptr, std::max<int32_t>(notes().echoed, POLYCONV_LOG_INFO));
}

void load_backends() {
  const auto set_loading = [](bool loading) {
    const std::lock_guard<std::mutex> lock(notes().mutex);
    notes().loading = loading;
  };
  set_loading(true);
  polyconv_backend_count();
  set_loading(false);
}

void take_note(const std::string &line) {
  const std::lock_guard<std::mutex> lock(notes().mutex);
  keep_if_note(line);
}

std::string note_of(const std::string &kernel) {
  const std::lock_guard<std::mutex> lock(notes().mutex);
  const std::string first_step = kernel.substr(0, kernel.find(" + "));
  for (const std::string &name : {first_step, first_step.substr(0, first_step.find('@'))}) {
    const auto found = notes().by_kernel.find(name);
    if (found != notes().by_kernel.end()) return found->second;
  }
  return "";
}

} // namespace polyconv::bench
