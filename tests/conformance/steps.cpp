// steps.cpp - see steps.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "steps.hpp"

#include <doctest/doctest.h>
#include <polyconv/backend.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <dlfcn.h>

#include "polyconv/sdk/epilogue.hpp"
#include "polyconv/sdk/tensor.hpp"

namespace conformance {
namespace {

using namespace polyconv::sdk;

constexpr int kPoison = 0x7f;

void no_log(int32_t, const char *) {}
void no_error(const char *) {}
const polyconv_host kHost = {sizeof(polyconv_host), POLYCONV_BACKEND_ABI_MINOR, no_log, no_error};

// The table of a backend that the library has loaded already.
const polyconv_backend *table_of(const polyconv_backend_info &backend) {
  void *library = dlopen(backend.path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto query = reinterpret_cast<polyconv_backend_query>(dlsym(library, POLYCONV_BACKEND_ENTRY));
  const polyconv_backend *table = nullptr;
  return query != nullptr && query(&kHost, &table) == POLYCONV_SUCCESS ? table : nullptr;
}

struct Kernel {
  const polyconv_kernel *table = nullptr;
  int32_t config = 0;
  const polyconv_device *device = nullptr; // the first of the backend's kind
};

Kernel find_kernel(const polyconv_backend &backend, const std::string &full_name) {
  const size_t slash = full_name.find('/'), at = full_name.find('@');
  const std::string name = full_name.substr(slash + 1, at - slash - 1), config = full_name.substr(at + 1);
  for (int32_t i = 0; i < backend.kernel_count; ++i) {
    const polyconv_kernel *kernel = backend.kernels[i];
    for (int32_t c = 0; name == kernel->name && c < kernel->config_count; ++c)
      if (config == kernel->config_name(kernel, c)) return {kernel, c, nullptr};
  }
  return {};
}

polyconv_tensor tensor(int32_t type, const int64_t (&size)[5], bool channels_last, int64_t gap) {
  polyconv_tensor t = {};
  t.type = type;
  int64_t stride = gap; // 1 is dense
  const int first[] = {4, 3, 2, 1, 0}, last[] = {1, 4, 3, 2, 0};
  for (int i = 0; i < 5; ++i) {
    const int axis = channels_last ? last[i] : first[i];
    t.size[axis] = size[axis];
    t.stride[axis] = stride;
    stride = stride * size[axis] + (gap > 1 ? 3 : 0);
  }
  return t;
}

size_t bytes_of(const polyconv_tensor &t) {
  int64_t last = 0;
  for (int axis = 0; axis < 5; ++axis) last += (t.size[axis] - 1) * t.stride[axis];
  return static_cast<size_t>(last + 1) * polyconv_type_size(t.type);
}

template <class Visit>
void for_places(const polyconv_tensor &t, const Visit &visit) {
  for (int64_t n = 0; n < t.size[0]; ++n)
    for (int64_t c = 0; c < t.size[1]; ++c)
      for (int64_t d = 0; d < t.size[2]; ++d)
        for (int64_t h = 0; h < t.size[3]; ++h)
          for (int64_t w = 0; w < t.size[4]; ++w) visit(n, c, d, h, w);
}

// Small whole numbers with many equals, so that the first of them must win; a NaN where the type has one.
std::vector<unsigned char> numbers(const polyconv_tensor &t, bool with_nan) {
  std::vector<unsigned char> memory(bytes_of(t), kPoison);
  uint32_t state = 12345;
  for_places(t, [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
    state = state * 1664525u + 1013904223u;
    double v = static_cast<double>(static_cast<int>(state >> 28)) - 5;
    if (with_nan && n == 0 && c == 1 && h == 2 && w == 3) v = std::nan("");
    store_as(memory.data(), t.type, at(t, n, c, d, h, w), v);
  });
  return memory;
}

// Host bytes as they lie in the memory of a kernel's device: up when made, back when fetched.
class OnDevice {
 public:
  OnDevice(const polyconv_device *device, const std::vector<unsigned char> &bytes) : device_(device) {
    REQUIRE(polyconv_device_alloc(device, bytes.size(), POLYCONV_MEMORY_DEVICE, &pointer_) == POLYCONV_SUCCESS);
    move(pointer_, bytes.data(), bytes.size());
  }
  ~OnDevice() { polyconv_device_free(device_, pointer_, POLYCONV_MEMORY_DEVICE); }
  OnDevice(const OnDevice &) = delete;
  OnDevice &operator=(const OnDevice &) = delete;

  void *pointer() const { return pointer_; }
  void fetch(std::vector<unsigned char> &bytes) const { move(bytes.data(), pointer_, bytes.size()); }

 private:
  void move(void *to, const void *from, size_t bytes) const {
    REQUIRE(polyconv_device_copy(device_, to, from, bytes, nullptr) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_stream_synchronize(device_, nullptr) == POLYCONV_SUCCESS);
  }

  const polyconv_device *device_;
  void *pointer_ = nullptr;
};

bool run_step(const Kernel &kernel, int32_t op, const polyconv_layer &layer, const std::vector<unsigned char> &input,
              std::vector<unsigned char> &output, std::vector<unsigned char> *saved) {
  polyconv_policy policy = {};
  policy.struct_size = sizeof policy;
  policy.threads = 2;
  policy.workspace_limit = INT64_MAX;
  policy.determinism = POLYCONV_DETERMINISM_RUN;
  const polyconv_layer *layers[] = {&layer};
  const polyconv_request request = {sizeof request, op, 1, layers, &policy};
  polyconv_offer offer = {};
  offer.struct_size = sizeof offer;
  if (kernel.table->supports(kernel.table, &request, kernel.config, &offer) != POLYCONV_SUCCESS) return false;
  void *instance = nullptr;
  REQUIRE(kernel.table->create(kernel.table, &request, kernel.config, &instance) == POLYCONV_SUCCESS);
  const std::vector<unsigned char> scratch(static_cast<size_t>(offer.workspace_bytes), 0xff), none;
  const OnDevice read(kernel.device, input), written(kernel.device, output), kept(kernel.device, saved ? *saved : none),
      workspace(kernel.device, scratch);
  polyconv_arguments arguments = {};
  arguments.struct_size = sizeof arguments;
  arguments.input = read.pointer();
  arguments.output = written.pointer();
  arguments.saved[0] = kept.pointer();
  arguments.workspace = workspace.pointer();
  CHECK(kernel.table->run(kernel.table, instance, &arguments, nullptr) == POLYCONV_SUCCESS);
  written.fetch(output);
  if (saved) kept.fetch(*saved);
  kernel.table->destroy(kernel.table, instance);
  return true;
}

polyconv_layer step_layer(const polyconv_tensor &input, const polyconv_tensor &result, int32_t sum_type) {
  polyconv_layer l = {};
  l.struct_size = sizeof l;
  l.groups = 1;
  l.sum_type = sum_type;
  l.input = l.output = input;
  l.result = result;
  l.epilogue.residual_scale = l.epilogue.out_scale = 1;
  for (int axis = 0; axis < 3; ++axis) l.stride[axis] = l.dilation[axis] = 1;
  return l;
}

// ---------------------------------------------------------------- conversion

int check_conversions(const Kernel &kernel, const std::string &name) {
  int taken = 0;
  const int64_t size[5] = {2, 5, 2, 7, 9};
  for (int32_t type = POLYCONV_F64; type <= POLYCONV_U16; ++type)
    for (int variant = 0; variant < 4; ++variant) {
      const polyconv_tensor from = tensor(type, size, variant % 2 == 0, variant < 2 ? 1 : 2);
      const polyconv_tensor to = tensor(type, size, variant % 2 != 0, variant == 3 ? 2 : 1);
      std::vector<unsigned char> input = numbers(from, is_float(type)), output(bytes_of(to), kPoison);
      std::vector<unsigned char> expected = output;
      if (!run_step(kernel, POLYCONV_OP_CONVERT, step_layer(from, to, POLYCONV_F32), input, output, nullptr)) continue;
      ++taken;
      const size_t element = polyconv_type_size(type);
      for_places(from, [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
        std::memcpy(expected.data() + static_cast<size_t>(at(to, n, c, d, h, w)) * element,
                    input.data() + static_cast<size_t>(at(from, n, c, d, h, w)) * element, element);
      });
      CHECK_MESSAGE(expected == output,
                    name << " converts " << std::string(polyconv_type_name(type)) << " wrongly, variant " << variant);
    }
  return taken;
}

// ---------------------------------------------------------------- pooling

struct PoolCase {
  int32_t kind, input, output, sum;
  bool channels_last;
  int32_t count_include_pad, save;
  float out_scale;
  int32_t out_zero_point;
};

constexpr PoolCase kPools[] = {
    {POLYCONV_POOL_MAX, POLYCONV_F32, POLYCONV_F32, POLYCONV_F32, false, 0, POLYCONV_SAVE_ARGMAX, 1, 0},
    {POLYCONV_POOL_MAX, POLYCONV_F32, POLYCONV_F32, POLYCONV_F32, true, 0, POLYCONV_SAVE_ARGMAX, 1, 0},
    {POLYCONV_POOL_MAX, POLYCONV_F32, POLYCONV_F16, POLYCONV_F32, true, 0, POLYCONV_SAVE_NONE, 1, 0},
    {POLYCONV_POOL_MAX, POLYCONV_F64, POLYCONV_F64, POLYCONV_F64, false, 0, POLYCONV_SAVE_ARGMAX, 1, 0},
    {POLYCONV_POOL_AVERAGE, POLYCONV_F32, POLYCONV_F32, POLYCONV_F32, false, 0, POLYCONV_SAVE_NONE, 1, 0},
    {POLYCONV_POOL_AVERAGE, POLYCONV_F32, POLYCONV_BF16, POLYCONV_F32, true, 1, POLYCONV_SAVE_NONE, 1, 0},
    {POLYCONV_POOL_AVERAGE, POLYCONV_F64, POLYCONV_F64, POLYCONV_F64, true, 1, POLYCONV_SAVE_NONE, 1, 0},
    {POLYCONV_POOL_MAX, POLYCONV_F32, POLYCONV_S8, POLYCONV_S32, true, 0, POLYCONV_SAVE_ARGMAX, 0.5f, 3},
    {POLYCONV_POOL_AVERAGE, POLYCONV_F32, POLYCONV_U8, POLYCONV_S32, false, 0, POLYCONV_SAVE_NONE, 0.25f, 100},
    {POLYCONV_POOL_AVERAGE, POLYCONV_F32, POLYCONV_U16, POLYCONV_F32, false, 1, POLYCONV_SAVE_NONE, 0.125f, 50},
    {POLYCONV_POOL_MAX, POLYCONV_S32, POLYCONV_S32, POLYCONV_S32, false, 0, POLYCONV_SAVE_NONE, 1, 0},
};

// Window 2x3x2, stride 1x2x3, pads 0x1x1 and 1x2x0, on 3x8x9.
polyconv_pool geometry(const PoolCase &c) {
  return {c.kind, c.count_include_pad, {2, 3, 2}, {1, 2, 3}, {0, 1, 1}, {1, 2, 0}};
}
constexpr int64_t kPooled[5] = {2, 5, 3, 5, 3};

// The definition, in T; and the index of the first maximum.
template <class T>
T pooled(const polyconv_layer &l, const unsigned char *input, const int64_t (&o)[5], int32_t *argmax) {
  const polyconv_pool &p = l.epilogue.pool;
  T sum = 0, best = 0;
  int count = 0;
  *argmax = -1;
  for (int64_t i = 0; i < p.window[0] * p.window[1] * p.window[2]; ++i) {
    const int64_t d = o[2] * p.stride[0] - p.pad_begin[0] + i / (p.window[1] * p.window[2]);
    const int64_t h = o[3] * p.stride[1] - p.pad_begin[1] + i / p.window[2] % p.window[1];
    const int64_t w = o[4] * p.stride[2] - p.pad_begin[2] + i % p.window[2];
    if (d < 0 || d >= l.input.size[2] || h < 0 || h >= l.input.size[3] || w < 0 || w >= l.input.size[4]) continue;
    const T v = load_as<T>(input, l.input.type, at(l.input, o[0], o[1], d, h, w));
    ++count;
    sum += v;
    const bool better = *argmax < 0 || v > best || (std::isnan(v) && !std::isnan(best));
    if (!better) continue;
    best = v;
    *argmax = static_cast<int32_t>(i);
  }
  if (p.kind == POLYCONV_POOL_MAX) return best;
  return sum / static_cast<T>(p.count_include_pad ? p.window[0] * p.window[1] * p.window[2] : count);
}

int check_poolings(const Kernel &kernel, const std::string &name) {
  int taken = 0;
  for (const PoolCase &c : kPools) {
    const int64_t size[5] = {2, 5, 3, 8, 9};
    polyconv_layer l =
        step_layer(tensor(c.input, size, c.channels_last, 1), tensor(c.output, kPooled, c.channels_last, 1), c.sum);
    l.epilogue.pool = geometry(c);
    l.epilogue.out_scale = c.out_scale;
    l.epilogue.out_zero_point = c.out_zero_point;
    l.save = c.save;
    l.saved = tensor(POLYCONV_S32, kPooled, c.channels_last, 1);
    std::vector<unsigned char> input = numbers(l.input, is_float(c.input) && is_float(c.output));
    std::vector<unsigned char> output(bytes_of(l.result), kPoison), saved(bytes_of(l.saved), kPoison);
    if (!run_step(kernel, POLYCONV_OP_POOL, l, input, output, c.save ? &saved : nullptr)) continue;
    ++taken;
    int wrong = 0;
    for_places(l.result, [&](int64_t n, int64_t k, int64_t d, int64_t h, int64_t w) {
      const int64_t o[5] = {n, k, d, h, w};
      int32_t argmax = 0;
      double expected = 0, memory = 0;
      if (c.input == POLYCONV_F64)
        expected = pooled<double>(l, input.data(), o, &argmax);
      else
        expected = quantise<float>(pooled<float>(l, input.data(), o, &argmax), l.epilogue, c.output);
      store_as(&memory, c.output, 0, expected);
      expected = load_as<double>(&memory, c.output, 0);
      const double found = load_as<double>(output.data(), c.output, at(l.result, n, k, d, h, w));
      // Averages of float rows may be rounded in another order.
      const double slack = c.kind == POLYCONV_POOL_AVERAGE && is_float(c.output) ? 4e-3 * std::fabs(expected) : 0;
      wrong += std::isnan(expected) ? !std::isnan(found) : !(std::fabs(found - expected) <= slack);
      if (c.save) wrong += argmax != load_as<double>(saved.data(), POLYCONV_S32, at(l.saved, n, k, d, h, w));
    });
    CHECK_MESSAGE(wrong == 0, name << " pools " << std::string(polyconv_type_name(c.input)) << " to "
                                   << std::string(polyconv_type_name(c.output)) << ", kind " << c.kind << ": " << wrong
                                   << " wrong elements");
  }
  return taken;
}

// ---------------------------------------------------------------- gradients of activation and pooling

struct GradientCase {
  int32_t activation, pool, save, type;
  bool channels_last;
  int32_t count_include_pad;
};

std::vector<GradientCase> gradient_cases() {
  std::vector<GradientCase> cases;
  for (int32_t type = POLYCONV_F64; type <= POLYCONV_BF16; ++type)
    for (const bool last : {false, true}) {
      for (int32_t act = POLYCONV_ACT_NONE; act <= POLYCONV_ACT_HARD_SWISH; ++act)
        for (const int32_t pool : {POLYCONV_POOL_NONE, POLYCONV_POOL_MAX, POLYCONV_POOL_AVERAGE})
          cases.push_back({act, pool, POLYCONV_SAVE_PRE_ACTIVATION, type, last, act % 2});
      cases.push_back({POLYCONV_ACT_NONE, POLYCONV_POOL_MAX, POLYCONV_SAVE_ARGMAX, type, last, 0});
      cases.push_back({POLYCONV_ACT_NONE, POLYCONV_POOL_AVERAGE, POLYCONV_SAVE_NONE, type, last, 1});
    }
  return cases;
}

polyconv_layer gradient_layer(const GradientCase &c) {
  const int64_t size[5] = {2, 5, 3, 8, 9};
  const bool pools = c.pool != POLYCONV_POOL_NONE, argmax = c.save == POLYCONV_SAVE_ARGMAX;
  const int32_t real = c.type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
  polyconv_layer l = step_layer(tensor(c.type, pools ? kPooled : size, c.channels_last, 2),
                                tensor(c.type, size, c.channels_last, 1), real);
  l.output = l.result;
  l.save = c.save;
  l.saved = tensor(argmax ? POLYCONV_S32 : real, argmax ? kPooled : size, c.channels_last, 1);
  l.epilogue.activation = c.activation;
  l.epilogue.activation_alpha = c.activation == POLYCONV_ACT_CLIPPED_RELU ? 2.0f : -0.25f;
  if (pools) l.epilogue.pool = geometry({c.pool, 0, 0, 0, false, c.count_include_pad, 0, 1, 0});
  return l;
}

// Pre-activations with many equals, none at a kink, so that a quotient of differences tells the slope.
std::vector<double> pre_activations(const polyconv_tensor &t) {
  std::vector<double> values;
  uint32_t state = 54321;
  for_places(t, [&](int64_t, int64_t, int64_t, int64_t, int64_t) {
    state = state * 1664525u + 1013904223u;
    values.push_back((static_cast<double>(static_cast<int>(state >> 28)) - 9) / 2 + 0.25);
  });
  return values;
}

double slope_at(double v, const polyconv_epilogue &e) {
  constexpr double kStep = 1e-5;
  return (activate(v + kStep, e) - activate(v - kStep, e)) / (2 * kStep);
}

// Scatters what every pooled result received, by the definition; fills `places` with the first maxima.
std::vector<double> expected_gradient(const polyconv_layer &l, const std::vector<double> &v,
                                      const std::vector<unsigned char> &given, std::vector<unsigned char> *places) {
  const polyconv_pool &p = l.epilogue.pool;
  const bool pools = p.kind != POLYCONV_POOL_NONE;
  const polyconv_tensor dense = tensor(POLYCONV_F64, l.result.size, false, 1);
  std::vector<double> sums(v.size(), 0);
  for_places(l.input, [&](int64_t n, int64_t k, int64_t od, int64_t oh, int64_t ow) {
    const double g = load_as<double>(given.data(), l.input.type, at(l.input, n, k, od, oh, ow));
    std::vector<size_t> inside;
    int64_t best = -1;
    size_t winner = 0;
    for (int64_t i = 0; i < (pools ? p.window[0] * p.window[1] * p.window[2] : 1); ++i) {
      const int64_t d = pools ? od * p.stride[0] - p.pad_begin[0] + i / (p.window[1] * p.window[2]) : od;
      const int64_t h = pools ? oh * p.stride[1] - p.pad_begin[1] + i / p.window[2] % p.window[1] : oh;
      const int64_t w = pools ? ow * p.stride[2] - p.pad_begin[2] + i % p.window[2] : ow;
      if (d < 0 || d >= dense.size[2] || h < 0 || h >= dense.size[3] || w < 0 || w >= dense.size[4]) continue;
      inside.push_back(static_cast<size_t>(at(dense, n, k, d, h, w)));
      if (best >= 0 && activate(v[inside.back()], l.epilogue) <= activate(v[winner], l.epilogue)) continue;
      best = i;
      winner = inside.back();
    }
    if (places) store_as(places->data(), POLYCONV_S32, at(l.saved, n, k, od, oh, ow), static_cast<double>(best));
    const double all = static_cast<double>(p.window[0] * p.window[1] * p.window[2]);
    if (p.kind == POLYCONV_POOL_AVERAGE)
      for (size_t i : inside) sums[i] += g / (p.count_include_pad ? all : static_cast<double>(inside.size()));
    else
      sums[winner] += g;
  });
  for (size_t i = 0; i < sums.size(); ++i) sums[i] *= slope_at(v[i], l.epilogue);
  return sums;
}

int check_gradients(const Kernel &kernel, const std::string &name) {
  int taken = 0;
  for (const GradientCase &c : gradient_cases()) {
    const polyconv_layer l = gradient_layer(c);
    const std::vector<unsigned char> given = numbers(l.input, false);
    const std::vector<double> v = pre_activations(l.result);
    const bool argmax = c.save == POLYCONV_SAVE_ARGMAX;
    std::vector<unsigned char> output(bytes_of(l.result), kPoison), saved(bytes_of(l.saved), kPoison);
    const std::vector<double> expected = expected_gradient(l, v, given, argmax ? &saved : nullptr);
    size_t next = 0;
    if (!argmax)
      for_places(l.result, [&](int64_t n, int64_t k, int64_t d, int64_t h, int64_t w) {
        store_as(saved.data(), l.saved.type, at(l.saved, n, k, d, h, w), v[next++]);
      });
    const std::vector<unsigned char> before = saved;
    if (!run_step(kernel, POLYCONV_OP_GRADIENT, l, given, output, c.save ? &saved : nullptr)) continue;
    ++taken;
    int wrong = saved != before;
    const double units[] = {0, 1e-8, 4e-6, 0x1p-10, 0x1p-7};
    next = 0;
    for_places(l.result, [&](int64_t n, int64_t k, int64_t d, int64_t h, int64_t w) {
      const double found = load_as<double>(output.data(), c.type, at(l.result, n, k, d, h, w)), r = expected[next++];
      wrong += !(std::fabs(found - r) <= units[c.type] * std::fabs(r) + 1e-6);
    });
    CHECK_MESSAGE(wrong == 0, name << ", gradient of activation " << c.activation << " and pooling " << c.pool << " in "
                                   << std::string(polyconv_type_name(c.type)) << ", saved " << c.save << ": " << wrong
                                   << " wrong elements");
  }
  return taken;
}

} // namespace

int check_steps(const polyconv_backend_info &backend, const std::string &name) {
  const polyconv_backend *table = table_of(backend);
  REQUIRE(table != nullptr);
  Kernel kernel = find_kernel(*table, name);
  REQUIRE(kernel.table != nullptr);
  REQUIRE(polyconv_device_find(backend.device_kind, &kernel.device) == POLYCONV_SUCCESS);
  return check_conversions(kernel, name) + check_poolings(kernel, name) + check_gradients(kernel, name);
}

} // namespace conformance
