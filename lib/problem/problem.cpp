// problem.cpp - step 2 of the way through the code: caller's problems are copied, validated and normalised into the
// polyconv_layers that kernels see.
// SPDX-License-Identifier: Apache-2.0
#include "problem/problem.hpp"

#include "base/checked.hpp"
#include "base/read_sized.hpp"
#include "base/status.hpp"
#include "problem/checks.hpp"
#include "problem/shape.hpp"
#include "problem/traits.hpp"
#include "problem/types.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <polyconv/sdk/half.hpp>
#include <utility>

namespace polyconv {
namespace {

// What PAD_CONSTANT really reads: the value as the input type holds it, so that every kernel reads the same.
double rounded_to(int32_t type, double value) {
  switch (type) {
    case POLYCONV_F32: return static_cast<double>(static_cast<float>(value));
    case POLYCONV_F16: return static_cast<double>(sdk::to_float(sdk::to_f16(value)));
    case POLYCONV_BF16: return static_cast<double>(sdk::to_float(sdk::to_bf16(value)));
    default: return value;
  }
}

// Padding as kernels need to know it. A mode that changes nothing becomes ZERO, which more kernels take: no
// coordinate outside is ever read, the constant is what ZERO reads anyway, or, in the gradient of the input,
// the constant has no part.
void normalise_padding(const polyconv_problem &p, polyconv_layer *layer) {
  layer->pad_mode = p.pad_mode;
  bool padded = false;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) {
    layer->pad_begin[axis] = spatial(p.pad_begin, p.spatial_dims, axis, 0);
    layer->pad_end[axis] = spatial(p.pad_end, p.spatial_dims, axis, 0);
    padded = padded || layer->pad_begin[axis] > 0 || layer->pad_end[axis] > 0;
  }
  const double value = rounded_to(p.input_type, p.pad_value);
  const bool constant = p.pad_mode == POLYCONV_PAD_CONSTANT;
  const bool as_zero =
      constant && (value == static_cast<double>(p.input_zero_point) || layer->direction == POLYCONV_BACKWARD_DATA);
  if (!padded || as_zero) layer->pad_mode = POLYCONV_PAD_ZERO;
  layer->pad_value = layer->pad_mode == POLYCONV_PAD_CONSTANT ? value : 0;
}

// Kernels are given the pointer of the element 0, whatever lies before it.
void point_at_first(polyconv_tensor *tensor) {
  tensor->offset = 0;
}

// The stride of an axis of one element has no meaning, and may be anything: cut to where the tensor ends, where dense
// strides lie too, so that kernels may compute with it.
void cut_strides(polyconv_tensor *tensor) {
  int64_t end = 1;
  reach_of(*tensor, &end);
  for (int axis = 0; axis < kAxes; ++axis)
    if (tensor->size[axis] <= 1) tensor->stride[axis] = std::clamp(tensor->stride[axis], -end, end);
}

// True convolution is correlation with the kernel walked backwards: from its last tap, by negative strides.
void flip(polyconv_tensor *weights) {
  for (int axis = 2; axis < kAxes; ++axis) {
    if (weights->size[axis] == 1) continue; // nothing to walk
    weights->offset += (weights->size[axis] - 1) * weights->stride[axis];
    weights->stride[axis] = -weights->stride[axis];
  }
}

// Sizes that are rounded up become padding at the end, as much as the last window wants: less than it reaches, as it
// begins inside. Only an average that counts padding needs to know how much of that does not count.
void normalise_pool(const polyconv_problem &p, polyconv_layer *layer) {
  const polyconv_pool &pool = p.epilogue.pool;
  const int32_t dims = p.spatial_dims;
  polyconv_pool &result = layer->epilogue.pool;
  result = {};
  result.kind = pool.kind;
  result.count_include_pad = pool.count_include_pad;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) {
    result.window[axis] = spatial(pool.window, dims, axis, 1);
    result.stride[axis] = spatial(pool.stride, dims, axis, 1);
    result.pad_begin[axis] = spatial(pool.pad_begin, dims, axis, 0);
    result.pad_end[axis] = spatial(pool.pad_end, dims, axis, 0);
    layer->pool_dilation[axis] = result.window[axis] > 1 ? spatial(p.pool_dilation, dims, axis, 1) : 1;
    layer->pool_overhang[axis] = 0;
    const int entry = axis - (POLYCONV_MAX_SPATIAL - dims);
    int64_t size = 1, pooled = 1;
    if (pool.kind == POLYCONV_POOL_NONE || entry < 0) continue;
    convolved_size(p, entry, &size);
    pooled_size(p, size, entry, &pooled);
    if (pooled == 1) result.stride[axis] = 1; // never taken
    if (p.pool_ceil == 0) continue;
    const int64_t reach = (result.window[axis] - 1) * layer->pool_dilation[axis] + 1;
    const int64_t wanted = (pooled - 1) * result.stride[axis] + reach - result.pad_begin[axis] - size;
    if (wanted <= result.pad_end[axis]) continue;
    const bool counts = pool.kind == POLYCONV_POOL_AVERAGE && pool.count_include_pad != 0;
    layer->pool_overhang[axis] = counts ? wanted - result.pad_end[axis] : 0;
    result.pad_end[axis] = wanted;
  }
}

