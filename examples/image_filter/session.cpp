// session.cpp - see session.hpp. Every channel is convolved by itself (groups == channels), 8 bits in; 8 bits out, or
// f32 for a gradient, whose two results are joined afterwards. Works on any device.
// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <polyconv/polyconv.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

namespace {

constexpr const char *kBorders[] = {"zero", "constant", "reflect", "symmetric", "replicate", "circular"};

void check(polyconv_status status) {
  if (status == POLYCONV_SUCCESS) return;
  const ExitCode code = status == POLYCONV_INVALID_ARGUMENT ? kExitUsage
                        : status == POLYCONV_UNAVAILABLE    ? kExitUnavailable
                        : status == POLYCONV_UNSUPPORTED    ? kExitUnsupported
                                                            : kExitFailed;
  throw Failure(code, polyconv_last_error());
}

template <auto function>
struct Destroy {
  template <class T>
  void operator()(T *object) const {
    function(object);
  }
};
using Plan = std::unique_ptr<polyconv_plan, Destroy<polyconv_plan_destroy>>;
using Weights = std::unique_ptr<polyconv_weights, Destroy<polyconv_weights_destroy>>;
using Bound = std::unique_ptr<polyconv_bound, Destroy<polyconv_bound_destroy>>;

// Memory of a device.
class Memory {
 public:
  Memory(const polyconv_device *device, int64_t bytes) : device_(device), bytes_(static_cast<size_t>(bytes)) {
    check(polyconv_device_alloc(device, bytes_, POLYCONV_MEMORY_DEVICE, &pointer_));
  }
  ~Memory() { polyconv_device_free(device_, pointer_, POLYCONV_MEMORY_DEVICE); }
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  void *pointer() const { return pointer_; }
  size_t bytes() const { return bytes_; }
  void upload(const void *host) { check(polyconv_device_copy(device_, pointer_, host, bytes_, nullptr)); }
  void download(void *host) const {
    check(polyconv_device_copy(device_, host, pointer_, bytes_, nullptr));
    check(polyconv_stream_synchronize(device_, nullptr));
  }

 private:
  const polyconv_device *device_;
  size_t bytes_;
  void *pointer_ = nullptr;
};

polyconv_backend_info backend_info(int32_t index) {
  polyconv_backend_info info{};
  info.struct_size = sizeof info;
  check(polyconv_backend_get(index, &info));
  return info;
}

// The device that a backend serves.
const polyconv_device *device_of(const std::string &backend) {
  const polyconv_device *device = nullptr;
  std::string kind = "cpu", known;
  bool found = backend.empty();
  for (int32_t i = 0; !found && i < polyconv_backend_count(); ++i) {
    const polyconv_backend_info info = backend_info(i);
    known.append(known.empty() ? "" : ", ").append(info.name);
    if (info.name != backend) continue;
    if (!info.available) throw Failure(kExitUnavailable, "--backend " + backend + " is not available: " + info.reason);
    kind = info.device_kind;
    found = true;
  }
  if (!found) throw Failure(kExitUnavailable, "--backend is '" + backend + "'; found here are " + known);
  check(polyconv_device_find(kind.c_str(), &device));
  return device;
}

polyconv_problem describe(const Image &image, const Filter &filter, const Settings &settings) {
  const auto border = std::find(std::begin(kBorders), std::end(kBorders), settings.border);
  if (border == std::end(kBorders)) throw Failure(kExitUsage, "--border is '" + settings.border + "', an unknown mode");
  const bool gradient = filter.kernels.size() > 1;
  polyconv_problem p;
  polyconv_problem_init(&p);
  p.in_channels = p.groups = image.channels;
  p.out_channels = image.channels * static_cast<int64_t>(filter.kernels.size());
  p.input_size[0] = image.height, p.input_size[1] = image.width;
  p.kernel_size[0] = filter.rows, p.kernel_size[1] = filter.columns;
  for (int axis = 0; axis < 2; ++axis) { // as large as it came; of an even kernel the middle is the upper left one
    p.pad_begin[axis] = (p.kernel_size[axis] - 1) / 2;
    p.pad_end[axis] = p.kernel_size[axis] - 1 - p.pad_begin[axis];
  }
  p.pad_mode = static_cast<int32_t>(border - std::begin(kBorders));
  p.pad_value = p.pad_mode == POLYCONV_PAD_CONSTANT ? settings.border_value : 0;
  p.separable = filter.separable;
  p.input_type = POLYCONV_U8, p.output_type = gradient ? POLYCONV_F32 : POLYCONV_U8;
  p.input_layout = p.output_layout = POLYCONV_CHANNELS_LAST;
  if (!gradient) { // one kernel for all channels: no step along K
    p.has_weights_strides = 1;
    p.weights_strides[0] = 0, p.weights_strides[1] = filter.rows * filter.columns;
    p.weights_strides[2] = filter.columns, p.weights_strides[3] = 1;
    p.epilogue.out_zero_point = filter.centre;
  }
  return p;
}

// Raw weights in the order that describe gave them.
std::vector<float> raw_weights(const Image &image, const Filter &filter) {
  if (filter.kernels.size() == 1) return filter.kernels[0];
  std::vector<float> weights;
  for (int64_t channel = 0; channel < image.channels; ++channel)
    for (const std::vector<float> &kernel : filter.kernels) weights.insert(weights.end(), kernel.begin(), kernel.end());
  return weights;
}

// The length of each pair of derivatives.
void join_gradient(const std::vector<float> &pairs, Image &image) {
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = static_cast<uint8_t>(std::lround(std::min(255.0f, std::hypot(pairs[2 * i], pairs[2 * i + 1]))));
}

// Milliseconds of a run: the median of up to nine after a first one, or of as many as a second allows.
double median_run(const polyconv_device *device, const polyconv_bound *bound) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < 10; ++i) {
    const Clock::time_point start = Clock::now();
    check(polyconv_run_bound(bound, nullptr));
    check(polyconv_stream_synchronize(device, nullptr));
    const Clock::time_point stop = Clock::now();
    if (i > 0) times.push_back(std::chrono::duration<double, std::milli>(stop - start).count());
    if (!times.empty() && stop - begin > std::chrono::seconds(1)) break;
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

} // namespace

