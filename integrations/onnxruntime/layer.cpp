// layer.cpp - plans by shape, packed weights by format, and the run.
//
// SPDX-License-Identifier: Apache-2.0
#include "layer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>

namespace polyconv_ort {
namespace {

constexpr size_t kMostFormats = 8; // packed copies of one layer's weights; beyond it the oldest way is to pack anew
constexpr size_t kMostReported = 8;

// The run on this thread, whose session lends its threads to `on_session`.
thread_local const OrtKernelContext *running = nullptr;

struct Share {
  void (*task)(void *, int64_t);
  void *context;
};

// polyconv_parallel_for on the session's threads. Outside a run, while weights are packed say, the caller does it all.
void on_session(void *context, int64_t tasks, void (*task)(void *, int64_t), void *task_context) {
  const auto &api = *static_cast<const Api *>(context);
  if (running && tasks > 1) {
    Share share{task, task_context};
    OrtStatus *status = api.KernelContext_ParallelFor(
        running,
        [](void *data, size_t i) {
          auto *shared = static_cast<Share *>(data);
          shared->task(shared->context, static_cast<int64_t>(i));
        },
        static_cast<size_t>(tasks), 0, &share);
    if (!status) return;
    api.ReleaseStatus(status); // refused before it began
  }
  for (int64_t i = 0; i < tasks; ++i) task(task_context, i);
}

struct Running {
  explicit Running(const OrtKernelContext *context) : before(std::exchange(running, context)) {}
  ~Running() { running = before; }
  const OrtKernelContext *before;
};

polyconv::Options options(const Api &api, const Settings &settings) {
  polyconv::Options options;
  options.math = settings.math, options.determinism = settings.determinism, options.threads = settings.threads;
  options.fallback = POLYCONV_FALLBACK_ALLOW; // the report names the kernel
  if (!settings.kernel.empty()) options.kernel = settings.kernel.c_str();
  if (settings.session_pool) {
    options.parallel_for = on_session;
    options.parallel_for_context = const_cast<Api *>(&api);
  }
  return options;
}

int32_t type_of(int type) {
  return type == kFloat ? POLYCONV_F32 : type == kUint8 ? POLYCONV_U8 : type == kInt8 ? POLYCONV_S8 : POLYCONV_S32;
}

int32_t byte_at(const View &view, int64_t i) {
  return view.type == kUint8 ? static_cast<const uint8_t *>(view.data)[i] : static_cast<const int8_t *>(view.data)[i];
}

float float_of(const View &view, const char *what) {
  if (!view.data || view.type != kFloat || view.elements() != 1)
    throw Error(kInvalidArgument, std::string("polyconv: ") + what + " is no single float");
  return *static_cast<const float *>(view.data);
}

int32_t zero_of(const View &view, const char *what) {
  if (!view.data) return 0;
  if ((view.type != kUint8 && view.type != kInt8) || view.elements() != 1)
    throw Error(kInvalidArgument, std::string("polyconv: ") + what + " is no single int8 or uint8");
  return byte_at(view, 0);
}

// A float in a key, exactly.
std::string bits(float value) {
  return std::string(reinterpret_cast<const char *>(&value), sizeof value);
}

} // namespace

std::unique_ptr<polyconv::Memory> Workspaces::take(size_t bytes) {
  std::unique_ptr<polyconv::Memory> memory;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) memory = std::move(free_.back()), free_.pop_back();
  }
  if (!memory || memory->bytes() < bytes) {
    memory.reset(); // before the larger one, so that both are never there
    memory = std::make_unique<polyconv::Memory>(polyconv::Device(), bytes);
  }
  return memory;
}

void Workspaces::give(std::unique_ptr<polyconv::Memory> memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(memory));
}

struct Layer::Ready {
  Ready(const polyconv::Problem &planned, const polyconv::Options &asked)
      : problem(planned), plan(planned, asked), info(plan.info()) {}
  polyconv::Problem problem;
  polyconv::Plan plan;
  polyconv_plan_info info;
  std::vector<int64_t> output;
  std::shared_ptr<polyconv::Weights> weights; // NULL: raw, or packed in each run because they change
  bool pack_each_run = false;
};

struct Layer::Numbers {
  int32_t input_zero = 0, output_zero = 0;
  float output_scale = 1;
  std::vector<char> weights_zeros; // one a channel, as bytes of the weights' type; one alone where all are the same
  std::vector<float> scales;       // input_scale * weights_scale, one a channel
  bool zeros_differ = false;
  int32_t weights_zero = 0;
};