// The adjoint of a transposed problem: forward and backward data change places, the weight gradient stays.
int32_t normalised_direction(const polyconv_problem &p) {
  if (p.transposed == 0 || p.direction == POLYCONV_BACKWARD_WEIGHTS) return p.direction;
  return p.direction == POLYCONV_FORWARD ? POLYCONV_BACKWARD_DATA : POLYCONV_FORWARD;
}

void normalise_tensors(const polyconv_problem &p, Layer *result) {
  polyconv_layer &layer = result->layer;
  polyconv_tensor input, output, convolved;
  input_tensor(p, &input);
  weights_tensor(p, &layer.weights);
  output_tensor(p, &output);
  convolved_tensor(p, &convolved);
  if (p.flip != 0) flip(&layer.weights);
  for (polyconv_tensor *tensor : {&input, &output, &convolved}) point_at_first(tensor);
  layer.input = result->swapped ? convolved : input;
  layer.output = result->swapped ? input : convolved;
  layer.result = p.direction == POLYCONV_FORWARD         ? output
                 : p.direction == POLYCONV_BACKWARD_DATA ? input
                                                         : layer.weights;
}

// `problems` are those of the whole chain, to which residuals refer.
void normalise_epilogue(const std::vector<polyconv_problem> &problems, const polyconv_problem &p, Layer *result) {
  polyconv_layer &layer = result->layer;
  layer.epilogue = p.epilogue;
  normalise_pool(p, &layer);
  const int32_t from = p.epilogue.residual_from;
  if (from == POLYCONV_RESIDUAL_BUFFER) convolved_tensor(p, &layer.residual);
  if (from == POLYCONV_RESIDUAL_INPUT) input_tensor(problems[0], &layer.residual);
  if (from == POLYCONV_RESIDUAL_INPUT) point_at_first(&layer.residual);
  if (from >= POLYCONV_RESIDUAL_LAYER)
    output_tensor(problems[static_cast<size_t>(from - POLYCONV_RESIDUAL_LAYER)], &layer.residual);
  // A lone layer's input reaches the kernel as any other residual: the plan passes the pointer.
  if (from == POLYCONV_RESIDUAL_INPUT && problems.size() == 1) layer.epilogue.residual_from = POLYCONV_RESIDUAL_BUFFER;
}

// Whether the gradient of the sums is another than that of what the layer stored, or more is wanted from it.
bool has_gradient_step(const polyconv_problem &p) {
  const polyconv_epilogue &e = p.epilogue;
  return e.activation != POLYCONV_ACT_NONE || has_pooling(p) || e.has_scale != 0 ||
         e.residual_from != POLYCONV_RESIDUAL_NONE;
}

