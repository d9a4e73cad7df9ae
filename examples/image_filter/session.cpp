// session.cpp - see session.hpp. Every colour is convolved by itself (groups == channels), 8 or 16 bits in; the same
// out, or f32 for a gradient, whose two results are joined afterwards. A picture that is too large for one run goes
// band by band. Works on any device.
// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <polyconv/polyconv.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "bands.hpp"

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

// The rows or columns of a kernel before its middle; of an even one the middle is the upper left one.
int64_t before(int64_t size) {
  return (size - 1) / 2;
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

// The convolution of one band: its rows in, its rows out.
polyconv_problem describe(const Image &image, const Filter &filter, const Settings &settings, const Band &band) {
  const auto border = std::find(std::begin(kBorders), std::end(kBorders), settings.border);
  if (border == std::end(kBorders)) throw Failure(kExitUsage, "--border is '" + settings.border + "', an unknown mode");
  const bool gradient = filter.kernels.size() > 1;
  polyconv_problem p;
  polyconv_problem_init(&p);
  p.in_channels = p.groups = image.colours();
  p.out_channels = image.colours() * static_cast<int64_t>(filter.kernels.size());
  p.input_size[0] = band.read(), p.input_size[1] = image.width;
  p.kernel_size[0] = filter.rows, p.kernel_size[1] = filter.columns;
  for (int axis = band.whole ? 0 : 1; axis < 2; ++axis) { // as large as it came
    p.pad_begin[axis] = before(p.kernel_size[axis]);
    p.pad_end[axis] = p.kernel_size[axis] - 1 - p.pad_begin[axis];
  }
  p.pad_mode = static_cast<int32_t>(border - std::begin(kBorders));
  p.pad_value = p.pad_mode == POLYCONV_PAD_CONSTANT ? settings.border_value : 0;
  p.separable = filter.separable;
  p.input_type = image.bytes == 1 ? POLYCONV_U8 : POLYCONV_U16, p.output_type = gradient ? POLYCONV_F32 : p.input_type;
  p.input_layout = p.output_layout = POLYCONV_CHANNELS_LAST;
  if (!gradient) { // one kernel for all channels: no step along K
    p.has_weights_strides = 1;
    p.weights_strides[0] = 0, p.weights_strides[1] = filter.rows * filter.columns;
    p.weights_strides[2] = filter.columns, p.weights_strides[3] = 1;
    p.epilogue.out_zero_point = image.bytes == 1 ? filter.centre : filter.centre * 257;
  }
  return p;
}

// Raw weights in the order that describe gave them.
std::vector<float> raw_weights(const Image &image, const Filter &filter) {
  if (filter.kernels.size() == 1) return filter.kernels[0];
  std::vector<float> weights;
  for (int64_t channel = 0; channel < image.colours(); ++channel)
    for (const std::vector<float> &kernel : filter.kernels) weights.insert(weights.end(), kernel.begin(), kernel.end());
  return weights;
}

// The length of each pair of derivatives, as samples of so many bytes.
template <class Sample>
std::vector<uint8_t> joined_gradient(const std::vector<float> &pairs) {
  std::vector<uint8_t> samples(pairs.size() / 2 * sizeof(Sample));
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    const float length =
        std::min<float>(std::numeric_limits<Sample>::max(), std::hypot(pairs[2 * i], pairs[2 * i + 1]));
    const auto sample = static_cast<Sample>(std::lround(length));
    std::memcpy(samples.data() + i * sizeof(Sample), &sample, sizeof(Sample));
  }
  return samples;
}

