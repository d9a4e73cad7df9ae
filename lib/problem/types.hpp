// types.hpp - element types and the rows that they may form: which bias and which sums belong to input,
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

// What weights may stand beside a problem's input, for messages: "f32", "s8 or u8, or f32 for images"; NULL where that
// is no type of inputs.
const char *weights_beside(const polyconv_problem &problem);
// Likewise the outputs beside its input and weights; NULL where the two form no row.
const char *outputs_beside(const polyconv_problem &problem);

} // namespace polyconv