Layer::Layer(const Api &api, const Recipe &recipe, const Inputs &inputs, std::string name, const Settings &settings,
             std::shared_ptr<Workspaces> workspaces)
    : api_(api), settings_(settings), workspaces_(std::move(workspaces)), recipe_(recipe) {
  recipe_.nodes.clear();
  auto operand = [&](Value Recipe::*value) { return Operand(api, recipe.*value, inputs); };
  input_ = operand(&Recipe::input), weights_ = operand(&Recipe::weights), bias_ = operand(&Recipe::bias);
  residual_ = operand(&Recipe::residual);
  input_scale_ = operand(&Recipe::input_scale), input_zero_ = operand(&Recipe::input_zero);
  weights_scale_ = operand(&Recipe::weights_scale), weights_zero_ = operand(&Recipe::weights_zero);
  output_scale_ = operand(&Recipe::output_scale), output_zero_ = operand(&Recipe::output_zero);
  gamma_ = operand(&Recipe::gamma), beta_ = operand(&Recipe::beta);
  mean_ = operand(&Recipe::mean), variance_ = operand(&Recipe::variance);
  output_type_ = recipe.kind == Kind::kFloats ? kFloat
                 : recipe.kind == Kind::kSums ? kInt32
                                              : recipe.output.shape().type;
  report_.name = std::move(name), report_.text = recipe.text;
  for (const Recipe::Step &step : recipe.steps) steps_.emplace_back(api, step.constant, inputs);
  if (gamma_.exists() || !steps_.empty()) fold();
  prepare(recipe.input.shape().sizes);
}

// Plans and packs for the input that the model tells, of one image where the batch is open, so that the first run need
// not. What fails here fails again in the run, and is told there.
void Layer::prepare(std::vector<int64_t> sizes) {
  if (recipe_.kind != Kind::kFloats || !weights_.constant() || sizes.size() < 3) return;
  if (sizes[0] < 0) sizes[0] = 1;
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) return;
  View input, weights = weights_.view(api_, nullptr);
  input.type = kFloat, input.sizes = std::move(sizes);
  if (!folded_weights_.empty()) weights.data = folded_weights_.data();
  try {
    ready(input, weights, Numbers());
  } catch (const std::exception &) { // NOLINT(bugprone-empty-catch): see above
  }
}

void Layer::fold() {
  const View weights = weights_.view(api_, nullptr), bias = bias_.view(api_, nullptr);
  const int64_t in_first = weights.sizes[0], second = weights.sizes[1];
  const int64_t channels = recipe_.transposed ? second * recipe_.groups : in_first;
  auto vector = [&](const Operand &operand) {
    const View view = operand.view(api_, nullptr);
    if (view.elements() != channels)
      throw Error(kInvalidArgument, "polyconv: a BatchNormalization of another number of channels");
    return static_cast<const float *>(view.data);
  };
  const auto *raw = static_cast<const float *>(weights.data);
  folded_weights_.assign(raw, raw + weights.elements());
  folded_bias_.assign(static_cast<size_t>(channels), 0.0f);
  if (bias.data && bias.elements() == channels)
    std::memcpy(folded_bias_.data(), bias.data, folded_bias_.size() * sizeof(float));
  std::vector<float> scales(static_cast<size_t>(channels), 1.0f);
  if (gamma_.exists()) {
    const float *gamma = vector(gamma_), *beta = vector(beta_), *mean = vector(mean_), *variance = vector(variance_);
    for (int64_t k = 0; k < channels; ++k) {
      scales[k] = gamma[k] / std::sqrt(variance[k] + recipe_.epsilon);
      folded_bias_[k] = (folded_bias_[k] - mean[k]) * scales[k] + beta[k];
    }
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    const View view = steps_[i].view(api_, nullptr);
    for (int64_t k = 0; k < channels; ++k) {
      const float value = static_cast<const float *>(view.data)[view.elements() == 1 ? 0 : k];
      if (recipe_.steps[i].product)
        scales[k] *= value, folded_bias_[k] *= value;
      else
        folded_bias_[k] += value;
    }
  }
  const int64_t taps = weights.elements() / std::max<int64_t>(1, in_first * second);
  for (int64_t a = 0; a < in_first; ++a)
    for (int64_t b = 0; b < second; ++b) {
      const int64_t k = recipe_.transposed ? a / (in_first / recipe_.groups) * second + b : a;
      for (int64_t t = 0; t < taps; ++t) folded_weights_[(a * second + b) * taps + t] *= scales[k];
    }
}