// Takes all but a bias off a gradient's layer: that becomes the step before it, and the bias too where sums are scaled.
void split_gradient(const polyconv_problem &p, int32_t save, Layer *result) {
  polyconv_layer &layer = result->layer, &step = result->gradient;
  result->has_gradient = true;
  step.struct_size = sizeof step;
  step.direction = POLYCONV_FORWARD;
  step.groups = 1;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) step.stride[axis] = step.dilation[axis] = 1;
  output_tensor(p, &step.input);
  point_at_first(&step.input);
  saved_tensor(p, POLYCONV_SAVE_PRE_ACTIVATION, &step.result); // dense, as before pooling
  step.result.type = p.output_type;
  step.output = step.result;
  step.bias_type = layer.bias_type;
  step.sum_type = layer.sum_type;
  step.save = save;
  if (save != POLYCONV_SAVE_NONE) saved_tensor(p, save, &step.saved);
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) {
    step.pool_dilation[axis] = std::exchange(layer.pool_dilation[axis], 1);
    step.pool_overhang[axis] = std::exchange(layer.pool_overhang[axis], 0);
  }
  step.epilogue = layer.epilogue;
  step.residual = layer.residual;
  if (step.epilogue.has_scale == 0) step.epilogue.has_bias = 0;
  polyconv_epilogue rest = {};
  rest.has_bias = layer.epilogue.has_bias != 0 && step.epilogue.has_bias == 0;
  rest.residual_scale = rest.out_scale = 1;
  layer.epilogue = rest;
  layer.residual = {};
  (reads_gradient_as_input(layer) ? layer.input : layer.output) = step.result;
}

// Negative padding of an input that is read is a smaller input: a view, whose begin is told apart from its strides, so
// that no kernel needs to know. Where the input is written, what is cropped off is written too (0 for gradients), and
// where the bias gradient sums it, it is summed: these layers keep their negative padding, as a trait.
void crop_input(Layer *result) {
  polyconv_layer &layer = result->layer;
  if (layer.direction == POLYCONV_BACKWARD_DATA) return;
  if (layer.bias_over_input != 0 && layer.epilogue.has_bias != 0) return;
  int64_t elements = 0;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) {
    const int64_t before = std::max<int64_t>(-layer.pad_begin[axis], 0);
    const int64_t behind = std::max<int64_t>(-layer.pad_end[axis], 0);
    result->views_input = result->views_input || before + behind > 0;
    elements += before * layer.input.stride[2 + axis];
    layer.input.size[2 + axis] -= before + behind;
    layer.pad_begin[axis] = std::max<int64_t>(layer.pad_begin[axis], 0);
    layer.pad_end[axis] = std::max<int64_t>(layer.pad_end[axis], 0);
  }
  result->view_offset = elements * static_cast<int64_t>(polyconv_type_size(layer.input.type));
}

Layer normalise_layer(const std::vector<polyconv_problem> &problems, const polyconv_problem &p, int32_t save) {
  Layer result = {};
  result.problem = p;
  result.swapped = p.transposed != 0;
  polyconv_layer &layer = result.layer;
  layer.struct_size = sizeof layer;
  layer.direction = normalised_direction(p);
  layer.groups = p.groups;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) {
    const int entry = axis - (POLYCONV_MAX_SPATIAL - p.spatial_dims);
    layer.stride[axis] = entry < 0 ? 1 : walked_stride(p, entry);
    layer.dilation[axis] = entry < 0 ? 1 : walked_dilation(p, entry);
  }
  normalise_padding(p, &layer);
  normalise_tensors(p, &result);
  normalise_epilogue(problems, p, &result);
  TypeRow row = {};
  row_of(p, &row);
  layer.bias_type = row.bias_type;
  layer.sum_type = row.sum_type;
  layer.input_zero_point = p.input_zero_point; // quantised rows are forward: the tensor read is the caller's input
  layer.weights_zero_point = p.weights_zero_point;
  if (p.has_weights_zero_points != 0) layer.traits = POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS;
  layer.separable = p.separable;
  layer.bias_over_input = p.direction == POLYCONV_BACKWARD_WEIGHTS && result.swapped;
  if (p.direction != POLYCONV_FORWARD) {
    if (has_gradient_step(p)) split_gradient(p, save, &result);
    return result;
  }
  if (save == POLYCONV_SAVE_PRE_ACTIVATION || p.epilogue.pool.kind == POLYCONV_POOL_MAX) layer.save = save;
  if (layer.save != POLYCONV_SAVE_NONE) saved_tensor(p, layer.save, &layer.saved);
  return result;
}

