// fields.cpp - validation of a problem's own fields: enumerations, channels, axes, padding, types.
// SPDX-License-Identifier: Apache-2.0
#include "problem/checks.hpp"
#include "problem/shape.hpp"
#include "problem/types.hpp"

#include <polyconv/sdk/half.hpp>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <limits>

namespace polyconv {
namespace {

void check_enumerations(const polyconv_problem &p, int32_t layer) {
  check_range(layer, "direction", p.direction, POLYCONV_FORWARD, POLYCONV_BACKWARD_WEIGHTS);
  check_flag(layer, "transposed", p.transposed);
  check_range(layer, "spatial_dims", p.spatial_dims, 1, POLYCONV_MAX_SPATIAL);
  check_flag(layer, "flip", p.flip);
  check_flag(layer, "separable", p.separable);
  check_range(layer, "pad_mode", p.pad_mode, POLYCONV_PAD_ZERO, POLYCONV_PAD_CIRCULAR);
  check_range(layer, "input_layout", p.input_layout, POLYCONV_CHANNELS_FIRST, POLYCONV_CHANNELS_LAST);
  check_range(layer, "weights_layout", p.weights_layout, POLYCONV_CHANNELS_FIRST, POLYCONV_CHANNELS_LAST);
  check_range(layer, "output_layout", p.output_layout, POLYCONV_CHANNELS_FIRST, POLYCONV_CHANNELS_LAST);
  check_flag(layer, "has_input_strides", p.has_input_strides);
  check_flag(layer, "has_weights_strides", p.has_weights_strides);
  check_flag(layer, "has_output_strides", p.has_output_strides);
}

void at_least(int32_t layer, const char *field, int entry, int64_t value, int64_t low) {
  if (value < low) reject(layer, "%s[%d] is %" PRId64 "; expected at least %" PRId64, field, entry, value, low);
}

// What counts elements: from `low` to what no problem may have more of.
void check_count(int32_t layer, const char *field, int64_t value, int64_t low) {
  if (value < low) reject(layer, "%s is %" PRId64 "; expected at least %" PRId64, field, value, low);
  if (value > POLYCONV_MAX_ELEMENTS)
    reject(layer, "%s is %" PRId64 "; expected at most %" PRId64, field, value, POLYCONV_MAX_ELEMENTS);
}
void check_count(int32_t layer, const char *field, int entry, int64_t value, int64_t low) {
  at_least(layer, field, entry, value, low);
  if (value > POLYCONV_MAX_ELEMENTS)
    reject(layer, "%s[%d] is %" PRId64 "; expected at most %" PRId64, field, entry, value, POLYCONV_MAX_ELEMENTS);
}

void check_channels(const polyconv_problem &p, int32_t layer) {
  check_count(layer, "batch", p.batch, 0);
  check_count(layer, "in_channels", p.in_channels, 0);
  check_count(layer, "out_channels", p.out_channels, 0);
  check_count(layer, "groups", p.groups, 1);
  if (p.in_channels % p.groups != 0)
    reject(layer, "in_channels is %" PRId64 "; expected a multiple of groups, which is %" PRId64, p.in_channels,
           p.groups);
  if (p.out_channels % p.groups != 0)
    reject(layer, "out_channels is %" PRId64 "; expected a multiple of groups, which is %" PRId64, p.out_channels,
           p.groups);
}

// Negative padding crops the tensor that would be padded, and leaves something of it. What a transposed problem pads is
// its output, which negative padding makes larger. Nothing has no edge that could be repeated.
void check_edges(const polyconv_problem &p, int32_t layer, int entry) {
  if (p.transposed != 0) return;
  const int64_t begin = p.pad_begin[entry], end = p.pad_end[entry], size = p.input_size[entry];
  const bool repeats = p.pad_mode != POLYCONV_PAD_ZERO && p.pad_mode != POLYCONV_PAD_CONSTANT;
  if (size == 0 && repeats && (begin > 0 || end > 0))
    reject(layer, "pad_mode is %" PRId32 "; expected 0 (zero) or 1 (constant), as input_size[%d] is 0 and padded",
           p.pad_mode, entry);
  if (begin >= 0 && end >= 0) return;
  if (begin > -size && end > -size && std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0) > -size) return;
  reject(layer,
         "pad_begin[%d] is %" PRId64 " and pad_end[%d] %" PRId64
         "; expected to crop less than the input, which is %" PRId64,
         entry, begin, entry, end, size);
}

void check_axis(const polyconv_problem &p, int32_t layer, int entry) {
  check_count(layer, "input_size", entry, p.input_size[entry], 0);
  check_count(layer, "kernel_size", entry, p.kernel_size[entry], 1);
  at_least(layer, "stride", entry, p.stride[entry], 1);
  at_least(layer, "dilation", entry, p.dilation[entry], 1);
  check_count(layer, "pad_begin", entry, p.pad_begin[entry], -POLYCONV_MAX_ELEMENTS);
  check_count(layer, "pad_end", entry, p.pad_end[entry], -POLYCONV_MAX_ELEMENTS);
  check_edges(p, layer, entry);
  at_least(layer, "output_padding", entry, p.output_padding[entry], 0);
  const int64_t more = p.output_padding[entry];
  if (more == 0) return;
  if (p.transposed == 0)
    reject(layer, "output_padding[%d] is %" PRId64 "; expected 0, as transposed is 0", entry, more);
  const int64_t limit = p.stride[entry] > p.dilation[entry] ? p.stride[entry] : p.dilation[entry];
  if (more >= limit)
    reject(layer,
           "output_padding[%d] is %" PRId64 "; expected less than %" PRId64 ", the larger of stride and dilation",
           entry, more, limit);
}

// pad_value as the input type holds it must be finite, and exact in an integer type.
void check_pad_value(const polyconv_problem &p, int32_t layer) {
  const double value = p.pad_value;
  if (p.pad_mode != POLYCONV_PAD_CONSTANT) {
    if (!(value == 0)) reject(layer, "pad_value is %g; expected 0, as pad_mode is not constant", value);
    return;
  }
  if (p.transposed != 0)
    reject(layer, "pad_mode is constant; expected any other, as a transposed problem adds no constant");
  if (!std::isfinite(value)) reject(layer, "pad_value is %g; expected a finite number", value);
  const TypeInfo &type = *type_info(p.input_type);
  if (type.integer) {
    if (value != std::trunc(value) || value < static_cast<double>(type.low) || value > static_cast<double>(type.high))
      reject(layer, "pad_value is %.17g; expected a whole number in %" PRId64 "..%" PRId64 ", the range of %s", value,
             type.low, type.high, type.name);
    return;
  }
  const bool fits = p.input_type == POLYCONV_F16    ? std::isfinite(sdk::to_float(sdk::to_f16(value)))
                    : p.input_type == POLYCONV_BF16 ? std::isfinite(sdk::to_float(sdk::to_bf16(value)))
                    : p.input_type == POLYCONV_F32  ? std::fabs(value) <= std::numeric_limits<float>::max()
                                                    : true;
  if (!fits) reject(layer, "pad_value is %g; expected a number that is finite in %s", value, type.name);
}

void check_zero_point(int32_t layer, const char *field, int32_t value, const TypeInfo &type, bool quantised) {
  if (value == 0) return;
  if (!quantised) reject(layer, "%s is %" PRId32 "; expected 0 outside the s8/u8 rows", field, value);
  if (value < type.low || value > type.high)
    reject(layer, "%s is %" PRId32 "; expected %" PRId64 "..%" PRId64 ", the range of %s", field, value, type.low,
           type.high, type.name);
}

} // namespace

