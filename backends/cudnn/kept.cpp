// kept.cpp - see kept.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "kept.hpp"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace polyconv::cudnn {
namespace {

// Numbers as from_chars and to_chars have them, which know no locale: the file may be read under another.
template <class Number>
bool take(std::string_view *rest, const std::string_view before, Number *value) {
  if (rest->substr(0, before.size()) != before) return false;
  rest->remove_prefix(before.size());
  const auto read = std::from_chars(rest->data(), rest->data() + rest->size(), *value);
  if (read.ec != std::errc()) return false;
  rest->remove_prefix(static_cast<size_t>(read.ptr - rest->data()));
  return true;
}

// "nhwc/eng28{2=1} 17.30 us of 133, cut 0, budget 300"
std::optional<Kept> parsed(std::string_view words) {
  Kept kept = {};
  int cut_short = 0;
  const size_t end = words.find(' ');
  if (end == std::string_view::npos) return std::nullopt;
  kept.engine = words.substr(0, end);
  words.remove_prefix(end);
  if (!take(&words, " ", &kept.us) || !take(&words, " us of ", &kept.measured) || !take(&words, ", cut ", &cut_short) ||
      !take(&words, ", budget ", &kept.budget_ms) || !words.empty() || !std::isfinite(kept.us))
    return std::nullopt;
  kept.cut_short = cut_short != 0;
  return kept;
}

std::string words_of(const Kept &choice) {
  char us[32];
  const auto end = std::to_chars(us, us + sizeof us, choice.us, std::chars_format::fixed, 2).ptr;
  return choice.engine + " " + std::string(us, end) + " us of " + std::to_string(choice.measured) + ", cut " +
         (choice.cut_short ? "1" : "0") + ", budget " + std::to_string(choice.budget_ms);
}

// Opening a pipe would wait for somebody at its other end.
bool is_regular_or_new(const std::string &path) {
  std::error_code why_not;
  const std::filesystem::file_status status = std::filesystem::status(path, why_not);
  return is_regular_file(status) || status.type() == std::filesystem::file_type::not_found;
}

} // namespace

std::string choices_file() {
  const char *const file = secure_getenv("POLYCONV_CUDNN_CHOICES");
  return file != nullptr ? file : "";
}

std::optional<Kept> KeptChoices::find(int64_t budget_ms) const {
  std::optional<Kept> found;
  if (file_.empty() || !is_regular_or_new(file_)) return found;
  std::ifstream lines(file_);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key_.size(), key_) != 0) continue;
    const std::optional<Kept> kept = parsed(std::string_view(line).substr(key_.size()));
    if (kept && (!kept->cut_short || kept->budget_ms >= budget_ms)) found = kept; // else somebody else's words
  }
  return found;
}

std::string KeptChoices::add(const Kept &choice) const {
  if (file_.empty()) return "";
  if (!is_regular_or_new(file_)) return file_ + " is no regular file";
  const std::string line = key_ + words_of(choice) + "\n";
  std::FILE *const file = std::fopen(file_.c_str(), "a"); // whose one write goes to the end, whoever else writes
  bool good = file != nullptr && std::fwrite(line.data(), 1, line.size(), file) == line.size();
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  return good ? "" : file_ + ": " + std::generic_category().message(errno);
}

} // namespace polyconv::cudnn
