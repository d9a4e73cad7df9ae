// plugin_fuzz.cpp - any tables that a plug-in may hand to the loader: refused with a reason that names what is wrong
// with them, or listed, and then asked, planned, explained and run as any backend is, however it lies and fails.
// SPDX-License-Identifier: Apache-2.0
#include "plugin_registry.hpp"
#include "plugin_table.hpp"

#include "base/status.hpp"
#include "registry/loader.hpp"

#include <cstdlib>

namespace {

using polyconv_fuzz::Bytes;
using polyconv_fuzz::Plugin;
using polyconv_fuzz::require;

constexpr size_t kMostBytes =
    1 << 20; // that a plan may have: libFuzzer ends where somebody asks for more than it likes

void *allocate(void *, size_t bytes, size_t alignment) {
  const size_t whole = (bytes + alignment - 1) / alignment * alignment;
  return bytes <= kMostBytes ? std::aligned_alloc(alignment, whole) : nullptr;
}

void release(void *, void *pointer) {
  std::free(pointer);
}

std::vector<polyconv_problem> draw_problems(Bytes &bytes) {
  static const char *const kTokens[] = {"fwd:n1,c2,k2,i4x4,f3x3,p1:bias+relu",
                                        "fwd:n2,c4,k4,i8x8,f3x3,p1:nhwc:maxpool2",
                                        "bwd_d:n1,c2,k2,i4x4,f3x3,p1",
                                        "bwd_w:n1,c4,k4,i8,f3:f64:bias",
                                        "fwd:n1,c4,k4,i8x8,f3x3:s8-s8-s32:bias:xz=3",
                                        "fwd:n1,c4,k4,i8x8,f3x3,p1:xs=600.64.9.1:maxpool2",
                                        "fwd:n0,c2,k2,i4x4,f3x3,p1",
                                        "fwd:n1,c2,k2,i4x4,f3x3,p1"};
  polyconv_problem problem;
  const int32_t which = bytes.below(8);
  require(polyconv_problem_parse(kTokens[which], &problem) == POLYCONV_SUCCESS, "the target's tokens are valid");
  return std::vector<polyconv_problem>(which == 7 ? 1 + static_cast<size_t>(bytes.below(3)) : 1, problem);
}

polyconv_options draw_options(Bytes &bytes) {
  static const char *const kKernels[] = {nullptr, "fuzzed/*", "fuzzed/*@*", "*@odd", "!*@plain", "none/*"};
  static const char *const kGroupings[] = {nullptr, "none", "2", "1+1"};
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kKernels[bytes.below(6)];
  options.math = bytes.below(4);
  options.determinism = bytes.below(4);
  options.fallback = bytes.below(3);
  options.threads = 1;
  if (bytes.below(4) == 1) options.workspace_limit = bytes.below(256);
  if (bytes.below(4) == 1) options.shared_memory_limit = bytes.below(256);
  options.dynamic_weights = bytes.below(4) == 1;
  options.bind = bytes.yes();
  options.grouping = kGroupings[bytes.below(4)];
  options.tuning_budget_ms = bytes.below(8) == 1;
  options.allocator = {allocate, release, nullptr};
  return options;
}

// What the library says of a failure; one that it calls a defect must be the plug-in's.
void check_failure(polyconv_status status) {
  const std::string sentence = polyconv_last_error();
  if (status == POLYCONV_SUCCESS) return;
  require(!sentence.empty(), "a failure gets a sentence");
  require(status != POLYCONV_INTERNAL || sentence.find("fuzzed") != std::string::npos, "only the plug-in has defects");
}

void list() {
  require(polyconv_backend_count() == 1, "the plug-in is listed");
  polyconv_backend_info info = {};
  info.struct_size = sizeof info;
  require(polyconv_backend_get(0, &info) == POLYCONV_SUCCESS && info.available == 1, "it tells of itself");
  for (int32_t kernel = 0; kernel < info.kernel_count; ++kernel) {
    require(polyconv_backend_kernel(0, kernel) != nullptr, "each kernel has a name");
    for (const int32_t config : {-1, 0, 3, 65536}) polyconv_backend_config(0, kernel, config);
  }
  const polyconv_device *device = nullptr;
  const polyconv_status status = polyconv_device_find(info.device_kind, &device);
  require((status == POLYCONV_SUCCESS) == (std::string(info.device_kind) == "cpu"), "it brings no devices");
  check_failure(status);
}

void plan(const std::vector<polyconv_problem> &problems, const polyconv_options &options) {
  polyconv_plan *made = nullptr;
  const int32_t count = static_cast<int32_t>(problems.size());
  const polyconv_status status = polyconv_plan_create(nullptr, problems.data(), count, &options, &made);
  check_failure(status);
  if (status != POLYCONV_SUCCESS) return;
  polyconv_plan_info info = {};
  info.struct_size = sizeof info;
  require(polyconv_plan_get_info(made, &info) == POLYCONV_SUCCESS && info.workspace_bytes >= 0,
          "a plan has a workspace");
  require(info.estimate_us >= 0, "a plan takes some time");
  for (int32_t layer = 0; layer < count; ++layer) {
    int64_t bytes = -1;
    const char *format = nullptr;
    require(polyconv_plan_weights(made, layer, &format, &bytes) == POLYCONV_SUCCESS && format[0] != '\0' && bytes > 0,
            "a plan has weights");
  }
  polyconv_plan_destroy(made);
}

void explain(const std::vector<polyconv_problem> &problems, const polyconv_options &options) {
  polyconv_explanation *made = nullptr;
  const int32_t count = static_cast<int32_t>(problems.size());
  const polyconv_status status = polyconv_explain(nullptr, problems.data(), count, &options, &made);
  check_failure(status);
  if (status != POLYCONV_SUCCESS) return;
  require(polyconv_explanation_text(made)[0] != '\0', "an explanation says something");
  for (int32_t i = 0; i < polyconv_explanation_count(made); ++i) {
    polyconv_candidate candidate = {};
    candidate.struct_size = sizeof candidate;
    require(polyconv_explanation_get(made, i, &candidate) == POLYCONV_SUCCESS, "each answer is there");
    require(candidate.accepted != 0 || candidate.reason[0] != '\0', "who says no says why");
    require(candidate.workspace_bytes >= 0 && candidate.saved_bytes >= 0 && candidate.recomputed_outputs >= 0,
            "nobody needs less than nothing");
  }
  polyconv_explanation_destroy(made);
}

// Memory enough for any of the target's tensors and for what lies before them; the kernels touch none of it.
void run(const std::vector<polyconv_problem> &problems, const polyconv_options &options) {
  static char memory[6][1 << 14];
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = memory[0];
  buffers.output = memory[1];
  for (size_t layer = 0; layer < problems.size(); ++layer) {
    buffers.weights[layer] = memory[2];
    buffers.bias[layer] = memory[3];
  }
  check_failure(polyconv_convolve(nullptr, problems.data(), static_cast<int32_t>(problems.size()), &options, &buffers));
}

// The loader's verdict is the one that the drawn defects call for.
std::unique_ptr<polyconv::Backend> load(const Plugin &plugin) {
  const auto said = [&](const std::string &reason) {
    for (const std::string &complaint : plugin.complaints())
      if (reason.find(complaint) != std::string::npos) return true;
    polyconv::set_last_error(reason.c_str());
    return false;
  };
  try {
    std::unique_ptr<polyconv::Backend> backend = polyconv::open_built_in({polyconv_fuzz::kPluginName, Plugin::query});
    require(backend->available || !backend->reason.empty(), "a refused table gets a reason");
    require(backend->available ? plugin.complaints().empty() : said(backend->reason), "the reason is what is wrong");
    return backend;
  } catch (const polyconv::Failure &failure) {
    require(failure.status() == POLYCONV_OUT_OF_MEMORY, "only memory is no reason");
    require(plugin.complaints().count("memory") == 1, "memory runs out where the plug-in says so");
    require(failure.what()[0] != '\0', "memory that runs out gets a sentence");
  }
  return nullptr;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Bytes bytes(data, size);
  const std::vector<polyconv_problem> problems = draw_problems(bytes);
  polyconv_options options = draw_options(bytes);
  const Plugin plugin(bytes);
  if (plugin.has_many_configs()) { // leave the choice of them to the kernel
    options.kernel = nullptr;
    options.tuning_budget_ms = 0;
  }
  const std::unique_ptr<polyconv::Backend> backend = load(plugin);
  if (backend == nullptr || !backend->available) return 0;
  polyconv_fuzz::listed = backend.get();
  list();
  plan(problems, options);
  explain(problems, options);
  run(problems, options);
  polyconv_fuzz::listed = nullptr;
  require(polyconv_fuzz::alive == 0, "what kernels make is given back");
  return 0;
}