// What a gradient needs of the forward run.
void check_read_save(const polyconv_problem &p, int32_t save) {
  const bool activates = p.epilogue.activation != POLYCONV_ACT_NONE;
  if (!reads_saved(p) && save != POLYCONV_SAVE_NONE)
    throw failure(POLYCONV_INVALID_ARGUMENT,
                  "options.save is %" PRId32 "; expected 0, as direction is %" PRId32
                  " without an activation or max pooling",
                  save, p.direction);
  if (activates && save != POLYCONV_SAVE_PRE_ACTIVATION)
    throw failure(POLYCONV_INVALID_ARGUMENT,
                  "options.save is %" PRId32 "; expected 2 (pre-activation), as direction is %" PRId32
                  " and epilogue.activation is %" PRId32,
                  save, p.direction, p.epilogue.activation);
  if (reads_saved(p) && save == POLYCONV_SAVE_NONE)
    throw failure(POLYCONV_INVALID_ARGUMENT,
                  "options.save is 0; expected 1 (argmax) or 2 (pre-activation), as direction is %" PRId32
                  " and epilogue.pool.kind is %" PRId32,
                  p.direction, p.epilogue.pool.kind);
}

// An argmax is an s32 index inside its window.
void check_argmax(const polyconv_problem &p, int32_t layer) {
  if (p.epilogue.pool.kind != POLYCONV_POOL_MAX) return;
  Checked window(1);
  for (int entry = 0; entry < p.spatial_dims; ++entry) window.multiply(p.epilogue.pool.window[entry]);
  int64_t places = 0;
  if (!window.get(&places)) places = INT64_MAX;
  if (places > INT32_MAX)
    reject(layer,
           "epilogue.pool.window has %" PRId64 " places; expected at most %" PRId32
           " where the places of maxima are saved or looked for",
           places, INT32_MAX);
}

void check_save(const std::vector<polyconv_problem> &problems, int32_t save) {
  if (save < POLYCONV_SAVE_NONE || save > POLYCONV_SAVE_PRE_ACTIVATION)
    throw failure(POLYCONV_INVALID_ARGUMENT, "options.save is %" PRId32 "; expected 0..2", save);
  const bool finds_maxima = save == POLYCONV_SAVE_ARGMAX || problems[0].direction != POLYCONV_FORWARD;
  for (size_t layer = 0; finds_maxima && layer < problems.size(); ++layer)
    check_argmax(problems[layer], static_cast<int32_t>(layer));
  if (problems[0].direction != POLYCONV_FORWARD) return check_read_save(problems[0], save);
  if (save == POLYCONV_SAVE_NONE) return;
  const auto has_maximum = [](const polyconv_problem &p) { return p.epilogue.pool.kind == POLYCONV_POOL_MAX; };
  if (save == POLYCONV_SAVE_ARGMAX && std::none_of(problems.begin(), problems.end(), has_maximum))
    throw failure(POLYCONV_INVALID_ARGUMENT, "options.save is %" PRId32 " (argmax); expected a layer with max pooling",
                  save);
}

} // namespace

