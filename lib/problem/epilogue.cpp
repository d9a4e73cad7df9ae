// epilogue.cpp - validation of a layer's epilogue, in the order in which it is applied.
// SPDX-License-Identifier: Apache-2.0
#include "problem/checks.hpp"
#include "problem/types.hpp"

#include <cinttypes>
#include <cmath>

namespace polyconv {
namespace {

void check_activation(const polyconv_epilogue &e, int32_t layer) {
  check_range(layer, "epilogue.activation", e.activation, POLYCONV_ACT_NONE, POLYCONV_ACT_PRELU);
  const double alpha = static_cast<double>(e.activation_alpha);
  if (!std::isfinite(alpha)) reject(layer, "epilogue.activation_alpha is %g; expected a finite number", alpha);
  if (e.activation == POLYCONV_ACT_CLIPPED_RELU && !(alpha > 0))
    reject(layer, "epilogue.activation_alpha is %g; expected more than 0 for a clipped relu", alpha);
  if (e.activation_beta != 0.0f)
    reject(layer, "epilogue.activation_beta is %g; expected 0, as it is reserved",
           static_cast<double>(e.activation_beta));
}

// A zero point of the output: what is stored for 0, so an integer that the output type holds.
void check_output_zero_point(const char *field, int32_t value, const TypeInfo &output, int32_t layer) {
  if (!output.integer && value != 0)
    reject(layer, "%s is %" PRId32 "; expected 0, as output_type is %s", field, value, output.name);
  if (output.integer && (value < output.low || value > output.high))
    reject(layer, "%s is %" PRId32 "; expected %" PRId64 "..%" PRId64 ", the range of %s", field, value, output.low,
           output.high, output.name);
}

void check_residual(const polyconv_epilogue &e, const TypeInfo &output, int32_t layer) {
  const int32_t from = e.residual_from;
  const bool names_layer = from >= POLYCONV_RESIDUAL_LAYER && from < POLYCONV_RESIDUAL_LAYER + POLYCONV_MAX_CHAIN;
  if (!names_layer && (from < POLYCONV_RESIDUAL_NONE || from > POLYCONV_RESIDUAL_INPUT))
    reject(layer,
           "epilogue.residual_from is %" PRId32 "; expected 0 (none), 1 (buffer), 2 (input) or 16 + an earlier layer",
           from);
  const double scale = static_cast<double>(e.residual_scale);
  if (!std::isfinite(scale)) reject(layer, "epilogue.residual_scale is %g; expected a finite number", scale);
  check_output_zero_point("epilogue.residual_zero_point", e.residual_zero_point, output, layer);
}

void check_quantisation(const polyconv_epilogue &e, const TypeInfo &output, int32_t layer) {
  const double scale = static_cast<double>(e.out_scale);
  if (!std::isfinite(scale) || !(scale > 0))
    reject(layer, "epilogue.out_scale is %g; expected a finite number above 0", scale);
  if (!output.integer && e.out_scale != 1.0f)
    reject(layer, "epilogue.out_scale is %g; expected 1, as output_type is %s", scale, output.name);
  check_output_zero_point("epilogue.out_zero_point", e.out_zero_point, output, layer);
}

// A pad is smaller than what a window reaches over, so that no window lies in padding alone.
void check_pool_pad(const char *field, int entry, int64_t pad, int64_t window, int64_t dilation, int32_t layer) {
  if (pad > POLYCONV_MAX_ELEMENTS)
    reject(layer, "%s[%d] is %" PRId64 "; expected at most %" PRId64, field, entry, pad, POLYCONV_MAX_ELEMENTS);
  int64_t reach = 0; // less the last element; where it overflows it is larger than any pad
  const bool huge = __builtin_mul_overflow(window - 1, dilation, &reach);
  if (pad >= 0 && (huge || pad <= reach)) return;
  if (dilation == 1)
    reject(layer, "%s[%d] is %" PRId64 "; expected 0 or more and less than the window, which is %" PRId64, field, entry,
           pad, window);
  reject(layer,
         "%s[%d] is %" PRId64 "; expected 0 or more and at most %" PRId64 ", which a window of %" PRId64
         " with pool_dilation %" PRId64 " reaches beyond its first element",
         field, entry, pad, reach, window, dilation);
}

void check_pool(const polyconv_problem &p, int32_t layer) {
  const polyconv_pool &pool = p.epilogue.pool;
  check_range(layer, "epilogue.pool.kind", pool.kind, POLYCONV_POOL_NONE, POLYCONV_POOL_AVERAGE);
  if (pool.kind == POLYCONV_POOL_NONE) return;
  check_flag(layer, "epilogue.pool.count_include_pad", pool.count_include_pad);
  check_flag(layer, "pool_ceil", p.pool_ceil);
  for (int entry = 0; entry < p.spatial_dims; ++entry) {
    const int64_t window = pool.window[entry], dilation = p.pool_dilation[entry];
    if (window < 1) reject(layer, "epilogue.pool.window[%d] is %" PRId64 "; expected at least 1", entry, window);
    if (window > POLYCONV_MAX_ELEMENTS)
      reject(layer, "epilogue.pool.window[%d] is %" PRId64 "; expected at most %" PRId64, entry, window,
             POLYCONV_MAX_ELEMENTS);
    if (pool.stride[entry] < 1)
      reject(layer, "epilogue.pool.stride[%d] is %" PRId64 "; expected at least 1", entry, pool.stride[entry]);
    if (dilation < 1) reject(layer, "pool_dilation[%d] is %" PRId64 "; expected at least 1", entry, dilation);
    check_pool_pad("epilogue.pool.pad_begin", entry, pool.pad_begin[entry], window, dilation, layer);
    check_pool_pad("epilogue.pool.pad_end", entry, pool.pad_end[entry], window, dilation, layer);
  }
}

// Gradients take all of an epilogue but a bias towards the input, and a residual only with memory for its gradient.
void check_gradient(const polyconv_problem &p, int32_t layer) {
  const polyconv_epilogue &e = p.epilogue;
  const char *direction = p.direction == POLYCONV_BACKWARD_DATA ? "backward data" : "backward weights";
  if (e.has_bias != 0 && p.direction == POLYCONV_BACKWARD_DATA)
    reject(layer, "epilogue.has_bias is 1; expected 0 in direction %s", direction);
  if (e.residual_from > POLYCONV_RESIDUAL_BUFFER)
    reject(layer, "epilogue.residual_from is %" PRId32 "; expected 0 (none) or 1 (buffer) in direction %s",
           e.residual_from, direction);
}

} // namespace

void check_epilogue(const polyconv_problem &p, int32_t layer) {
  const polyconv_epilogue &e = p.epilogue;
  const TypeInfo &output = *type_info(p.output_type);
  check_flag(layer, "epilogue.has_scale", e.has_scale);
  check_flag(layer, "epilogue.has_bias", e.has_bias);
  check_residual(e, output, layer);
  check_activation(e, layer);
  check_pool(p, layer);
  check_quantisation(e, output, layer);
  if (p.direction != POLYCONV_FORWARD) check_gradient(p, layer);
}

} // namespace polyconv
