// results.cpp - result files, read again.
// SPDX-License-Identifier: Apache-2.0
#include "result/results.hpp"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "result/fields.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

using Json = nlohmann::ordered_json;

namespace {

std::string text_at(const Json &json, const char *field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> number_at(const Json &json, const char *field) {
  const auto found = json.find(field);
  return found != json.end() && found->is_number() ? std::optional<double>(found->get<double>()) : std::nullopt;
}

std::optional<int64_t> whole_of(std::optional<double> number) {
  constexpr double kMost = 9007199254740992; // below it a double tells whole numbers apart
  if (!number || !(std::fabs(*number) <= kMost)) return std::nullopt;
  return static_cast<int64_t>(*number);
}

LayerLine layer_of(const Json &json) {
  const auto fallback = json.find("fallback");
  return {text_at(json, "name"),
          text_at(json, "problem"),
          whole_of(number_at(json, "count")).value_or(1),
          text_at(json, "kernel"),
          text_at(json, "math"),
          fallback != json.end() && fallback->is_boolean() && fallback->get<bool>()};
}

ProfileLine profile_line_of(const Json &json) {
  return {text_at(json, "kind"), text_at(json, "name"), number_at(json, "host_us"), number_at(json, "device_us"),
          whole_of(number_at(json, "bytes"))};
}

void read_field(const Json &json, const char *field, std::string &value) {
  value = text_at(json, field);
}
void read_field(const Json &json, const char *field, std::optional<double> &value) {
  value = number_at(json, field);
}
void read_field(const Json &json, const char *field, std::optional<int64_t> &value) {
  value = whole_of(number_at(json, field));
}
void read_field(const Json &json, const char *field, int64_t &value) {
  value = whole_of(number_at(json, field)).value_or(value);
}
void read_field(const Json &json, const char *field, bool &value) {
  const auto found = json.find(field);
  if (found != json.end() && found->is_boolean()) value = found->get<bool>();
}

// The lists beside a record's fields.
template <class R>
void read_lists(const Json &json, R &row) {
  const auto each = [&](const char *list, const auto &take) {
    const auto found = json.find(list);
    if (found == json.end() || !found->is_array()) return;
    for (const Json &line : *found) take(line);
  };
  each("layers", [&](const Json &layer) { row.layers.push_back(layer_of(layer)); });
  each("profile", [&](const Json &line) { row.profile.push_back(profile_line_of(line)); });
}

Result result_of(const Json &json, const std::string &place) {
  Result result;
  if (!json.is_object()) throw Error(kUsage, place + ": not a result: expected a JSON object");
  read_lists(json, result);
  for (const auto &[field, value] : json.items())
    if (!value.is_null() && field != "layers" && field != "profile")
      result.text[field] = value.is_string() ? value.get<std::string>() : value.dump();
  if (result.at("problem").empty() || result.at("status").empty())
    throw Error(kUsage, place + ": not a result: no problem or status");
  const std::optional<double> version = result.number("format");
  if (version && *version > static_cast<double>(kRecordFormat))
    throw Error(kUsage, place + format(": written by a later polyconv-bench: its records have format %g, and this one "
                                       "reads formats up to %lld",
                                       *version, static_cast<long long>(kRecordFormat)));
  return result;
}

} // namespace

std::optional<double> Result::number(const std::string &field) const {
  const auto found = text.find(field);
  if (found == text.end()) return std::nullopt;
  const double value = parse_real(found->second, field);
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

std::optional<int64_t> Result::whole(const std::string &field) const {
  return whole_of(number(field));
}

std::string Result::at(const std::string &field) const {
  const auto found = text.find(field);
  return found == text.end() ? "" : found->second;
}

ResultFile read_results(const std::string &path) {
  ResultFile file;
  std::vector<std::string> lines = read_lines(path);
  while (!lines.empty() && trim(lines.back()).empty()) lines.pop_back();
  for (size_t i = 0; i < lines.size(); ++i) {
    if (trim(lines[i]).empty()) continue;
    const std::string place = format("%s:%zu", path.c_str(), i + 1);
    try {
      file.rows.push_back(result_of(Json::parse(lines[i]), place));
    } catch (const Json::exception &) {
      const bool cut_off = i + 1 == lines.size() && !file.rows.empty() && trim(lines[i])[0] == '{';
      if (!cut_off) throw Error(kUsage, place + ": not a line of JSON as `run -o jsonl` writes it");
      file.warning = place + format(": the last line is cut off; the %zu rows before it are used", file.rows.size());
    }
  }
  if (file.rows.empty()) throw Error(kUsage, path + ": no results");
  return file;
}

std::vector<Result> read_all_results(const std::vector<std::string> &paths) {
  std::vector<Result> rows;
  for (const std::string &path : paths) {
    ResultFile file = read_results(path);
    if (!file.warning.empty()) std::cerr << "polyconv-bench: " << file.warning << "\n";
    for (Result &row : file.rows) rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<Record> read_record(const std::string &line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  Record record;
  each_field(record, [&](const char *field, auto &value, FieldText = FieldText::kMayBeUnknown) {
    read_field(json, field, value);
  });
  read_lists(json, record);
  return record;
}

std::string key_of(const Result &row) {
  std::string key;
  for (const char *field :
       {"problem", "device", "requested", "requested_math", "grouping", "threads", "cache", "baseline"})
    key += row.at(field) + "\n";
  if (row.at("beside") != "0") key += row.at("beside"); // older files do not know it
  return key;
}

std::vector<Result> last_of_each(const std::vector<Result> &rows) {
  std::vector<Result> last;
  std::map<std::string, size_t> places;
  for (const Result &row : rows) {
    const auto [found, added] = places.try_emplace(key_of(row) + "\n" + row.at("suite"), last.size());
    if (added)
      last.push_back(row);
    else
      last[found->second] = row;
  }
  return last;
}

} // namespace polyconv::bench
