// problem_fuzz.cpp - problems as raw structs, alone or as a chain, under any options: each is refused with a sentence
// or described, explained and planned by every kernel; small ones run. Half of the inputs fill the struct as it lies in
// memory, half choose fields one by one, which gets further.
// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"
#include "checks.hpp"

#include <vector>

namespace {

using polyconv_fuzz::Bytes;
using polyconv_fuzz::require;

// The struct as bytes, behind its size.
polyconv_problem raw_problem(Bytes &bytes) {
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  const size_t size = problem.struct_size;
  bytes.take_into(&problem, sizeof problem);
  problem.struct_size = bytes.below(16) == 0 ? static_cast<size_t>(bytes.size_value()) : size;
  return problem;
}

void draw_pool(Bytes &bytes, polyconv_pool &pool) {
  pool.kind = bytes.below(4);
  pool.count_include_pad = bytes.below(3);
  for (int i = 0; i < POLYCONV_MAX_SPATIAL; ++i) {
    pool.window[i] = bytes.size_value();
    pool.stride[i] = bytes.size_value();
    pool.pad_begin[i] = bytes.yes() ? bytes.size_value() : 0;
    pool.pad_end[i] = bytes.yes() ? bytes.size_value() : 0;
  }
}

void draw_epilogue(Bytes &bytes, polyconv_epilogue &epilogue) {
  epilogue.has_scale = bytes.below(3) == 1;
  epilogue.has_bias = bytes.yes();
  if (bytes.below(4) == 0) epilogue.residual_from = bytes.below(20);
  epilogue.activation = bytes.below(16);
  if (bytes.yes()) epilogue.activation_alpha = bytes.take<float>();
  if (bytes.below(8) == 0) epilogue.residual_scale = bytes.take<float>();
  if (bytes.below(8) == 0) epilogue.out_scale = bytes.take<float>();
  if (bytes.below(4) == 0) epilogue.out_zero_point = bytes.take<int8_t>();
  if (bytes.below(4) == 0) draw_pool(bytes, epilogue.pool);
}

void draw_types(Bytes &bytes, polyconv_problem &problem) {
  static const int32_t kRows[][3] = {{2, 2, 2}, {3, 3, 3}, {4, 4, 2}, {1, 1, 1},
                                     {6, 6, 5}, {7, 6, 7}, {7, 2, 7}, {8, 2, 2}};
  const auto &row = kRows[bytes.below(8)];
  problem.input_type = row[0];
  problem.weights_type = row[1];
  problem.output_type = bytes.below(8) == 0 ? bytes.below(12) : row[2];
  problem.input_layout = bytes.yes();
  problem.weights_layout = bytes.yes();
  problem.output_layout = bytes.yes();
}

void draw_strides(Bytes &bytes, int32_t &has, int64_t (&strides)[2 + POLYCONV_MAX_SPATIAL]) {
  has = bytes.below(8) == 0;
  if (has == 0) return;
  for (int64_t &stride : strides) stride = bytes.size_value();
}

// A size, every other time a multiple of `groups`, which may wrap.
int64_t some_times(Bytes &bytes, int64_t groups) {
  const uint64_t size = static_cast<uint64_t>(bytes.size_value());
  return static_cast<int64_t>(bytes.yes() ? size * static_cast<uint64_t>(groups) : size);
}

polyconv_problem shaped_problem(Bytes &bytes) {
  polyconv_problem p;
  polyconv_problem_init(&p);
  p.direction = bytes.below(3);
  p.transposed = bytes.below(4) == 0;
  p.spatial_dims = 1 + bytes.below(3);
  p.flip = bytes.below(4) == 0;
  p.batch = bytes.yes() ? bytes.size_value() : 1;
  p.groups = bytes.below(4) == 0 ? bytes.size_value() : 1;
  p.in_channels = some_times(bytes, p.groups);
  p.out_channels = some_times(bytes, p.groups);
  for (int i = 0; i < p.spatial_dims; ++i) {
    p.input_size[i] = bytes.size_value();
    p.kernel_size[i] = bytes.size_value();
    if (bytes.yes()) p.stride[i] = bytes.size_value();
    if (bytes.below(4) == 0) p.dilation[i] = bytes.size_value();
    if (bytes.yes()) p.pad_begin[i] = bytes.size_value();
    if (bytes.yes()) p.pad_end[i] = bytes.size_value();
    if (bytes.below(8) == 0) p.output_padding[i] = bytes.size_value();
  }
  p.pad_mode = bytes.below(4) == 0 ? bytes.below(7) : 0;
  if (p.pad_mode == POLYCONV_PAD_CONSTANT) p.pad_value = bytes.take<float>();
  draw_types(bytes, p);
  draw_strides(bytes, p.has_input_strides, p.input_strides);
  draw_strides(bytes, p.has_weights_strides, p.weights_strides);
  draw_strides(bytes, p.has_output_strides, p.output_strides);
  if (bytes.yes()) draw_epilogue(bytes, p.epilogue);
  return p;
}

polyconv_options draw_options(Bytes &bytes) {
  static const char *const kKernels[] = {nullptr,  nullptr,    "reference/*",    "openmp/*",
                                         "tbb/d*", "*/*data*", "*@baseline,*/l*"};
  static const char *const kGroupings[] = {nullptr, "none", "2", "1+1", "9999999999"};
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kKernels[bytes.below(7)];
  options.math = bytes.yes() ? bytes.below(5) : 0;
  options.determinism = bytes.yes() ? bytes.below(5) : 1;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.threads = bytes.below(4);
  if (bytes.below(4) == 0) options.workspace_limit = bytes.size_value();
  options.dynamic_weights = bytes.below(4) == 0;
  options.save = bytes.below(4) == 0 ? bytes.below(4) : 0;
  options.bind = bytes.below(4) == 0;
  options.grouping = kGroupings[bytes.below(5)];
  return options;
}

// The bytes of all tensors of a chain, or -1 where that is more than a fuzz target should touch.
int64_t small_bytes(const std::vector<polyconv_problem> &problems) {
  constexpr int64_t kMost = 1 << 16;
  constexpr double kMostFlops = 1e6;
  int64_t sum = 0;
  for (const polyconv_problem &problem : problems) {
    double flops = 0;
    if (polyconv_problem_flops(&problem, &flops) != POLYCONV_SUCCESS || flops > kMostFlops) return -1;
    for (int32_t which = POLYCONV_TENSOR_INPUT; which <= POLYCONV_TENSOR_RESIDUAL_GRADIENT; ++which) {
      int64_t bytes = 0;
      if (polyconv_problem_tensor(&problem, which, nullptr, &bytes) != POLYCONV_SUCCESS) continue;
      if (bytes > kMost) return -1;
      sum += bytes;
    }
  }
  return sum;
}

// Memory of exactly one tensor, so that a sanitizer sees a step beyond it.
class Tensors {
 public:
  void *of(const polyconv_problem &problem, int32_t which) {
    polyconv_tensor tensor;
    int64_t bytes = 0;
    if (polyconv_problem_tensor(&problem, which, &tensor, &bytes) != POLYCONV_SUCCESS) return nullptr;
    all_.emplace_back(static_cast<size_t>(bytes) + 1, '\0'); // one more: an empty tensor has a pointer too
    return all_.back().data() + tensor.offset * static_cast<int64_t>(polyconv_type_size(tensor.type));
  }

