// checks.hpp - the parts of validation, each in its own file: every function throws Failure with one
// sentence "layer i: field is value; expected ..." and relies on those that come before it here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>
#include <polyconv/sdk/printf.hpp>

#include <vector>

namespace polyconv {

// Throws the sentence, with "layer <layer>: " before it.
[[noreturn]] POLYCONV_PRINTF(2, 3) void reject(int32_t layer, const char *format, ...);

// One field inside a range, or one of two values.
void check_range(int32_t layer, const char *field, int64_t value, int64_t low, int64_t high);
void check_flag(int32_t layer, const char *field, int32_t value);

void check_fields(const polyconv_problem &problem, int32_t layer); // problem/fields.cpp: enums, channels, axes, padding
void check_types(const polyconv_problem &problem, int32_t layer);  // problem/fields.cpp: row and zero points
void check_epilogue(const polyconv_problem &problem, int32_t layer); // problem/epilogue.cpp
void check_memory(const polyconv_problem &problem, int32_t layer);   // problem/memory.cpp: sizes, strides, overflow

// What holds for one problem wherever it stands: all of the above.
void check_layer(const polyconv_problem &problem, int32_t layer);

// What links a problem to its chain: the residual's source, and layer i+1 reading what layer i writes.
void check_links(const std::vector<polyconv_problem> &problems); // problem/chain.cpp

// Sets what validation ignores (absent axes, strides that are not used, a pool that is not there, ...) to the
// defaults, so that equal problems are equal field by field. The problem must have passed check_layer.
void forget_ignored(polyconv_problem *problem); // problem/problem.cpp

} // namespace polyconv
