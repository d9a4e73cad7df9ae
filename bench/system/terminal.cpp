// terminal.cpp - what of terminal.hpp needs no operating system: lines that are too long.
// SPDX-License-Identifier: Apache-2.0
#include "system/terminal.hpp"

#include <algorithm>
#include <cstdlib>

namespace polyconv::bench {

namespace {

std::string wrapped_line(const std::string &line, size_t columns) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string further(std::min(indent + 2, columns / 2), ' ');
  std::string text, rest = line;
  while (rest.size() > columns) {
    const size_t begin = rest.find_first_not_of(' ');
    size_t blank = rest.rfind(' ', columns);
    if (blank == std::string::npos || blank <= begin) blank = rest.find(' ', columns);
    if (blank == std::string::npos) break;
    text += rest.substr(0, rest.find_last_not_of(' ', blank) + 1) + "\n";
    const size_t next = rest.find_first_not_of(' ', blank);
    if (next == std::string::npos) return text.substr(0, text.size() - 1);
    rest.replace(0, next, further);
  }
  return text + rest;
}

bool nobody_minds_colours() {
  const char *no_colour = std::getenv("NO_COLOR"), *terminal = std::getenv("TERM");
  return (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr && std::string(terminal) != "dumb";
}

} // namespace

bool stdout_takes_colours() {
  return stdout_columns() > 0 && nobody_minds_colours();
}

bool stderr_takes_colours() {
  return stderr_is_terminal() && nobody_minds_colours();
}

size_t asked_columns() {
  const char *text = std::getenv("COLUMNS");
  char *end = nullptr;
  const long value = text ? std::strtol(text, &end, 10) : 0;
  return text && *end == '\0' && value > 0 ? static_cast<size_t>(value) : 0;
}

std::string wrapped(const std::string &text, size_t columns) {
  if (columns == 0) return text;
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    result += wrapped_line(text.substr(begin, end - begin), columns) + (end < text.size() ? "\n" : "");
    begin = end + 1;
  }
  return result;
}

} // namespace polyconv::bench
