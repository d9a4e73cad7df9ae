// generated_page.hpp - what the programs that write documents share: tables, sections, and whether a page is up to
// date.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace generated_page {

// A Markdown table row.
inline std::string row(const std::vector<std::string> &cells) {
  std::string line = "|";
  for (const std::string &cell : cells) line += " " + cell + " |";
  return line + "\n";
}

// The first two rows of a table.
inline std::string head(const std::vector<std::string> &cells) {
  return row(cells) + row(std::vector<std::string>(cells.size(), "---"));
}

// A whole file; empty where it is not there yet.
inline std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The sections "## heading" of a page by their heading, each with it.
inline std::map<std::string, std::string> sections_of(const std::string &page) {
  std::map<std::string, std::string> sections;
  for (size_t begin = page.find("\n## "); begin != std::string::npos;) {
    const size_t end = page.find("\n## ", begin + 1);
    const std::string section = page.substr(begin + 1, end == std::string::npos ? end : end - begin);
    sections[section.substr(3, section.find('\n') - 3)] = section;
    begin = end;
  }
  return sections;
}

inline void write(const std::string &path, const std::string &page) {
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

// Whether the page is what it would be now; says from which line on it is not, and which target writes it.
inline bool up_to_date(const std::string &path, const std::string &before, const std::string &now, const char *target) {
  if (before == now) return true;
  size_t line = 1;
  for (size_t i = 0; i < before.size() && i < now.size() && before[i] == now[i]; ++i) line += now[i] == '\n';
  std::printf("%s is out of date from line %zu on; build the target %s and commit the page\n", path.c_str(), line,
              target);
  return false;
}

} // namespace generated_page