 private:
  std::vector<std::vector<char>> all_;
};

void run(const std::vector<polyconv_problem> &problems, const polyconv_options &options) {
  Tensors tensors;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = tensors.of(problems.front(), POLYCONV_TENSOR_INPUT);
  buffers.output = tensors.of(problems.back(), POLYCONV_TENSOR_OUTPUT);
  for (size_t i = 0; i < problems.size(); ++i) {
    buffers.weights[i] = tensors.of(problems[i], POLYCONV_TENSOR_WEIGHTS);
    buffers.bias[i] = tensors.of(problems[i], POLYCONV_TENSOR_BIAS);
    buffers.scale[i] = tensors.of(problems[i], POLYCONV_TENSOR_SCALE);
    buffers.residual[i] = tensors.of(problems[i], POLYCONV_TENSOR_RESIDUAL);
    buffers.slope[i] = tensors.of(problems[i], POLYCONV_TENSOR_SLOPE);
    buffers.weights_zero_point[i] = tensors.of(problems[i], POLYCONV_TENSOR_WEIGHTS_ZERO_POINT);
    buffers.residual_gradient[i] = tensors.of(problems[i], POLYCONV_TENSOR_RESIDUAL_GRADIENT);
    const int32_t saved =
        options.save == POLYCONV_SAVE_ARGMAX ? POLYCONV_TENSOR_ARGMAX : POLYCONV_TENSOR_PRE_ACTIVATION;
    buffers.saved[i] = tensors.of(problems[i], saved);
  }
  polyconv_convolve(nullptr, problems.data(), static_cast<int32_t>(problems.size()), &options, &buffers);
}

void plan_and_explain(const std::vector<polyconv_problem> &problems, const polyconv_options &options) {
  const int32_t count = static_cast<int32_t>(problems.size());
  polyconv_plan *plan = nullptr;
  const polyconv_status status = polyconv_plan_create(nullptr, problems.data(), count, &options, &plan);
  require(status != POLYCONV_INTERNAL, "planning never finds a defect of its own");
  int64_t workspace = 0;
  if (status == POLYCONV_SUCCESS) {
    polyconv_plan_info info = {};
    info.struct_size = sizeof info;
    require(polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS && info.workspace_bytes >= 0,
            "a plan tells of itself");
    workspace = info.workspace_bytes;
    polyconv_plan_destroy(plan);
  }
  polyconv_explanation *explanation = nullptr;
  const polyconv_status explained = polyconv_explain(nullptr, problems.data(), count, &options, &explanation);
  require(explained != POLYCONV_INTERNAL, "explaining never finds a defect of its own");
  polyconv_explanation_destroy(explanation);
  constexpr int64_t kMostWorkspace = 1 << 24;
  if (status == POLYCONV_SUCCESS && workspace <= kMostWorkspace && small_bytes(problems) >= 0) run(problems, options);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Bytes bytes(data, size);
  const int32_t way = bytes.below(8);
  const polyconv_options options = draw_options(bytes);
  std::vector<polyconv_problem> problems;
  const int32_t count = way == 7 ? 2 : 1;
  for (int32_t i = 0; i < count; ++i) problems.push_back(way == 0 ? raw_problem(bytes) : shaped_problem(bytes));
  if (polyconv_problem_validate(problems.data(), count) != POLYCONV_SUCCESS) {
    require(polyconv_last_error()[0] != '\0', "a refused problem gets a sentence");
    return 0;
  }
  for (const polyconv_problem &problem : problems) polyconv_fuzz::check_token(problem);
  plan_and_explain(problems, options);
  return 0;
}
