// notes.cpp - see notes.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "notes.hpp"

#include <polyconv/polyconv.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <mutex>

namespace polyconv::bench {

namespace {

struct Notes {
  std::mutex mutex;
  std::map<std::string, std::string> by_kernel;
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

void receive(void *, int32_t level, const char *message) {
  if (level <= notes().echoed) std::cerr << std::string("polyconv: ") + kLevels[level] + ": " + message + "\n";
  if (level == POLYCONV_LOG_INFO) take_note(message);
}

} // namespace

void keep_notes() {
  notes().echoed = echoed_level();
  polyconv_set_log(receive, nullptr, std::max<int32_t>(notes().echoed, POLYCONV_LOG_INFO));
}

void take_note(const std::string &line) {
  const size_t end = line.find(": ");
  const std::string who = line.substr(0, end); // a kernel has a '/', and its name no space
  if (end == std::string::npos || who.find('/') == std::string::npos || who.find(' ') != std::string::npos) return;
  const std::lock_guard<std::mutex> lock(notes().mutex);
  notes().by_kernel[who] = line.substr(end + 2);
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
