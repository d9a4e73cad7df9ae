// types.cpp - the type table of polyconv.h as data.
// SPDX-License-Identifier: Apache-2.0
#include "problem/types.hpp"

#include <cstring>
#include <limits>

namespace polyconv {
namespace {

template <class T>
constexpr TypeInfo integer_type(const char *name) {
  return {name, sizeof(T), true, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

constexpr int32_t kTypeEnd = 9; // one beyond the last type
constexpr TypeInfo kTypes[kTypeEnd] = {
    {nullptr, 0, false, 0, 0},  {"f64", 8, false, 0, 0},     {"f32", 4, false, 0, 0},
    {"f16", 2, false, 0, 0},    {"bf16", 2, false, 0, 0},    integer_type<int32_t>("s32"),
    integer_type<int8_t>("s8"), integer_type<uint8_t>("u8"), integer_type<uint16_t>("u16"),
};
static_assert(POLYCONV_U16 + 1 == kTypeEnd, "a new type needs a line in kTypes");

constexpr uint32_t set(int32_t type) {
  return 1u << type;
}
template <class... Types>
constexpr uint32_t set(int32_t first, Types... rest) {
  return set(first) | set(rest...);
}

// One line of the type table: sets of types, and what is said of them when the third or second does not fit.
struct Line {
  uint32_t inputs, weights, outputs;
  const char *weights_words, *outputs_words;
  TypeRow row;
  const char *gradient_words = nullptr; // of weights in BACKWARD_WEIGHTS, where these may be f32 as well
};

constexpr Line kLines[] = {
    {set(POLYCONV_F64),
     set(POLYCONV_F64),
     set(POLYCONV_F64),
     "f64",
     "f64",
     {RowKind::Float, POLYCONV_F64, POLYCONV_F64, POLYCONV_F64}},
    {set(POLYCONV_F32),
     set(POLYCONV_F32),
     set(POLYCONV_F32),
     "f32",
     "f32",
     {RowKind::Float, POLYCONV_F32, POLYCONV_F32, POLYCONV_F32}},
    {set(POLYCONV_F16),
     set(POLYCONV_F16),
     set(POLYCONV_F16, POLYCONV_F32),
     "f16",
     "f16 or f32",
     {RowKind::Float, POLYCONV_F32, POLYCONV_F32, POLYCONV_F32},
     "f16 or f32"},
    {set(POLYCONV_BF16),
     set(POLYCONV_BF16),
     set(POLYCONV_BF16, POLYCONV_F32),
     "bf16",
     "bf16 or f32",
     {RowKind::Float, POLYCONV_F32, POLYCONV_F32, POLYCONV_F32},
     "bf16 or f32"},
    {set(POLYCONV_S8, POLYCONV_U8),
     set(POLYCONV_S8, POLYCONV_U8),
     set(POLYCONV_S32, POLYCONV_S8, POLYCONV_U8, POLYCONV_F32),
     "s8 or u8 (u8 images: f32)",
     "s32, s8, u8 or f32",
     {RowKind::Quantised, POLYCONV_S32, POLYCONV_S32, POLYCONV_F32}},
    {set(POLYCONV_U8, POLYCONV_U16),
     set(POLYCONV_F32),
     set(POLYCONV_U8, POLYCONV_U16, POLYCONV_F32),
     "f32",
     "u8, u16 or f32",
     {RowKind::Image, POLYCONV_F32, POLYCONV_F32, POLYCONV_F32}},
};

bool known(int32_t type) {
  return type > 0 && type < kTypeEnd;
}

// The line of a problem's input and weights. Gradients of weights may be kept as they are summed.
const Line *line_of(const polyconv_problem &p) {
  if (!known(p.input_type) || !known(p.weights_type)) return nullptr;
  for (const Line &line : kLines) {
    if ((line.inputs & set(p.input_type)) == 0) continue;
    const bool kept = p.direction == POLYCONV_BACKWARD_WEIGHTS && line.gradient_words != nullptr;
    const uint32_t weights = line.weights | (kept ? set(POLYCONV_F32) : 0);
    if ((weights & set(p.weights_type)) != 0) return &line;
  }
  return nullptr;
}

} // namespace

const TypeInfo *type_info(int32_t type) {
  return known(type) ? &kTypes[type] : nullptr;
}

int32_t type_named(const char *name, size_t length) {
  for (int32_t type = 1; type < kTypeEnd; ++type)
    if (std::strlen(kTypes[type].name) == length && std::memcmp(kTypes[type].name, name, length) == 0) return type;
  return 0;
}

bool row_of(const polyconv_problem &problem, TypeRow *row) {
  const Line *line = line_of(problem);
  if (line == nullptr || !known(problem.output_type) || (line->outputs & set(problem.output_type)) == 0) return false;
  *row = line->row;
  return true;
}

const char *weights_beside(const polyconv_problem &problem) {
  if (!known(problem.input_type)) return nullptr;
  const bool gradient = problem.direction == POLYCONV_BACKWARD_WEIGHTS;
  for (const Line &line : kLines)
    if ((line.inputs & set(problem.input_type)) != 0)
      return gradient && line.gradient_words != nullptr ? line.gradient_words : line.weights_words;
  return nullptr;
}

const char *outputs_beside(const polyconv_problem &problem) {
  const Line *line = line_of(problem);
  return line == nullptr ? nullptr : line->outputs_words;
}

} // namespace polyconv
