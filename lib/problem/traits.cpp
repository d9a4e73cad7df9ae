// traits.cpp - finds the traits of a layer, and has words for them.
// SPDX-License-Identifier: Apache-2.0
#include "problem/traits.hpp"

#include "problem/shape.hpp"

#include <algorithm>

namespace polyconv {
namespace {

struct Words {
  uint64_t trait;
  const char *words;
};
constexpr Words kWords[] = {
    {POLYCONV_TRAIT_OVERLAP, "tensor that overlaps itself"},
    {POLYCONV_TRAIT_NEGATIVE_STRIDE, "negative strides of a tensor that is read"},
    {POLYCONV_TRAIT_EMPTY, "tensor without elements"},
    {POLYCONV_TRAIT_CROPPING, "negative padding"},
    {POLYCONV_TRAIT_DILATED_POOLING, "dilated pooling"},
    {POLYCONV_TRAIT_CLIPPED_POOLING, "average that counts padding in windows beyond it (ceil mode)"},
    {POLYCONV_TRAIT_ELU, "activation elu"},
    {POLYCONV_TRAIT_GELU_TANH, "activation gelu by tanh"},
    {POLYCONV_TRAIT_PRELU, "activation prelu"},
    {POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS, "zero points for each channel of the weights"},
    {POLYCONV_TRAIT_WIDE_GRADIENT, "f32 gradient of weights from f16 or bf16 tensors"},
    {POLYCONV_TRAIT_GRADIENT_SCALE, "scale in a gradient"},
    {POLYCONV_TRAIT_GRADIENT_RESIDUAL, "residual in a gradient"},
};

// Other than the batch.
bool has_empty_axis(const polyconv_tensor &tensor) {
  return std::any_of(tensor.size + 1, tensor.size + kAxes, [](int64_t size) { return size == 0; });
}

} // namespace

uint64_t takes_of(const polyconv_kernel &kernel) {
  constexpr size_t kSize = offsetof(polyconv_kernel, takes) + sizeof kernel.takes;
  return kernel.struct_size < kSize ? 0 : kernel.takes;
}

uint64_t memory_traits_of(const polyconv_tensor &tensor) {
  uint64_t traits = 0;
  for (int axis = 0; axis < kAxes; ++axis)
    if (tensor.size[axis] > 1 && tensor.stride[axis] < 0) traits |= POLYCONV_TRAIT_NEGATIVE_STRIDE;
  int64_t reach = 0;
  if (overlapping_axis(tensor, &reach) >= 0) traits |= POLYCONV_TRAIT_OVERLAP;
  return traits;
}

namespace {

uint64_t activation_trait(int32_t activation) {
  switch (activation) {
    case POLYCONV_ACT_ELU: return POLYCONV_TRAIT_ELU;
    case POLYCONV_ACT_GELU_TANH: return POLYCONV_TRAIT_GELU_TANH;
    case POLYCONV_ACT_PRELU: return POLYCONV_TRAIT_PRELU;
    default: return 0;
  }
}

// Those of what happens to sums, and of types.
uint64_t arithmetic_traits_of(int32_t op, const polyconv_layer &layer) {
  const polyconv_epilogue &e = layer.epilogue;
  uint64_t traits = activation_trait(e.activation);
  if (op == POLYCONV_OP_GRADIENT) {
    if (e.has_scale != 0) traits |= POLYCONV_TRAIT_GRADIENT_SCALE;
    if (e.residual_from != POLYCONV_RESIDUAL_NONE) traits |= POLYCONV_TRAIT_GRADIENT_RESIDUAL;
  }
  const bool narrow = layer.input.type == POLYCONV_F16 || layer.input.type == POLYCONV_BF16 ||
                      layer.output.type == POLYCONV_F16 || layer.output.type == POLYCONV_BF16;
  if (op == POLYCONV_OP_CONVOLVE && layer.direction == POLYCONV_BACKWARD_WEIGHTS && narrow &&
      layer.result.type == POLYCONV_F32)
    traits |= POLYCONV_TRAIT_WIDE_GRADIENT;
  return traits;
}

} // namespace

void set_traits(int32_t op, polyconv_layer *layer) {
  const bool convolves = op == POLYCONV_OP_CONVOLVE;
  uint64_t traits = arithmetic_traits_of(op, *layer);
  traits |= layer->traits & POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS; // which nothing else in a layer shows
  if (has_empty_axis(layer->input) || (convolves && has_empty_axis(layer->output))) traits |= POLYCONV_TRAIT_EMPTY;
  if (!convolves || layer->direction != POLYCONV_BACKWARD_DATA) traits |= memory_traits_of(layer->input);
  if (convolves && layer->direction != POLYCONV_FORWARD) traits |= memory_traits_of(layer->output);
  if (convolves && layer->epilogue.residual_from != POLYCONV_RESIDUAL_NONE) traits |= memory_traits_of(layer->residual);
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) {
    if (layer->pad_begin[axis] < 0 || layer->pad_end[axis] < 0) traits |= POLYCONV_TRAIT_CROPPING;
    if (layer->pool_dilation[axis] != 1) traits |= POLYCONV_TRAIT_DILATED_POOLING;
    if (layer->pool_overhang[axis] != 0) traits |= POLYCONV_TRAIT_CLIPPED_POOLING;
  }
  layer->traits = traits;
}

const char *trait_words(uint64_t traits) {
  for (const Words &one : kWords)
    if ((traits & one.trait) != 0) return one.words;
  return "layer of a kind that this version has no words for";
}

} // namespace polyconv
