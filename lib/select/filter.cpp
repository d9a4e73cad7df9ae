// filter.cpp - reads a glob list and applies it.
// SPDX-License-Identifier: Apache-2.0
#include "select/filter.hpp"

#include "base/glob.hpp"
#include "registry/host.hpp"

#include <algorithm>

namespace polyconv {
namespace {

std::string trimmed(const std::string &text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The configs for which `may` holds, each to be asked about.
template <class May>
std::vector<int32_t> configs_that(const KernelEntry &entry, May &&may) {
  std::vector<int32_t> configs;
  for (int32_t config = 0; config < entry.kernel->config_count; ++config)
    if (may(config)) configs.push_back(config);
  return configs;
}

} // namespace

const char *config_name(const KernelEntry &entry, int32_t config) {
  const char *name = nullptr; // each had one when the backend was loaded; should it be gone, that is no reason to fall
  tell_backend(entry.full_name.c_str(), "config_name", [&] { name = entry.kernel->config_name(entry.kernel, config); });
  return name != nullptr ? name : "?";
}

Filter::Pattern Filter::read_pattern(const std::string &glob) {
  const size_t at = glob.find('@');
  Pattern pattern;
  pattern.kernel = glob.substr(0, at);
  pattern.backend = pattern.kernel.substr(0, pattern.kernel.find('/'));
  pattern.says_config = at != std::string::npos;
  if (pattern.says_config) pattern.config = glob.substr(at + 1);
  return pattern;
}

bool Filter::Pattern::matches_kernel(const KernelEntry &entry) const {
  return glob_match(kernel.c_str(), entry.full_name.c_str());
}

bool Filter::Pattern::matches(const KernelEntry &entry, int32_t number) const {
  return matches_kernel(entry) && (!says_config || glob_match(config.c_str(), config_name(entry, number)));
}

Filter::Filter(const std::string &globs) {
  for (size_t begin = 0; begin <= globs.size();) {
    const size_t comma = std::min(globs.find(',', begin), globs.size());
    const std::string glob = trimmed(globs.substr(begin, comma - begin));
    begin = comma + 1;
    if (glob.empty()) continue;
    if (glob[0] == '!')
      forbidding_.push_back(read_pattern(trimmed(glob.substr(1))));
    else
      admitting_.push_back(read_pattern(glob));
  }
}

bool Filter::matches(const KernelEntry &entry) const {
  return empty() || !configs(entry).empty();
}

bool Filter::matches_but_config(const KernelEntry &entry) const {
  return std::any_of(admitting_.begin(), admitting_.end(),
                     [&](const Pattern &pattern) { return pattern.matches_kernel(entry); });
}

bool Filter::names(const std::string &backend) const {
  return std::any_of(admitting_.begin(), admitting_.end(), [&](const Pattern &pattern) {
    const bool says_something = pattern.backend.find_first_not_of("*?") != std::string::npos;
    return says_something && glob_match(pattern.backend.c_str(), backend.c_str());
  });
}

std::vector<int32_t> Filter::configs(const KernelEntry &entry) const {
  std::vector<int32_t> allowed = helper_configs(entry);
  if (admitting_.empty()) return allowed;
  const auto leaves_config = [&](const Pattern &p) { return !p.says_config && p.matches_kernel(entry); };
  if (std::any_of(admitting_.begin(), admitting_.end(), leaves_config)) return allowed;
  const bool free = allowed == std::vector<int32_t>{-1};
  return configs_that(entry, [&](int32_t config) {
    if (!free && !std::binary_search(allowed.begin(), allowed.end(), config)) return false;
    return std::any_of(admitting_.begin(), admitting_.end(),
                       [&](const Pattern &pattern) { return pattern.matches(entry, config); });
  });
}

std::vector<int32_t> Filter::helper_configs(const KernelEntry &entry) const {
  const auto concerned = [&](const Pattern &pattern) { return pattern.matches_kernel(entry); };
  if (std::none_of(forbidding_.begin(), forbidding_.end(), concerned)) return {-1};
  return configs_that(entry, [&](int32_t config) {
    return std::none_of(forbidding_.begin(), forbidding_.end(),
                        [&](const Pattern &pattern) { return pattern.matches(entry, config); });
  });
}

std::string kernel_name(const KernelEntry &entry, int32_t config) {
  std::string name = entry.full_name;
  name += '@';
  return name += config_name(entry, config);
}

} // namespace polyconv
