// epilogue.cpp - the CPU-independent half of the epilogue. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/epilogue.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

namespace polyconv::cpu {
namespace {

template <class T>
void activate_all(T *values, int64_t n, const polyconv_epilogue &rules) {
  for (int64_t i = 0; i < n; ++i) values[i] = sdk::activate(values[i], rules);
}

template <class T>
void slope_all(T *values, int64_t n, const polyconv_epilogue &rules) {
  for (int64_t i = 0; i < n; ++i) values[i] = sdk::activation_slope(values[i], rules);
}

// Whether a stride steps over `count` elements that are `step` apart.
bool steps_over(int64_t stride, int64_t count, int64_t step) {
  int64_t product = 0; // may overflow where the stride does not follow from it
  return !__builtin_mul_overflow(count, step, &product) && stride == product;
}

} // namespace

bool is_slow(int32_t activation) {
  return activation > POLYCONV_ACT_LEAKY_RELU && activation != POLYCONV_ACT_HARD_SWISH;
}

bool one_pixel_stride(const polyconv_tensor &t) {
  using namespace sdk;
  const bool rows = t.size[kH] == 1 || steps_over(t.stride[kH], t.size[kW], t.stride[kW]);
  const bool planes = t.size[kD] == 1 || steps_over(t.stride[kD], t.size[kH] * t.size[kW], t.stride[kW]);
  // A row of one pixel has no stride of its own to go on with.
  const bool meaningful = t.size[kW] > 1 || t.size[kH] * t.size[kD] == 1;
  return rows && planes && meaningful;
}

bool one_image_stride(const polyconv_tensor &t) {
  return t.size[sdk::kN] == 1 || steps_over(t.stride[sdk::kN], sdk::spatial(t), t.stride[sdk::kW]);
}

bool one_image_stride(const Epilogue &e) {
  const bool residual = e.rules.residual_from != POLYCONV_RESIDUAL_NONE;
  return one_image_stride(e.result) && (!residual || one_image_stride(e.residual_tensor)) &&
         (!e.save || one_image_stride(e.saved_tensor));
}

Epilogue make_epilogue(const polyconv_layer &layer) {
  Epilogue e{};
  e.result = layer.result;
  e.residual_tensor = layer.residual;
  e.saved_tensor = layer.saved;
  e.rules = layer.epilogue;
  e.sum_type = layer.sum_type;
  e.integer = sdk::stays_integer(layer);
  e.save = layer.save == POLYCONV_SAVE_PRE_ACTIVATION;
  const bool residual = layer.epilogue.residual_from != POLYCONV_RESIDUAL_NONE;
  e.slow = is_slow(layer.epilogue.activation);
  const int32_t type = layer.result.type;
  const bool bare = layer.sum_type == POLYCONV_F32 && !e.save && !e.slow && !residual && !layer.epilogue.has_scale;
  e.simple = bare && type == POLYCONV_F32;
  e.quick = bare && (type == POLYCONV_U8 || type == POLYCONV_U16 || type == POLYCONV_F16 || type == POLYCONV_BF16);
  e.whole_images = one_pixel_stride(layer.result) && (!residual || one_pixel_stride(layer.residual)) &&
                   (!e.save || one_pixel_stride(layer.saved));
  return e;
}

Epilogue with_arguments(const Epilogue &epilogue, const polyconv_arguments &arguments) {
  Epilogue e = epilogue;
  e.bias = e.rules.has_bias ? arguments.bias[0] : nullptr;
  e.scale = e.rules.has_scale ? arguments.scale[0] : nullptr;
  e.slope = e.rules.activation == POLYCONV_ACT_PRELU ? arguments.slope[0] : nullptr;
  e.residual = e.rules.residual_from != POLYCONV_RESIDUAL_NONE ? arguments.residual[0] : nullptr;
  e.saved = e.save ? arguments.saved[0] : nullptr;
  e.output = arguments.output;
  return e;
}

LayerRun layer_run(const Epilogue &epilogue, const polyconv_arguments &arguments, bool stream) {
  return {with_arguments(epilogue, arguments), arguments.input, arguments.weights[0], stream};
}

void activate_slowly(float *values, int64_t n, const polyconv_epilogue &rules) {
  activate_all(values, n, rules);
}
void activate_slowly(double *values, int64_t n, const polyconv_epilogue &rules) {
  activate_all(values, n, rules);
}

void slope_slowly(float *values, int64_t n, const polyconv_epilogue &rules) {
  slope_all(values, n, rules);
}
void slope_slowly(double *values, int64_t n, const polyconv_epilogue &rules) {
  slope_all(values, n, rules);
}

} // namespace polyconv::cpu
