// options.cpp - options: defaults, validation, and the policy that kernels see.
// SPDX-License-Identifier: Apache-2.0
#include "select/options.hpp"

#include "base/read_sized.hpp"
#include "os/os.hpp"
#include "os/processors.hpp"
#include "registry/device.hpp"
#include "registry/registry.hpp"

#include <limits>

namespace polyconv {
namespace {

constexpr int32_t kMaxThreads = 1024;
constexpr size_t kOldestOptions = offsetof(polyconv_options, kernel); // every field has a default
constexpr size_t kOptionsOf01 = offsetof(polyconv_options, shared_memory_limit) + sizeof(int64_t);

void require_range(const char *field, int64_t value, int64_t low, int64_t high, const char *expected) {
  if (value < low || value > high) {
    throw failure(POLYCONV_INVALID_ARGUMENT, "options.%s is %lld, expected %s", field, static_cast<long long>(value),
                  expected);
  }
}

void validate(const polyconv_options &options) {
  require_range("math", options.math, POLYCONV_MATH_STRICT, POLYCONV_MATH_FAST, "a POLYCONV_MATH_* value, 0 to 3");
  require_range("determinism", options.determinism, POLYCONV_DETERMINISM_NONE, POLYCONV_DETERMINISM_IDENTICAL,
                "a POLYCONV_DETERMINISM_* level, 0 to 3");
  require_range("fallback", options.fallback, POLYCONV_FALLBACK_WARN, POLYCONV_FALLBACK_ALLOW,
                "a POLYCONV_FALLBACK_* value, 0 to 2");
  require_range("threads", options.threads, 0, kMaxThreads, "0 (all) to 1024");
  require_range("workspace_limit", options.workspace_limit, -1, std::numeric_limits<int64_t>::max(),
                "bytes, or -1 for no limit");
  require_range("tuning_budget_ms", options.tuning_budget_ms, 0, std::numeric_limits<int64_t>::max() / 1000000,
                "milliseconds, 0 for none");
  require_range("shared_memory_limit", options.shared_memory_limit, -1, std::numeric_limits<int64_t>::max(),
                "bytes, or -1 for no limit");
  require_range("dynamic_weights", options.dynamic_weights, POLYCONV_WEIGHTS_CONSTANT, POLYCONV_WEIGHTS_NEW,
                "a POLYCONV_WEIGHTS_* value, 0 to 2");
  require_range("checked", options.checked, 0, 1, "0 or 1");
  require_range("save", options.save, POLYCONV_SAVE_NONE, POLYCONV_SAVE_PRE_ACTIVATION,
                "a POLYCONV_SAVE_* value, 0 to 2");
  require_range("bind", options.bind, 0, 1, "0 or 1");
  if ((options.allocator.allocate == nullptr) != (options.allocator.release == nullptr)) {
    throw failure(POLYCONV_INVALID_ARGUMENT, "options.allocator.%s is NULL, expected both functions or neither",
                  options.allocator.allocate == nullptr ? "allocate" : "release");
  }
}

polyconv_policy policy_of(const polyconv_options &options, const polyconv_device &device) {
  polyconv_policy policy = {};
  policy.struct_size = sizeof policy;
  policy.math = options.math;
  policy.determinism = options.determinism;
  policy.threads = options.threads > 0 ? options.threads : default_threads();
  policy.dynamic_weights = options.dynamic_weights;
  policy.workspace_limit = options.workspace_limit < 0 ? std::numeric_limits<int64_t>::max() : options.workspace_limit;
  policy.parallel_for = options.parallel_for;
  policy.parallel_for_context = options.parallel_for_context;
  policy.device_index = device.index;
  policy.bind = options.bind;
  policy.tuning_ms = options.tuning_budget_ms;
  policy.shared_memory_limit =
      options.shared_memory_limit < 0 ? std::numeric_limits<int64_t>::max() : options.shared_memory_limit;
  return policy;
}

// POLYCONV_KERNEL, read once a process.
const std::string &kernel_of_environment() {
  static const std::string globs = os::environment("POLYCONV_KERNEL");
  return globs;
}

} // namespace

Options read_options(const polyconv_options *options, const polyconv_device &device) {
  Options result = {};
  polyconv_options_init(&result.values);
  if (options != nullptr) read_sized(&result.values, options, kOldestOptions, "options");
  validate(result.values);
  const bool own = result.values.kernel != nullptr;
  result.kernel = own ? result.values.kernel : kernel_of_environment();
  result.kernel_from = own ? "options.kernel" : "POLYCONV_KERNEL";
  if (own && result.kernel.empty()) {
    throw Failure(POLYCONV_INVALID_ARGUMENT,
                  "options.kernel is \"\", expected a glob list such as \"openmp/*\", or NULL for all");
  }
  if (result.values.grouping != nullptr) {
    result.grouping = result.values.grouping;
    if (result.grouping.empty())
      throw Failure(POLYCONV_INVALID_ARGUMENT,
                    "options.grouping is \"\", expected \"none\", a number of layers, \"2+2\" or so, or NULL for any");
  }
  result.values.kernel = result.values.grouping = nullptr; // the caller's strings may go
  result.policy = policy_of(result.values, device);
  return result;
}

const char *math_name(int32_t math) {
  switch (math) {
    case POLYCONV_MATH_STRICT: return "strict";
    case POLYCONV_MATH_FP32_EMULATED: return "fp32_emulated";
    case POLYCONV_MATH_TF32: return "tf32";
    case POLYCONV_MATH_FAST: return "fast";
    default: return "?";
  }
}

const char *op_name(int32_t op) {
  switch (op) {
    case POLYCONV_OP_CONVOLVE: return "convolve";
    case POLYCONV_OP_POOL: return "pool";
    case POLYCONV_OP_CONVERT: return "convert";
    default: return "?";
  }
}

} // namespace polyconv

#undef polyconv_options_init // the header's macro; here it is the symbol of 0.1

extern "C" {

void polyconv_options_init(polyconv_options *options) {
  polyconv_options_init_sized(options, polyconv::kOptionsOf01);
}

void polyconv_options_init_sized(polyconv_options *options, size_t size) {
  if (options == nullptr) return;
  polyconv_options defaults = {};
  defaults.determinism = POLYCONV_DETERMINISM_RUN;
  defaults.workspace_limit = defaults.shared_memory_limit = -1;
  polyconv::hand_out(defaults, size, options);
}

} // extern "C"
