// census.hpp - the layers of bench/suites/census.txt by class, as docs/kernels.md has them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

struct LayerClass {
  std::string name;
  std::vector<std::string> tokens; // forward, without type and layout
};

// The classes in the order of the file, where a line "# name" opens each. Throws std::runtime_error, with file and
// line, for a layer before the first class, a class without layers, and a file without classes.
std::vector<LayerClass> read_census(const std::string &path);
