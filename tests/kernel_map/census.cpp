// census.cpp - see census.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "census.hpp"

#include <fstream>
#include <stdexcept>

std::vector<LayerClass> read_census(const std::string &path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  std::vector<LayerClass> classes;
  bool introduction = true; // the comment that the file opens with, up to the first empty line
  size_t number = 0;
  const auto fail = [&](const std::string &what) {
    throw std::runtime_error(path + ", line " + std::to_string(number) + ": " + what);
  };
  const auto close_class = [&] {
    if (!classes.empty() && classes.back().tokens.empty()) fail("the class " + classes.back().name + " has no layers");
  };
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) {
      introduction = false;
    } else if (line.rfind("# ", 0) == 0) {
      if (introduction) continue;
      close_class();
      classes.push_back({line.substr(2), {}});
    } else {
      if (classes.empty()) fail("a layer before the first class, which a line '# name' opens");
      classes.back().tokens.push_back(line);
    }
  }
  close_class();
  if (classes.empty()) fail("has no classes, which lines '# name' open");
  return classes;
}
