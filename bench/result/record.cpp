// record.cpp - one row of results and its fields.
// SPDX-License-Identifier: Apache-2.0
#include "result/record.hpp"

#include <algorithm>
#include <cmath>

#include "api/handles.hpp"
#include "result/fields.hpp"
#include "system/machine.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

Value value_of(const std::optional<double> &value, FieldText) {
  return value && std::isfinite(*value) ? Value(*value) : Value();
}
Value value_of(const std::optional<int64_t> &value, FieldText) {
  return value ? Value(*value) : Value();
}
Value value_of(const std::string &value, FieldText text) {
  return value.empty() && text == FieldText::kMayBeUnknown ? Value() : Value(value);
}
Value value_of(int64_t value, FieldText) {
  return value;
}
Value value_of(bool value, FieldText) {
  return value;
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

std::vector<Field> fields_of(const Record &record) {
  std::vector<Field> fields;
  each_field(record, [&](const char *field, const auto &value, FieldText text = FieldText::kMayBeUnknown) {
    fields.push_back({field, value_of(value, text)});
  });
  fields.push_back({"format", kRecordFormat});
  return fields;
}

} // namespace polyconv::bench
