// text.cpp - small questions about strings that every part of the bench asks.
// SPDX-License-Identifier: Apache-2.0
#include "text/text.hpp"

#include <cerrno>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

namespace polyconv::bench {

std::string format(const char *pattern, ...) {
  va_list list, again;
  va_start(list, pattern);
  va_copy(again, list);
  const int length = std::vsnprintf(nullptr, 0, pattern, list);
  va_end(list);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string trim(const std::string &text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  if (trim(text).empty()) return parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.push_back(trim(text.substr(begin, end == std::string::npos ? end : end - begin)));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

std::string join(const std::vector<std::string> &parts, const std::string &separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text += (i ? separator : "") + parts[i];
  return text;
}

namespace {

bool match_one(const char *glob, const char *name) {
  const char *star = nullptr, *resume = nullptr;
  while (*name) {
    if (*glob == '*') {
      star = glob++;
      resume = name;
    } else if (*glob == '?' || *glob == *name) {
      ++glob, ++name;
    } else if (star) {
      glob = star + 1;
      name = ++resume;
    } else {
      return false;
    }
  }
  while (*glob == '*') ++glob;
  return *glob == '\0';
}

} // namespace

bool glob_match(const std::string &globs, const std::string &name) {
  for (const std::string &glob : split(globs, ','))
    if (match_one(glob.c_str(), name.c_str())) return true;
  return false;
}

std::vector<std::string> split_lines(const std::string &text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> shell_words(const std::string &line) {
  std::vector<std::string> words;
  std::string word;
  bool within = false; // a word, perhaps an empty one in quotes
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
      word += line[++i], within = true;
    } else if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c, within = true;
    } else if (c == ' ' || c == '\t' || (c == '#' && !within)) {
      if (within) words.push_back(word);
      word.clear(), within = false;
      if (c == '#') return words;
    } else {
      word += c, within = true;
    }
  }
  if (quote != 0) throw Error(kUsage, "a quote has no end: " + line);
  if (within) words.push_back(word);
  return words;
}

std::vector<std::string> read_lines(const std::string &path) {
  constexpr size_t kMost = size_t{256} << 20; // devices such as /dev/zero have no end
  std::ifstream file(path);
  if (!file) throw Error(kUsage, "cannot read the file " + path);
  std::string text, chunk(size_t{1} << 16, '\0');
  while (file.read(&chunk[0], static_cast<std::streamsize>(chunk.size())), file.gcount() > 0) {
    text.append(chunk, 0, static_cast<size_t>(file.gcount()));
    if (text.size() > kMost) throw Error(kUsage, "the file " + path + " has more than 256 MiB; expected text of less");
  }
  if (file.bad()) throw Error(kUsage, "cannot read the file " + path);
  std::vector<std::string> lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

int64_t parse_integer(const std::string &text, const std::string &what) {
  errno = 0;
  char *end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || text.find_first_of(" \t+") == 0 || *end != '\0' || errno == ERANGE)
    throw Error(kUsage, what + ": '" + text + "' is not a whole number");
  return value;
}

double parse_real(const std::string &text, const std::string &what) {
  char *end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || text.find_first_of(" \t") == 0 || *end != '\0' || !std::isfinite(value))
    throw Error(kUsage, what + ": '" + text + "' is not a number");
  return value;
}

int64_t parse_bytes(const std::string &text, const std::string &what) {
  std::string digits = text;
  double unit = 1;
  const std::string units = "KMGT";
  if (!digits.empty() && (digits.back() == 'B' || digits.back() == 'b')) digits.pop_back();
  if (!digits.empty() && (digits.back() == 'i')) digits.pop_back();
  const size_t power = digits.empty() ? std::string::npos : units.find(static_cast<char>(digits.back() & ~0x20));
  if (power != std::string::npos) {
    digits.pop_back();
    unit = std::pow(1024.0, static_cast<double>(power + 1));
  }
  char *end = nullptr;
  const double bytes = std::strtod(digits.c_str(), &end) * unit;
  if (digits.empty() || *end != '\0' || !(bytes >= 0 && bytes < 9.2e18))
    throw Error(kUsage, what + ": '" + text + "' is not a size in bytes such as 4096, 64M or 1G");
  return static_cast<int64_t>(bytes);
}

double parse_seconds(const std::string &text, const std::string &option) {
  const double seconds = parse_real(text, option);
  if (seconds < 0 || seconds > 3600)
    throw Error(kUsage, option + ": '" + text + "' is not a number of seconds from 0 to 3600");
  return seconds;
}

double parse_percent(const std::string &text, const std::string &what) {
  std::string digits = trim(text);
  if (!digits.empty() && digits.back() == '%') digits.pop_back();
  const double percent = parse_real(digits, what);
  if (percent < 0) throw Error(kUsage, what + ": '" + text + "' is below zero; expected a percentage such as 5%");
  return percent / 100;
}

std::string show_number(double value) {
  const double size = std::fabs(value);
  if (size == 0) return "0";
  if (size >= 1e6 || (size < 1e-3 && size > 0)) return format("%.2e", value);
  return format(size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : size >= 1 ? "%.2f" : "%.3f", value);
}

std::string show_time(double microseconds) {
  if (microseconds >= 1e6) return show_number(microseconds * 1e-6) + " s";
  if (microseconds >= 1e3) return show_number(microseconds * 1e-3) + " ms";
  if (microseconds >= 1) return show_number(microseconds) + " us";
  return show_number(microseconds * 1e3) + " ns";
}

std::string show_bytes(double bytes) {
  const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) bytes /= 1024, ++unit;
  return (unit == 0 ? format("%.0f", bytes) : show_number(bytes)) + " " + units[unit];
}

} // namespace polyconv::bench
