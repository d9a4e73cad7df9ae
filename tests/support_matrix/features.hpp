// features.hpp - the questions of the support matrix: features x types x directions, each one problem token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct Feature {
  const char *name;
  const char *fields; // of the token; the transposed form gets the same
  const char *parts;  // ":..." of the token, types apart
  int32_t save = 0;   // POLYCONV_SAVE_*
};

struct Direction {
  char letter;
  const char *word;
};

// Rows of the type table that stand or fall together in the matrix.
struct TypeGroup {
  const char *name;
  std::vector<const char *> types;
};

const std::vector<Feature> &features();
const std::vector<Direction> &directions();
const std::vector<TypeGroup> &type_groups();

std::string token_of(const Feature &feature, const Direction &direction, const char *types);
