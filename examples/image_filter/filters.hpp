// filters.hpp - image filters as convolution kernels: named ones of any odd size, and those of a text file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

// One or two kernels of the same size. Two are a gradient: what is shown is the length of (first, second).
struct Filter {
  std::string name;
  int64_t rows = 0, columns = 0;
  std::vector<std::vector<float>> kernels; // each rows x columns
  bool separable = false;                  // every kernel is an outer product
  int32_t centre = 0;                      // the grey that 0 is shown as
};

// The names, for the help text and for errors.
std::vector<std::string> filter_names();

// A filter by name, `size` odd, from 3 to 63. Throws Failure.
Filter named_filter(const std::string &name, int64_t size);

// Rows of numbers, the same count in each; '#' begins a comment. Taken as they stand: neither flipped nor scaled.
Filter filter_from_file(const std::string &path);
