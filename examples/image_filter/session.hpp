// session.hpp - one filter over one picture through polyconv.h: describe, plan, prepare, bind, run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "filters.hpp"
#include "image.hpp"

struct Settings {
  std::string border = "reflect";
  double border_value = 0;
  std::string backend; // empty: the library chooses
  std::string kernel;  // a glob over full names; empty: the library chooses
  int32_t threads = 0;
  int64_t band_megabytes = 256; // what a picture's bands take while they are filtered
};

struct Outcome {
  Image image;
  std::string kernel;
  double milliseconds; // the convolution alone: the median of several runs, of bands the sum of one run each
};

std::vector<std::string> border_names();

// Names of the backends that can serve here.
std::vector<std::string> available_backends();

// Throws Failure with the library's own sentence.
Outcome apply(const Image &image, const Filter &filter, const Settings &settings);