void reject(int32_t layer, const char *format, ...) {
  char sentence[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  throw failure(POLYCONV_INVALID_ARGUMENT, "layer %" PRId32 ": %s", layer, sentence);
}

polyconv_problem default_problem() {
  polyconv_problem p = {};
  p.struct_size = sizeof p;
  p.spatial_dims = 2;
  p.batch = p.in_channels = p.out_channels = p.groups = 1;
  for (int entry = 0; entry < POLYCONV_MAX_SPATIAL; ++entry)
    p.kernel_size[entry] = p.stride[entry] = p.dilation[entry] = p.pool_dilation[entry] = 1;
  p.input_type = p.weights_type = p.output_type = POLYCONV_F32;
  p.epilogue.residual_scale = 1;
  p.epilogue.out_scale = 1;
  return p;
}

void forget_ignored(polyconv_problem *problem) {
  const polyconv_problem defaults = default_problem();
  polyconv_problem &p = *problem;
  polyconv_epilogue &e = p.epilogue;
  if (p.pad_mode != POLYCONV_PAD_CONSTANT) p.pad_value = 0; // it may be -0
  e.activation_beta = 0;                                    // likewise
  if (e.pool.kind == POLYCONV_POOL_NONE) {
    e.pool = defaults.epilogue.pool;
    p.pool_ceil = 0;
  }
  if (e.pool.kind == POLYCONV_POOL_MAX) e.pool.count_include_pad = 0;
  if (e.residual_from == POLYCONV_RESIDUAL_NONE) {
    e.residual_scale = defaults.epilogue.residual_scale;
    e.residual_zero_point = defaults.epilogue.residual_zero_point;
  }
  if (!takes_alpha(e.activation)) e.activation_alpha = 0;
  for (int entry = p.spatial_dims; entry < POLYCONV_MAX_SPATIAL; ++entry) {
    p.input_size[entry] = defaults.input_size[entry];
    p.kernel_size[entry] = defaults.kernel_size[entry];
    p.stride[entry] = defaults.stride[entry];
    p.dilation[entry] = defaults.dilation[entry];
    p.pad_begin[entry] = p.pad_end[entry] = p.output_padding[entry] = 0;
    p.pool_dilation[entry] = 1;
    e.pool.window[entry] = e.pool.stride[entry] = 0;
    e.pool.pad_begin[entry] = e.pool.pad_end[entry] = 0;
  }
  for (int64_t &dilation : p.pool_dilation)
    if (e.pool.kind == POLYCONV_POOL_NONE) dilation = 1;
  for (int entry = 0; entry < kAxes; ++entry) {
    const bool absent = entry >= 2 + p.spatial_dims;
    if (absent || p.has_input_strides == 0) p.input_strides[entry] = 0;
    if (absent || p.has_weights_strides == 0) p.weights_strides[entry] = 0;
    if (absent || p.has_output_strides == 0) p.output_strides[entry] = 0;
  }
}

void check_layer(const polyconv_problem &problem, int32_t layer) {
  check_fields(problem, layer);
  check_types(problem, layer);
  check_epilogue(problem, layer);
  check_memory(problem, layer);
}

std::vector<polyconv_problem> copy_problems(const polyconv_problem *problems, int32_t count) {
  if (problems == nullptr) throw failure(POLYCONV_INVALID_ARGUMENT, "problems is NULL; expected 1 to 8 problems");
  if (count < 1 || count > POLYCONV_MAX_CHAIN)
    throw failure(POLYCONV_INVALID_ARGUMENT, "count is %" PRId32 "; expected 1..%d", count, POLYCONV_MAX_CHAIN);
  const polyconv_problem defaults = default_problem();
  std::vector<polyconv_problem> copies(static_cast<size_t>(count), defaults);
  const size_t step = problems[0].struct_size; // the caller's array is one of the caller's structs
  for (int32_t layer = 0; layer < count; ++layer) {
    const char *bytes = reinterpret_cast<const char *>(problems) + static_cast<size_t>(layer) * step;
    const polyconv_problem *element = reinterpret_cast<const polyconv_problem *>(bytes);
    if (step % alignof(polyconv_problem) != 0 || element->struct_size != step)
      reject(layer, "struct_size is %zu; expected %zu, as polyconv_problem_init sets it", element->struct_size,
             step % alignof(polyconv_problem) != 0 ? sizeof defaults : step);
    read_sized(&copies[static_cast<size_t>(layer)], element, kOldestProblem, "problem");
  }
  return copies;
}

void validate(const std::vector<polyconv_problem> &problems) {
  for (size_t layer = 0; layer < problems.size(); ++layer) check_layer(problems[layer], static_cast<int32_t>(layer));
  check_links(problems);
}

std::vector<Layer> normalise(const std::vector<polyconv_problem> &problems, int32_t save) {
  validate(problems);
  check_save(problems, save);
  std::vector<polyconv_problem> clean = problems;
  for (polyconv_problem &problem : clean) forget_ignored(&problem);
  std::vector<Layer> layers;
  layers.reserve(clean.size());
  for (const polyconv_problem &problem : clean) {
    layers.push_back(normalise_layer(clean, problem, save));
    crop_input(&layers.back());
    for (polyconv_layer *layer : {&layers.back().layer, &layers.back().gradient})
      for (polyconv_tensor *tensor :
           {&layer->input, &layer->weights, &layer->output, &layer->result, &layer->residual, &layer->saved})
        cut_strides(tensor);
    set_traits(POLYCONV_OP_CONVOLVE, &layers.back().layer);
    if (layers.back().has_gradient) set_traits(POLYCONV_OP_GRADIENT, &layers.back().gradient);
  }
  return layers;
}

} // namespace polyconv
