// epilogue.hpp - what a kernel must know to turn sums into stored results, as plain data that every pass reads:
// made at plan time from the layer, completed with pointers in run. finish.hpp does the work.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

namespace polyconv::cpu {

struct Epilogue {
  polyconv_tensor result, residual_tensor, saved_tensor;
  polyconv_epilogue rules;
  int32_t sum_type;     // F64, F32 or S32
  int32_t integer;      // s32 result with nothing but a bias: never leaves integers
  int32_t save;         // pre-activation values are wanted
  int32_t slow;         // the activation is applied to runs of values (activate_run)
  int32_t simple;       // f32 in, f32 out, at most a bias and a quick activation
  int32_t quick;        // the same for results of 8 and 16 bits, other than s8
  int32_t whole_images; // pixels of an image lie at one stride, in all three tensors: rows may run on into the next
  // Set by with_arguments.
  const void *bias, *scale, *slope, *residual;
  void *saved, *output;
};

// What one run adds to the plan of a kernel that computes results.
struct LayerRun {
  Epilogue epilogue; // with pointers
  const void *input, *weights;
  int32_t stream; // results pass the caches by: they are aligned, and too many to stay there
};

// The same of a kernel that computes gradients of weights.
struct WeightsRun {
  const void *input, *gradient;
  void *weights;
};

// Whether an activation is more than a few instructions: with exp, by channel, or of the C library.
bool is_slow(int32_t activation);

// True where the pixels of an image lie at one stride, that of W.
bool one_pixel_stride(const polyconv_tensor &tensor);

// True where, besides, the pixels of all images do, so that a line of them may run through the batch.
bool one_image_stride(const polyconv_tensor &tensor);

// The same of what an epilogue reads and writes. Both suppose one_pixel_stride.
bool one_image_stride(const Epilogue &epilogue);

// Plan time. The layer has no pooling: kernels reject it, the plan adds a step.
Epilogue make_epilogue(const polyconv_layer &layer);

// Run time: layer 0's pointers in their roles.
Epilogue with_arguments(const Epilogue &epilogue, const polyconv_arguments &arguments);

// Run time: all that a run adds; `weights` are the packed ones.
LayerRun layer_run(const Epilogue &epilogue, const polyconv_arguments &arguments, bool stream = false);

// The activation of n values by the SDK's own functions, in place: where no vector form exists. T is float or double.
void activate_slowly(float *values, int64_t n, const polyconv_epilogue &rules);
void activate_slowly(double *values, int64_t n, const polyconv_epilogue &rules);

// Likewise from pre-activations to the slopes there.
void slope_slowly(float *values, int64_t n, const polyconv_epilogue &rules);
void slope_slowly(double *values, int64_t n, const polyconv_epilogue &rules);

} // namespace polyconv::cpu