Layer::Numbers Layer::numbers(const OrtKernelContext *context) const {
  Numbers numbers;
  if (recipe_.kind == Kind::kFloats) return numbers;
  numbers.input_zero = zero_of(input_zero_.view(api_, context), "the input's zero point");
  const View zeros = weights_zero_.view(api_, context);
  const View weights = weights_.view(api_, context);
  const int64_t channels = weights.sizes.empty() ? 0 : weights.sizes[0];
  for (int64_t k = 0; zeros.data && k < zeros.elements(); ++k) {
    numbers.weights_zeros.push_back(static_cast<const char *>(zeros.data)[k]);
    numbers.zeros_differ |= numbers.weights_zeros[k] != numbers.weights_zeros[0];
  }
  if (numbers.zeros_differ && zeros.elements() != channels)
    throw Error(kInvalidArgument, "polyconv: the weights' zero points are " + std::to_string(zeros.elements()) +
                                      ", expected one or " + std::to_string(channels));
  if (zeros.data && !numbers.zeros_differ && zeros.elements() > 0) numbers.weights_zero = byte_at(zeros, 0);
  if (recipe_.kind == Kind::kSums) return numbers;
  const float input_scale = float_of(input_scale_.view(api_, context), "the input's scale");
  numbers.output_scale = float_of(output_scale_.view(api_, context), "the output's scale");
  numbers.output_zero = zero_of(output_zero_.view(api_, context), "the output's zero point");
  const View scales = weights_scale_.view(api_, context);
  if (!scales.data || scales.type != kFloat || (scales.elements() != 1 && scales.elements() != channels))
    throw Error(kInvalidArgument, "polyconv: the weights' scales are not one float or one a channel");
  for (int64_t k = 0; k < channels; ++k)
    numbers.scales.push_back(input_scale * static_cast<const float *>(scales.data)[scales.elements() == 1 ? 0 : k]);
  return numbers;
}

polyconv::Problem Layer::problem(const View &input, const View &weights, const Numbers &numbers) const {
  polyconv::Problem problem = polyconv_onnx::convolution(recipe_, input.sizes, weights.sizes);
  problem.input_type = type_of(input.type), problem.weights_type = type_of(weights.type),
  problem.output_type = type_of(output_type_);
  polyconv_epilogue &epilogue = problem.epilogue;
  epilogue.has_bias = bias_.exists() || !folded_bias_.empty();
  if (recipe_.kind == Kind::kFloats) {
    if (residual_.exists()) epilogue.residual_from = POLYCONV_RESIDUAL_BUFFER;
    epilogue.activation = recipe_.activation, epilogue.activation_alpha = recipe_.alpha;
    polyconv_onnx::add_pool(recipe_.pool, problem);
    return problem;
  }
  problem.input_zero_point = numbers.input_zero;
  problem.has_weights_zero_points = numbers.zeros_differ;
  problem.weights_zero_point = numbers.zeros_differ ? 0 : numbers.weights_zero;
  if (recipe_.kind == Kind::kQuantised) {
    epilogue.has_scale = 1;
    epilogue.out_scale = numbers.output_scale, epilogue.out_zero_point = numbers.output_zero;
  }
  return problem;
}

std::shared_ptr<polyconv::Weights> Layer::packed(const polyconv::Plan &plan, const polyconv::Problem &problem,
                                                 const View &weights) {
  // Packed weights serve every plan of the same format and weight problem; what shapes change of it is which axes have
  // one output.
  std::string key = plan.weights_format() + "/" + std::to_string(problem.input_zero_point);
  const std::vector<int64_t> output = polyconv_onnx::output_sizes(problem);
  for (int32_t i = 0; i < problem.spatial_dims; ++i)
    key += problem.input_size[i] == 1 || output[i + 2] == 1 ? "1" : "n";
  std::shared_ptr<polyconv::Weights> &entry = packed_[key];
  if (!entry) entry = std::make_shared<polyconv::Weights>(plan, 0, weights.data);
  std::shared_ptr<polyconv::Weights> result = entry;
  if (packed_.size() > kMostFormats) packed_.clear();
  return result;
}

