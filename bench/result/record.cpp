// record.cpp - one row of results and its fields.
// SPDX-License-Identifier: Apache-2.0
#include "result/record.hpp"

#include <algorithm>
#include <cmath>

#include "api/handles.hpp"
#include "system/machine.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

Value number(const std::optional<double> &value) {
  return value && std::isfinite(*value) ? Value(*value) : Value();
}

Value number(const std::optional<int64_t> &value) {
  return value ? Value(*value) : Value();
}

// A name that may be unknown.
Value name(const std::string &text) {
  return text.empty() ? Value() : Value(text);
}

} // namespace

std::string without_configs(const std::string &kernel) {
  std::string text;
  bool config = false;
  for (char letter : kernel) {
    config = letter == '@' || (config && letter != ' ');
    if (!config) text += letter;
  }
  return text;
}

std::string kernels_text(const std::vector<LayerLine> &layers) {
  std::vector<std::pair<int64_t, std::string>> kernels;
  for (const LayerLine &layer : layers) {
    const std::string kernel = without_configs(layer.kernel) + (layer.fallback ? " (fallback)" : "");
    const auto known =
        std::find_if(kernels.begin(), kernels.end(), [&](const auto &other) { return other.second == kernel; });
    if (known == kernels.end())
      kernels.emplace_back(layer.count, kernel);
    else
      known->first += layer.count;
  }
  std::stable_sort(kernels.begin(), kernels.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<std::string> parts;
  parts.reserve(kernels.size());
  for (const auto &[count, kernel] : kernels) parts.push_back(std::to_string(count) + "x " + kernel);
  return join(parts, ", ");
}

std::string type_of(const Work &work) {
  if (work.is_network()) {
    const std::string first = type_of(work.layers.front());
    const bool same =
        std::all_of(work.layers.begin(), work.layers.end(), [&](const Work &layer) { return type_of(layer) == first; });
    return same ? first : "mixed";
  }
  const polyconv_problem &problem = work.problems.front();
  std::string input = polyconv_type_name(problem.input_type);
  if (problem.input_type == problem.weights_type && problem.input_type == problem.output_type) return input;
  return input + "-" + polyconv_type_name(problem.weights_type) + "-" + polyconv_type_name(problem.output_type);
}

std::string backend_of(const std::string &kernel) {
  return kernel.substr(0, kernel.find('/'));
}

Record make_record(const Work &work, const std::string &device, const std::string &requested) {
  Record record;
  record.problem = work.token;
  record.suite = work.suite;
  record.name = work.name;
  record.count = work.count;
  record.type = type_of(work);
  record.device = device;
  record.requested = requested;
  record.library_version = polyconv_version();
  record.date = utc_now();
  const polyconv_device *handle = nullptr;
  auto properties = sized<polyconv_device_properties>();
  if (polyconv_device_find(device.c_str(), &handle) == POLYCONV_SUCCESS &&
      polyconv_device_get_properties(handle, &properties) == POLYCONV_SUCCESS) {
    record.device_name = properties.name;
    record.driver = properties.description;
  }
  return record;
}

std::vector<Field> fields_of(const Record &r) {
  return {{"problem", r.problem},
          {"suite", name(r.suite)},
          {"name", name(r.name)},
          {"count", r.count},
          {"type", r.type},
          {"device", r.device},
          {"backend", name(r.backend)},
          {"kernel", name(r.kernel)},
          {"note", name(r.note)},
          {"technique", name(r.technique)},
          {"requested", r.requested},
          {"requested_math", r.requested_math},
          {"grouping", name(r.grouping)},
          {"math", name(r.math)},
          {"threads", number(r.threads)},
          {"beside", r.beside},
          {"cache", r.cache},
          {"status", r.status},
          {"reason", r.reason},
          {"fallback", r.fallback},
          {"median_us", number(r.median_us)},
          {"median_low_us", number(r.median_low_us)},
          {"median_high_us", number(r.median_high_us)},
          {"p95_us", number(r.p95_us)},
          {"min_us", number(r.min_us)},
          {"image_us", number(r.image_us)},
          {"first_us", number(r.first_us)},
          {"plan_us", number(r.plan_us)},
          {"pack_us", number(r.pack_us)},
          {"cold_us", number(r.cold_us)},
          {"cold_ratio", number(r.cold_ratio)},
          {"clock", name(r.clock)},
          {"wall_us", number(r.wall_us)},
          {"transfers_us", number(r.transfers_us)},
          {"end_to_end_us", number(r.end_to_end_us)},
          {"speedup", number(r.speedup)},
          {"transfers_speedup", number(r.transfers_speedup)},
          {"estimate_us", number(r.estimate_us)},
          {"samples", number(r.samples)},
          {"gflop", number(r.gflop)},
          {"bytes", number(r.bytes)},
          {"gflops", number(r.gflops)},
          {"gbps", number(r.gbps)},
          {"roofline_pct", number(r.roofline_pct)},
          {"workspace_bytes", number(r.workspace_bytes)},
          {"weights_bytes", number(r.weights_bytes)},
          {"baseline", name(r.baseline)},
          {"baseline_kernel", name(r.baseline_kernel)},
          {"baseline_note", name(r.baseline_note)},
          {"baseline_math", name(r.baseline_math)},
          {"baseline_reason", name(r.baseline_reason)},
          {"baseline_us", number(r.baseline_us)},
          {"ratio", number(r.ratio)},
          {"baseline_err", number(r.baseline_err)},
          {"max_abs_err", number(r.max_abs_err)},
          {"rel_l2_err", number(r.rel_l2_err)},
          {"bound_pct", number(r.bound_pct)},
          {"check", r.check},
          {"library_version", r.library_version},
          {"backend_version", name(r.backend_version)},
          {"device_name", name(r.device_name)},
          {"driver", name(r.driver)},
          {"date", r.date},
          {"format", kRecordFormat}};
}

} // namespace polyconv::bench
