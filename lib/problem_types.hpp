// problem_types.hpp - element types and the rows that they may form: which bias and which sums belong to input,
// weights and output. Part of step 2, read by validation, normalisation and the token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

namespace polyconv {

struct TypeInfo {
  const char *name;
  int64_t size; // bytes
  bool integer;
  int64_t low; // range of an integer type
  int64_t high;
};

// NULL for a number that is no type.
const TypeInfo *type_info(int32_t type);

// The type called `name`, 0 for none.
int32_t type_named(const char *name, size_t length);

enum class RowKind { Float, Quantised, Image };

struct TypeRow {
  RowKind kind;
  int32_t sum_type;
  int32_t bias_type;
  int32_t scale_type;
};

// The row of a problem's three types; false where they form none.
bool row_of(const polyconv_problem &problem, TypeRow *row);

// What may stand beside an input type, for messages: "f32", "s8 or u8, or f32 for images"; NULL for no input type.
const char *weights_beside(int32_t input_type);
// Likewise the outputs of an input and weights type; NULL where the two form no row.
const char *outputs_beside(int32_t input_type, int32_t weights_type);

} // namespace polyconv
