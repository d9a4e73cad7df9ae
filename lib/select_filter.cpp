// select_filter.cpp - reads a glob list and applies it.
// SPDX-License-Identifier: Apache-2.0
#include "select_filter.hpp"

#include <algorithm>

namespace polyconv {
namespace {

std::string trimmed(const std::string &text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

const char *config_name(const KernelEntry &entry, int32_t config) {
  const polyconv_kernel *kernel = entry.kernel;
  const char *name = kernel->config_name != nullptr ? kernel->config_name(kernel, config) : nullptr;
  return name != nullptr ? name : "?";
}

} // namespace

Filter::Filter(const std::string &globs) {
  size_t begin = 0;
  while (begin <= globs.size()) {
    const size_t comma = std::min(globs.find(',', begin), globs.size());
    const std::string glob = trimmed(globs.substr(begin, comma - begin));
    begin = comma + 1;
    if (glob.empty()) continue;
    const size_t at = glob.find('@');
    Pattern pattern;
    pattern.kernel = glob.substr(0, at);
    pattern.backend = pattern.kernel.substr(0, pattern.kernel.find('/'));
    pattern.forces_config = at != std::string::npos;
    if (pattern.forces_config) pattern.config = glob.substr(at + 1);
    patterns_.push_back(pattern);
  }
}

bool Filter::matches(const KernelEntry &entry) const {
  if (empty()) return true;
  for (const Pattern &pattern : patterns_) {
    if (!glob_match(pattern.kernel.c_str(), entry.full_name.c_str())) continue;
    if (!pattern.forces_config || !configs(entry).empty()) return true;
  }
  return false;
}

bool Filter::matches_but_config(const KernelEntry &entry) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const Pattern &pattern) {
    return glob_match(pattern.kernel.c_str(), entry.full_name.c_str());
  });
}

bool Filter::names(const std::string &backend) const {
  for (const Pattern &pattern : patterns_) {
    const bool says_something = pattern.backend.find_first_not_of("*?") != std::string::npos;
    if (says_something && glob_match(pattern.backend.c_str(), backend.c_str())) return true;
  }
  return false;
}

std::vector<int32_t> Filter::configs(const KernelEntry &entry) const {
  if (empty()) return {-1};
  std::vector<int32_t> forced;
  for (int32_t config = 0; config < entry.kernel->config_count; ++config) {
    for (const Pattern &pattern : patterns_) {
      if (!glob_match(pattern.kernel.c_str(), entry.full_name.c_str())) continue;
      if (!pattern.forces_config) return {-1};
      if (glob_match(pattern.config.c_str(), config_name(entry, config))) {
        forced.push_back(config);
        break;
      }
    }
  }
  return forced;
}

std::string kernel_name(const KernelEntry &entry, int32_t config) {
  std::string name = entry.full_name;
  name += '@';
  return name += config_name(entry, config);
}

} // namespace polyconv