void check_range(int32_t layer, const char *field, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    reject(layer, "%s is %" PRId64 "; expected %" PRId64 "..%" PRId64, field, value, low, high);
}

void check_flag(int32_t layer, const char *field, int32_t value) {
  if (value != 0 && value != 1) reject(layer, "%s is %" PRId32 "; expected 0 or 1", field, value);
}

void check_fields(const polyconv_problem &p, int32_t layer) {
  check_enumerations(p, layer);
  check_channels(p, layer);
  for (int entry = 0; entry < p.spatial_dims; ++entry) check_axis(p, layer, entry);
}

void check_types(const polyconv_problem &p, int32_t layer) {
  const TypeInfo *input = type_info(p.input_type);
  if (input == nullptr || weights_beside(p) == nullptr)
    reject(layer, "input_type is %s (%" PRId32 "); expected f64, f32, f16, bf16, s8, u8 or u16",
           polyconv_type_name(p.input_type), p.input_type);
  const char *outputs = outputs_beside(p);
  if (outputs == nullptr)
    reject(layer, "weights_type is %s (%" PRId32 "); expected %s with input_type %s",
           polyconv_type_name(p.weights_type), p.weights_type, weights_beside(p), input->name);
  TypeRow row;
  if (!row_of(p, &row))
    reject(layer, "output_type is %s (%" PRId32 "); expected %s with input_type %s and weights_type %s",
           polyconv_type_name(p.output_type), p.output_type, outputs, input->name, type_info(p.weights_type)->name);
  if (row.kind != RowKind::Float && p.direction != POLYCONV_FORWARD)
    reject(layer,
           "direction is %s; expected forward with input_type %s and weights_type %s, as gradients exist for f64, "
           "f32, f16 and bf16",
           p.direction == POLYCONV_BACKWARD_DATA ? "backward data" : "backward weights", input->name,
           type_info(p.weights_type)->name);
  const bool quantised = row.kind == RowKind::Quantised;
  check_zero_point(layer, "input_zero_point", p.input_zero_point, *input, quantised);
  check_zero_point(layer, "weights_zero_point", p.weights_zero_point, *type_info(p.weights_type), quantised);
  check_flag(layer, "has_weights_zero_points", p.has_weights_zero_points);
  if (p.has_weights_zero_points != 0 && !quantised)
    reject(layer, "has_weights_zero_points is 1; expected 0 outside the s8/u8 rows");
  if (p.has_weights_zero_points != 0 && p.weights_zero_point != 0)
    reject(layer, "weights_zero_point is %" PRId32 "; expected 0, as has_weights_zero_points is 1",
           p.weights_zero_point);
  check_pad_value(p, layer);
}

} // namespace polyconv