// Milliseconds of a run: the median of up to `most` after a first one, or of as many as a second allows.
double median_run(const polyconv_device *device, const polyconv_bound *bound, int most) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i <= most; ++i) {
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

// One band planned, and its memory: the same plan serves every band of as many rows.
class BandPlan {
 public:
  BandPlan(const polyconv_device *device, const polyconv_problem &problem, const std::vector<float> &raw,
           const Settings &settings)
      : device_(device), problem_(problem), plan_(make_plan(settings)) {
    int64_t input_bytes = 0, output_bytes = 0;
    check(polyconv_problem_tensor(&problem_, POLYCONV_TENSOR_INPUT, nullptr, &input_bytes));
    check(polyconv_problem_tensor(&problem_, POLYCONV_TENSOR_OUTPUT, nullptr, &output_bytes));
    input_ = std::make_unique<Memory>(device, input_bytes);
    output_ = std::make_unique<Memory>(device, output_bytes);
    workspace_ = std::make_unique<Memory>(device, info_.workspace_bytes);
    weights_ = std::make_unique<Memory>(device, static_cast<int64_t>(raw.size() * sizeof(float)));
    weights_->upload(raw.data());
    polyconv_buffers buffers;
    polyconv_buffers_init(&buffers);
    buffers.input = input_->pointer(), buffers.output = output_->pointer();
    buffers.weights[0] = weights_->pointer();
    buffers.workspace = workspace_->pointer(), buffers.workspace_size = workspace_->bytes();
    polyconv_weights *made_weights = nullptr;
    check(polyconv_weights_create(plan_.get(), 0, weights_->pointer(), nullptr, nullptr, &made_weights));
    packed_.reset(made_weights);
    buffers.packed[0] = packed_.get();
    polyconv_bound *made_bound = nullptr;
    check(polyconv_bind(plan_.get(), &buffers, &made_bound));
    bound_.reset(made_bound);
  }

  // Filters the colours of a band; adds the milliseconds, the median of up to `runs`, to *milliseconds.
  std::vector<uint8_t> filter(const std::vector<uint8_t> &colours, int runs, double *milliseconds) {
    input_->upload(colours.data());
    *milliseconds += median_run(device_, bound_.get(), runs);
    if (problem_.output_type != POLYCONV_F32) {
      std::vector<uint8_t> result(output_->bytes());
      output_->download(result.data());
      return result;
    }
    std::vector<float> pairs(output_->bytes() / sizeof(float));
    output_->download(pairs.data());
    return problem_.input_type == POLYCONV_U8 ? joined_gradient<uint8_t>(pairs) : joined_gradient<uint16_t>(pairs);
  }

  std::string kernel() const { return info_.kernel; }
  int64_t rows() const { return problem_.input_size[0]; }

 private:
  Plan make_plan(const Settings &settings) {
    polyconv_options options;
    polyconv_options_init(&options);
    const std::string kernels = settings.backend.empty() ? settings.kernel : settings.backend + "/*";
    if (!kernels.empty()) options.kernel = kernels.c_str();
    options.threads = settings.threads;
    options.bind = 1;
    polyconv_plan *made = nullptr;
    check(polyconv_plan_create(device_, &problem_, 1, &options, &made));
    Plan plan(made);
    info_.struct_size = sizeof info_;
    check(polyconv_plan_get_info(plan.get(), &info_));
    return plan;
  }

  const polyconv_device *device_;
  const polyconv_problem problem_;
  polyconv_plan_info info_{};
  Plan plan_;
  std::unique_ptr<Memory> input_, output_, workspace_, weights_;
  Weights packed_;
  Bound bound_;
};

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
  const std::vector<float> raw = raw_weights(image, filter);
  const int64_t above = before(filter.rows), below = filter.rows - 1 - above;
  // A sample while it is filtered: here and on the device, what comes of it likewise, and as much of workspace.
  const int64_t sample_bytes = filter.kernels.size() > 1 ? 2 * image.bytes + 24 : 5 * image.bytes;
  const std::vector<Band> bands =
      bands_of(image, above, below, image.colours() * sample_bytes, settings.band_megabytes << 20);
  Outcome outcome{image, "", 0};
  std::unique_ptr<BandPlan> plan;
  for (const Band &band : bands) {
    if (!plan || plan->rows() != band.read()) {
      plan.reset(); // its memory first
      plan = std::make_unique<BandPlan>(device, describe(image, filter, settings, band), raw, settings);
    }
    const std::vector<uint8_t> rows = rows_of(image, band, settings.border, settings.border_value);
    put_rows(band, plan->filter(rows, band.whole ? 9 : 1, &outcome.milliseconds), outcome.image);
  }
  outcome.kernel = plan->kernel();
  return outcome;
}
