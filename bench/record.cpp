// record.cpp - one row of results and its fields.
// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <cmath>

#include "handles.hpp"
#include "machine.hpp"

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

std::string type_of(const polyconv_problem &problem) {
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
  record.type = type_of(work.problems.front());
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
          {"type", r.type},
          {"device", r.device},
          {"backend", name(r.backend)},
          {"kernel", name(r.kernel)},
          {"technique", name(r.technique)},
          {"requested", r.requested},
          {"requested_math", r.requested_math},
          {"math", name(r.math)},
          {"threads", number(r.threads)},
          {"cache", r.cache},
          {"status", r.status},
          {"reason", r.reason},
          {"fallback", r.fallback},
          {"median_us", number(r.median_us)},
          {"p95_us", number(r.p95_us)},
          {"min_us", number(r.min_us)},
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
          {"baseline_math", name(r.baseline_math)},
          {"baseline_reason", name(r.baseline_reason)},
          {"baseline_us", number(r.baseline_us)},
          {"ratio", number(r.ratio)},
          {"max_abs_err", number(r.max_abs_err)},
          {"rel_l2_err", number(r.rel_l2_err)},
          {"check", r.check},
          {"library_version", r.library_version},
          {"backend_version", name(r.backend_version)},
          {"device_name", name(r.device_name)},
          {"driver", name(r.driver)},
          {"date", r.date}};
}

} // namespace polyconv::bench