std::shared_ptr<Layer::Ready> Layer::ready(const View &input, const View &weights, const Numbers &numbers) {
  std::string key;
  for (const auto *sizes : {&input.sizes, &weights.sizes})
    for (int64_t size : *sizes) key += std::to_string(size) + ",";
  if (recipe_.kind != Kind::kFloats)
    key += std::to_string(numbers.input_zero) + "," + std::to_string(numbers.weights_zero) + "," +
           std::to_string(numbers.zeros_differ) + "," + std::to_string(numbers.output_zero) + "," +
           bits(numbers.output_scale);
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = plans_.begin(); entry != plans_.end(); ++entry)
    if (entry->first == key) {
      plans_.splice(plans_.begin(), plans_, entry);
      return entry->second;
    }
  const polyconv::Problem planned = problem(input, weights, numbers);
  auto made = std::make_shared<Ready>(planned, options(api_, settings_));
  made->output = polyconv_onnx::output_sizes(planned);
  const bool raw = made->plan.weights_format() == "raw";
  // Zero points belong to what is packed: weights stay packed only where both are constant.
  const bool fixed = weights_.constant() && (!weights_zero_.exists() || weights_zero_.constant());
  if (!raw && fixed) made->weights = packed(made->plan, planned, weights);
  made->pack_each_run = !raw && !fixed;
  plans_.emplace_front(key, made);
  if (static_cast<int64_t>(plans_.size()) > settings_.plans) plans_.pop_back();
  ++report_.plans;
  if (report_.kernels.size() < kMostReported) report_.kernels[planned.token()] = made->info.kernel;
  return made;
}

void Layer::run(OrtKernelContext *context) {
  const Running scope(settings_.session_pool ? context : nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const View input = input_.view(api_, context);
  View weights = weights_.view(api_, context);
  if (!folded_weights_.empty()) weights.data = folded_weights_.data();
  const Numbers now = numbers(context);
  const std::shared_ptr<Ready> prepared = ready(input, weights, now);
  compute(context, input, weights, now, *prepared);
  std::lock_guard<std::mutex> lock(mutex_);
  ++report_.runs;
  if (settings_.profile)
    report_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Layer::compute(OrtKernelContext *context, const View &input, const View &weights, const Numbers &numbers,
                    Ready &ready) {
  OrtValue *output = nullptr;
  require(api_, api_.KernelContext_GetOutput(context, 0, ready.output.data(), ready.output.size(), &output));
  polyconv::Buffers buffers;
  require(api_, api_.GetTensorMutableData(output, &buffers.output));
  buffers.input = const_cast<void *>(input.data);
  buffers.weights[0] = const_cast<void *>(weights.data);
  const View bias = bias_.view(api_, context), residual = residual_.view(api_, context);
  if (bias.data && bias.elements() != ready.problem.out_channels)
    throw Error(kInvalidArgument, "polyconv: the bias has " + std::to_string(bias.elements()) + " elements, expected " +
                                      std::to_string(ready.problem.out_channels));
  buffers.bias[0] = folded_bias_.empty() ? const_cast<void *>(bias.data) : folded_bias_.data();
  if (residual.data) {
    int64_t bytes = ready.problem.bytes(POLYCONV_TENSOR_RESIDUAL);
    if (residual.elements() * static_cast<int64_t>(sizeof(float)) != bytes)
      throw Error(kInvalidArgument, "polyconv: the tensor that is added has " + std::to_string(residual.elements()) +
                                        " elements, but the model says that it has the convolution's shape");
    buffers.residual[0] = residual.data;
  }
  if (!numbers.scales.empty()) buffers.scale[0] = numbers.scales.data();
  if (numbers.zeros_differ) buffers.weights_zero_point[0] = numbers.weights_zeros.data();
  std::unique_ptr<polyconv::Weights> each;
  if (ready.pack_each_run) each = std::make_unique<polyconv::Weights>(ready.plan, 0, weights.data);
  if (each)
    buffers.packed[0] = each->get();
  else if (ready.weights)
    buffers.packed[0] = ready.weights->get();
  std::unique_ptr<polyconv::Memory> workspace;
  if (ready.info.workspace_bytes > 0) {
    workspace = workspaces_->take(static_cast<size_t>(ready.info.workspace_bytes));
    buffers.workspace = workspace->get(), buffers.workspace_size = workspace->bytes();
  }
  const polyconv_status status = polyconv_run(ready.plan.get(), &buffers, nullptr);
  if (workspace) workspaces_->give(std::move(workspace));
  polyconv::require(status);
}

LayerReport Layer::report() {
  std::lock_guard<std::mutex> lock(mutex_);
  return report_;
}

} // namespace polyconv_ort
