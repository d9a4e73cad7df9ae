// choice.hpp - which kernel the library chooses for each layer of the census, class by class.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "census.hpp"

// One way in which the layers are asked: a column of the tables.
struct Column {
  const char *title;
  const char *parts; // what the token gets behind the shape
  int32_t math;      // POLYCONV_MATH_*
};

struct Direction {
  const char *title;
  const char *word; // of the token
};

// What is asked of one kind of device: a section of the page.
struct Part {
  const char *heading;
  const char *device;
  const char *filter; // of kernels
  std::vector<Column> columns;
};

struct Chosen {
  std::string plug_in, kernel; // "cuda-tensor", "wgmma"; empty where nobody takes the layer
  bool generic;                // the general kernel that comes after all others
  bool helped;                 // a step beside it converts a layout or a type

  bool operator<(const Chosen &other) const {
    return std::tie(plug_in, kernel, generic, helped) <
           std::tie(other.plug_in, other.kernel, other.generic, other.helped);
  }
  bool operator==(const Chosen &other) const { return !(*this < other) && !(other < *this); }
};

using Cell = std::map<Chosen, int>;                          // how many layers of a class each kernel gets
using Answers = std::vector<std::vector<std::vector<Cell>>>; // [direction][class][column]

extern const Part kCpuPart, kCudaPart;
const std::vector<Direction> &directions();

// Whether the part can be asked here: whether its plug-ins answer, those of the CPU for the instruction set `isa`.
// Others choose otherwise.
bool answers_here(const Part &part, const char *isa);

// Throws std::runtime_error where polyconv refuses a layer of the census.
Answers ask(const Part &part, const std::vector<LayerClass> &census);
