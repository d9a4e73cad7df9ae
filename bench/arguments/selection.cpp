// selection.cpp - the shared options of run, check and explain, understood.
// SPDX-License-Identifier: Apache-2.0
#include "arguments/selection.hpp"

#include <algorithm>
#include <polyconv/sdk/check.hpp>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

int32_t parse_determinism(const std::string &word) {
  const char *const words[] = {"none", "run", "invariant", "identical"};
  for (int32_t level = 0; level < 4; ++level)
    if (word == words[level] || word == std::to_string(level)) return level;
  throw Error(kUsage, "--determinism: '" + word + "' is not none, run, invariant, identical or 0 to 3" +
                          did_you_mean(word, {std::begin(words), std::end(words)}));
}

// The kind of device that a backend serves, "" where unknown.
std::string kind_of_backend(const std::string &name) {
  auto info = sized<polyconv_backend_info>();
  for (int32_t i = 0; polyconv_backend_get(i, &info) == POLYCONV_SUCCESS; ++i)
    if (name == info.name) return info.device_kind;
  return "";
}

WorkRequest work_request(const Arguments &a) {
  WorkRequest request;
  request.tokens = a.problems;
  request.suites = split(a.suites, ',');
  request.chains = split(a.chain, ',');
  request.networks = split(a.networks, ',');
  if (!a.batches.empty()) request.batches = parse_numbers(a.batches, "--batch", 0);
  for (const std::string &set : a.sets) request.sweeps.push_back(parse_sweep(set));
  request.dtypes = split(a.dtypes, ',');
  request.layouts = split(a.layouts, ',');
  request.directions = split(a.directions, ',');
  return request;
}

} // namespace

MathMode parse_math(const std::string &word) {
  const char *const words[] = {"strict", "fp32_emulated", "tf32", "fast"};
  for (int32_t mode = 0; mode < 4; ++mode)
    if (word == words[mode]) return {word, mode};
  throw Error(kUsage, "math mode '" + word + "' is not strict, fp32_emulated, tf32 or fast" +
                          did_you_mean(word, {std::begin(words), std::end(words)}));
}

std::string kind_of(const std::string &device) {
  return device.substr(0, device.find(':'));
}

PlanRequest Selection::request(const std::string &glob, const MathMode &math, long long thread_count,
                               const std::string &grouping) const {
  PlanRequest request;
  request.kernel = glob;
  for (const std::string &pattern : forbidden) request.kernel += (request.kernel.empty() ? "!" : ",!") + pattern;
  request.math = math.mode;
  request.threads = static_cast<int32_t>(thread_count);
  request.determinism = determinism;
  request.workspace_limit = workspace_limit;
  request.grouping = grouping;
  request.shared_memory_limit = shared_memory_limit;
  request.tuning_ms = tuning_ms;
  return request;
}

Selection select(const Arguments &a, bool problems_required) {
  Selection selection;
  selection.works = collect_work(work_request(a));
  if (selection.works.empty() && problems_required)
    throw Error(
        kUsage,
        "no problem: give tokens such as fwd:n1,c64,k64,i56x56,f3x3,p1, --suite, --chain or, to run, --network");
  for (const std::string &device : split(a.devices, ',')) {
    const polyconv_device *handle = nullptr;
    if (polyconv_device_find(device.c_str(), &handle) == POLYCONV_INVALID_ARGUMENT)
      throw Error(kUsage, std::string("--device: ") + polyconv_last_error());
    selection.devices.push_back(device);
  }
  if (selection.devices.empty()) throw Error(kUsage, "--device: expected a device such as cpu");
  for (const std::string &backend : split(a.backends, ',')) selection.globs.push_back(backend + "/*");
  for (const std::string &glob : split(a.kernels, ','))
    (glob[0] == '!' ? selection.forbidden : selection.globs).push_back(glob[0] == '!' ? glob.substr(1) : glob);
  if (selection.globs.empty()) selection.globs = {""};
  for (const std::string &math : split(a.maths, ',')) selection.maths.push_back(parse_math(math));
  if (selection.maths.empty()) throw Error(kUsage, "--math: expected a mode such as strict");
  selection.threads = {0};
  if (!a.threads.empty()) selection.threads = parse_numbers(a.threads, "--threads", 0);
  for (long long count : selection.threads)
    if (count > 1024) throw Error(kUsage, format("--threads: %lld is above 1024", count));
  selection.determinism = parse_determinism(a.determinism);
  selection.workspace_limit = a.workspace_limit.empty() ? -1 : parse_bytes(a.workspace_limit, "--workspace-limit");
  selection.shared_memory_limit = a.shared_memory.empty() ? -1 : parse_bytes(a.shared_memory, "--shared-memory");
  selection.tuning_ms = static_cast<int64_t>(parse_seconds(a.tune, "--tune") * 1e3);
  if (!a.groupings.empty()) selection.groupings = split(a.groupings, ',');
  return selection;
}

std::vector<std::string> globs_on(const std::string &device, const Selection &selection) {
  std::vector<std::string> globs;
  for (const std::string &glob : selection.globs) {
    const std::string kind = kind_of_backend(glob.substr(0, glob.find('/')));
    const bool elsewhere = std::any_of(selection.devices.begin(), selection.devices.end(),
                                       [&](const std::string &other) { return kind_of(other) == kind; });
    if (kind.empty() || kind == kind_of(device) || !elsewhere) globs.push_back(glob);
  }
  return globs;
}

std::string as_named_by(const std::string &glob, const std::string &name) {
  return glob.find('@') == std::string::npos ? name.substr(0, name.find('@')) : name;
}

std::vector<std::string> names_on(const std::string &device, const Selection &selection) {
  std::vector<std::string> names;
  std::vector<std::string> all = check::kernel_names(kind_of(device));
  const auto is_forbidden = [&](const std::string &name) {
    return std::any_of(selection.forbidden.begin(), selection.forbidden.end(),
                       [&](const std::string &pattern) { return glob_match(pattern, as_named_by(pattern, name)); });
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_forbidden), all.end());
  for (const std::string &glob : globs_on(device, selection)) {
    const size_t before = names.size();
    for (const std::string &name : all)
      if (glob.empty() || glob_match(glob, as_named_by(glob, name))) names.push_back(name);
    if (names.size() == before) names.push_back(glob);
  }
  std::vector<std::string> distinct;
  for (const std::string &name : names)
    if (std::find(distinct.begin(), distinct.end(), name) == distinct.end()) distinct.push_back(name);
  return distinct;
}

} // namespace polyconv::bench