std::vector<std::string> border_names() {
  return {std::begin(kBorders), std::end(kBorders)};
}

std::vector<std::string> available_backends() {
  std::vector<std::string> names;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i)
    if (const polyconv_backend_info info = backend_info(i); info.available) names.emplace_back(info.name);
  return names;
}

Outcome apply(const Image &image, const Filter &filter, const Settings &settings) {
  const polyconv_device *device = device_of(settings.backend);
  const polyconv_problem problem = describe(image, filter, settings);
  const std::vector<float> raw = raw_weights(image, filter);

  polyconv_options options;
  polyconv_options_init(&options);
  const std::string kernels = settings.backend.empty() ? settings.kernel : settings.backend + "/*";
  if (!kernels.empty()) options.kernel = kernels.c_str();
  options.threads = settings.threads;
  options.bind = 1;
  polyconv_plan *made_plan = nullptr;
  check(polyconv_plan_create(device, &problem, 1, &options, &made_plan));
  const Plan plan(made_plan);
  polyconv_plan_info info{};
  info.struct_size = sizeof info;
  check(polyconv_plan_get_info(plan.get(), &info));

  int64_t input_bytes = 0, output_bytes = 0;
  check(polyconv_problem_tensor(&problem, POLYCONV_TENSOR_INPUT, nullptr, &input_bytes));
  check(polyconv_problem_tensor(&problem, POLYCONV_TENSOR_OUTPUT, nullptr, &output_bytes));
  Memory input(device, input_bytes), output(device, output_bytes), workspace(device, info.workspace_bytes);
  Memory weights(device, static_cast<int64_t>(raw.size() * sizeof(float)));
  input.upload(image.pixels.data());
  weights.upload(raw.data());

  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = input.pointer(), buffers.output = output.pointer();
  buffers.weights[0] = weights.pointer();
  buffers.workspace = workspace.pointer(), buffers.workspace_size = workspace.bytes();
  polyconv_weights *made_weights = nullptr;
  check(polyconv_weights_create(plan.get(), 0, weights.pointer(), nullptr, nullptr, &made_weights));
  const Weights packed(made_weights);
  buffers.packed[0] = packed.get();
  polyconv_bound *made_bound = nullptr;
  check(polyconv_bind(plan.get(), &buffers, &made_bound));
  const Bound bound(made_bound);

  Outcome outcome{image, info.kernel, median_run(device, bound.get())};
  if (problem.output_type == POLYCONV_F32) {
    std::vector<float> pairs(static_cast<size_t>(output_bytes) / sizeof(float));
    output.download(pairs.data());
    join_gradient(pairs, outcome.image);
  } else {
    output.download(outcome.image.pixels.data());
  }
  return outcome;
}
