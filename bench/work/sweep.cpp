// sweep.cpp - comma lists, a:b:step, and their use on the numeric fields of a problem token.
// SPDX-License-Identifier: Apache-2.0
#include "work/sweep.hpp"

#include <algorithm>
#include <cctype>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

constexpr size_t kMostValues = 100000; // a typing error should not eat the memory

void append_range(std::vector<std::string> &values, const std::string &item, const std::string &what) {
  const std::vector<std::string> parts = split(item, ':');
  if (parts.size() != 3) throw Error(kUsage, what + ": '" + item + "' is not a sweep begin:end:step");
  const int64_t begin = parse_integer(parts[0], what), end = parse_integer(parts[1], what);
  const int64_t step = parse_integer(parts[2], what);
  if (step < 1 || end < begin)
    throw Error(kUsage, what + ": the sweep '" + item + "' needs begin <= end and a step of at least 1");
  const uint64_t steps = (static_cast<uint64_t>(end) - static_cast<uint64_t>(begin)) / static_cast<uint64_t>(step);
  if (steps >= kMostValues) throw Error(kUsage, what + ": the sweep '" + item + "' has more than 100000 values");
  for (int64_t i = 0; i <= static_cast<int64_t>(steps); ++i) values.push_back(std::to_string(begin + i * step));
}

bool is_number(const std::string &text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char letter) { return std::isdigit(letter) != 0; });
}

// The letters that a field of the token begins with: "c64" -> "c".
std::string name_of(const std::string &field) {
  size_t length = 0;
  while (length < field.size() && std::isalpha(static_cast<unsigned char>(field[length]))) ++length;
  return field.substr(0, length);
}

} // namespace

std::vector<std::string> parse_values(const std::string &list, const std::string &what) {
  std::vector<std::string> values;
  for (const std::string &item : split(list, ',')) {
    if (item.empty()) throw Error(kUsage, format("%s: '%s' has an empty item", what.c_str(), list.c_str()));
    if (item.find(':') != std::string::npos)
      append_range(values, item, what);
    else
      values.push_back(item);
  }
  if (values.empty()) throw Error(kUsage, what + ": expected a value, a comma list or begin:end:step");
  return values;
}

std::vector<long long> parse_numbers(const std::string &list, const std::string &what, long long least) {
  std::vector<long long> numbers;
  for (const std::string &value : parse_values(list, what)) {
    const long long number = parse_integer(value, what);
    if (number < least) throw Error(kUsage, format("%s: %lld is below %lld", what.c_str(), number, least));
    numbers.push_back(number);
  }
  return numbers;
}

Sweep parse_sweep(const std::string &text) {
  Sweep sweep;
  sweep.fields = split(text, '=');
  if (sweep.fields.size() < 2 || sweep.fields.back().empty())
    throw Error(kUsage, "--set: '" + text + "' is not field=values, such as c=16:64:16");
  sweep.values = parse_values(sweep.fields.back(), "--set " + text);
  sweep.fields.pop_back();
  const size_t dot = sweep.fields.front().find('.');
  if (dot != std::string::npos) {
    sweep.layer = static_cast<size_t>(parse_numbers(sweep.fields.front().substr(0, dot), "--set " + text, 0).front());
    sweep.fields.front().erase(0, dot + 1);
  }
  for (const std::string &field : sweep.fields)
    if (field.empty() || name_of(field) != field)
      throw Error(kUsage, "--set: '" + field + "' is not the name of a field of a problem token, such as c");
  return sweep;
}

std::string set_field(const std::string &token, const std::string &name, const std::string &value) {
  std::vector<std::string> parts = split(token, ':');
  if (parts.size() < 2) throw Error(kUsage, "the problem '" + token + "' has no dimensions");
  std::vector<std::string> fields = split(parts[1], ',');

  std::string text = value;
  if (name == "i" && is_number(value)) {
    const auto input =
        std::find_if(fields.begin(), fields.end(), [](const std::string &field) { return name_of(field) == "i"; });
    if (input != fields.end())
      for (auto crosses = std::count(input->begin(), input->end(), 'x'); crosses > 0; --crosses) text += "x" + value;
  }

  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const std::string &candidate) { return name_of(candidate) == name; });
  if (field != fields.end())
    *field = name + text;
  else
    fields.push_back(name + text);
  parts[1] = join(fields, ",");
  return join(parts, ":");
}

} // namespace polyconv::bench
