// steps.cpp - see steps.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "steps.hpp"

#include <doctest/doctest.h>
#include <polyconv/backend.h>

#include <cmath>
#include <cstring>
#include <vector>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#include "polyconv/sdk/epilogue.hpp"
#include "polyconv/sdk/tensor.hpp"
#include "step_run.hpp"

namespace conformance {
namespace {

using namespace polyconv::sdk;

thread_local std::string last_error;

void no_log(int32_t, const char *) {}
void keep_error(const char *sentence) {
  last_error = sentence;
}
const polyconv_host kHost = {sizeof(polyconv_host), POLYCONV_BACKEND_ABI_MINOR, no_log, keep_error};

// The table of a backend that the library has loaded already.
const polyconv_backend *table_of(const polyconv_backend_info &backend) {
#if defined(_WIN32)
  const HMODULE library = LoadLibraryA(backend.path);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<void *>(GetProcAddress(library, POLYCONV_BACKEND_ENTRY));
#else
  void *library = dlopen(backend.path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  void *const entry = dlsym(library, POLYCONV_BACKEND_ENTRY);
#endif
  const auto query = reinterpret_cast<polyconv_backend_query>(entry);
  const polyconv_backend *table = nullptr;
  return query != nullptr && query(&kHost, &table) == POLYCONV_SUCCESS ? table : nullptr;
}

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

// ---------------------------------------------------------------- conversion

// Few channels and many, fewer pixels than channels and more: what a kernel that moves tiles may cut differently.
constexpr int64_t kConverted[][5] = {{2, 5, 2, 7, 9},    {3, 4, 1, 40, 30}, {1, 8, 1, 32, 31},
                                     {2, 12, 1, 25, 33}, {1, 24, 1, 17, 8}, {1, 67, 1, 9, 11},
                                     {2, 130, 1, 1, 5},  {2, 3, 1, 20, 21}, {1, 2, 1, 1, 5}};

// The number of conversions that the kernel takes.
int check_conversion(const Kernel &kernel, const std::string &name, const int64_t (&size)[5]) {
  int taken = 0;
  for (int32_t type = POLYCONV_F64; type <= POLYCONV_U16; ++type)
    for (int variant = 0; variant < 4; ++variant) {
      const polyconv_tensor from = tensor(type, size, variant % 2 == 0, variant < 2 ? 1 : 2);
      const polyconv_tensor to = tensor(type, size, variant % 2 != 0, variant == 3 ? 2 : 1);
      const polyconv_layer layer = step_layer(from, to, POLYCONV_F32);
      if (!takes_step(kernel, POLYCONV_OP_CONVERT, layer)) continue;
      std::vector<unsigned char> input = numbers(from, is_float(type)), output(bytes_of(to), kPoison);
      std::vector<unsigned char> expected = output;
      run_step(kernel, POLYCONV_OP_CONVERT, layer, input, output, nullptr);
      ++taken;
      const size_t element = polyconv_type_size(type);
      for_places(from, [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
        std::memcpy(expected.data() + static_cast<size_t>(at(to, n, c, d, h, w)) * element,
                    input.data() + static_cast<size_t>(at(from, n, c, d, h, w)) * element, element);
      });
      CHECK_MESSAGE(expected == output, name << " converts " << std::string(polyconv_type_name(type))
                                             << " wrongly, variant " << variant << ", " << size[1] << " channels");
    }
  return taken;
}

int check_conversions(const Kernel &kernel, const std::string &name) {
  int taken = 0;
  for (const auto &size : kConverted) taken += check_conversion(kernel, name, size);
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
    l.epilogue.pool = sample_pool(c.kind, c.count_include_pad);
    l.epilogue.out_scale = c.out_scale;
    l.epilogue.out_zero_point = c.out_zero_point;
    l.save = c.save;
    l.saved = tensor(POLYCONV_S32, kPooled, c.channels_last, 1);
    if (!takes_step(kernel, POLYCONV_OP_POOL, l)) continue;
    std::vector<unsigned char> input = numbers(l.input, is_float(c.input) && is_float(c.output));
    std::vector<unsigned char> output(bytes_of(l.result), kPoison), saved(bytes_of(l.saved), kPoison);
    run_step(kernel, POLYCONV_OP_POOL, l, input, output, c.save ? &saved : nullptr);
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

} // namespace

std::string said_to_steps() {
  return last_error;
}

int check_steps(const polyconv_backend_info &backend, const std::string &name) {
  const polyconv_backend *table = table_of(backend);
  REQUIRE(table != nullptr);
  Kernel kernel = find_kernel(*table, name);
  REQUIRE(kernel.table != nullptr);
  REQUIRE(polyconv_device_find(backend.device_kind, &kernel.device) == POLYCONV_SUCCESS);
  return check_conversions(kernel, name) + check_poolings(kernel, name) + check_gradients(kernel, name);
}

} // namespace conformance
