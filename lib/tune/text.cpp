// text.cpp - reads and writes the lines of the tuning database.
// SPDX-License-Identifier: Apache-2.0
#include "tune/text.hpp"

#include "base/read_number.hpp"
#include "token/text.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace polyconv {
namespace {

constexpr std::string_view kMagic = "# polyconv tuning ";
constexpr int32_t kVersion = 1;
constexpr int kFields = 9; // token, conditions, device; kernels, version, us, spread, workspace, date
constexpr int kKeyFields = 3;

// What comes before the separator, or all; it is taken from *text.
std::string_view take(std::string_view *text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view taken = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return taken;
}

template <class Number>
bool is_number(std::string_view text, Number *number) {
  const auto [end, error] = read_number(text, number);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_date(std::string_view text) {
  constexpr std::string_view kPattern = "0000-00-00";
  if (text.size() != kPattern.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (digit != (kPattern[i] == '0') || (!digit && text[i] != '-')) return false;
  }
  return true;
}

// The version in a first line, or 0 where it is another file's.
int32_t version_of(std::string_view line) {
  int32_t version = 0;
  if (line.substr(0, kMagic.size()) != kMagic || !is_number(line.substr(kMagic.size()), &version)) return 0;
  return version > 0 ? version : 0;
}

// The key that a line begins with; "" where it has not all fields, the last of them a date.
std::string_view key_of(std::string_view line) {
  size_t begin = 0, key_end = 0;
  for (int i = 0; i + 1 < kFields; ++i) {
    const size_t end = line.find('\t', begin);
    if (end == std::string_view::npos || end == begin) return {};
    if (i + 1 == kKeyFields) key_end = end;
    begin = end + 1;
  }
  return is_date(line.substr(begin)) ? line.substr(0, key_end) : std::string_view();
}

// Reads a line that has a key.
bool read_line(std::string_view line, Measurements *measurements) {
  std::string_view fields[kFields];
  for (std::string_view &field : fields) field = take(&line, '\t');
  Measurement measured;
  const bool good = is_number(fields[5], &measured.us) && is_number(fields[6], &measured.spread_us) &&
                    is_number(fields[7], &measured.workspace_bytes) && std::isfinite(measured.us) && measured.us > 0 &&
                    std::isfinite(measured.spread_us) && measured.spread_us >= 0 && measured.workspace_bytes >= 0;
  if (!good) return false;
  measured.version = fields[4];
  measured.date = fields[8];
  (*measurements)[std::string(fields[3])] = std::move(measured);
  return true;
}

} // namespace

TuningText find_tuning_lines(std::string_view text, TuningLines *lines, int64_t *skipped) {
  if (text.empty()) return TuningText::Read;
  if (version_of(text.substr(0, text.find('\n'))) == 0) return TuningText::Foreign;
  for (std::string_view rest = text; !rest.empty();) // files put one behind the other have several first lines
    if (version_of(take(&rest, '\n')) > kVersion) return TuningText::Newer;
  std::string_view key, *block = nullptr; // the last one, which the next line of its key makes longer
  while (!text.empty()) {
    const std::string_view line = take(&text, '\n');
    const std::string_view its_key = key_of(line);
    if (block != nullptr && its_key == key) {
      *block = {block->data(), static_cast<size_t>(line.data() + line.size() - block->data())};
      continue;
    }
    block = nullptr;
    if (line.empty() || version_of(line) != 0) continue;
    if (its_key.empty()) {
      ++*skipped;
      continue;
    }
    key = its_key;
    std::vector<std::string_view> &blocks = lines->try_emplace(lines->end(), key)->second;
    blocks.push_back(line);
    block = &blocks.back();
  }
  return TuningText::Read;
}

void read_tuning_lines(const std::vector<std::string_view> &blocks, Measurements *measurements, int64_t *skipped) {
  for (std::string_view rest : blocks)
    while (!rest.empty())
      if (!read_line(take(&rest, '\n'), measurements)) ++*skipped;
}

TuningText read_tuning_text(std::string_view text, TuningTable *table, int64_t *skipped) {
  TuningLines lines;
  const TuningText kind = find_tuning_lines(text, &lines, skipped);
  if (kind != TuningText::Read) return kind;
  for (const auto &[key, blocks] : lines) {
    Measurements read;
    read_tuning_lines(blocks, &read, skipped);
    if (read.empty()) continue;
    const auto found = table->find(key);
    if (found == table->end()) {
      table->emplace_hint(table->end(), std::string(key), std::move(read));
    } else {
      for (auto &[kernels, measured] : read) found->second[kernels] = std::move(measured);
    }
  }
  return kind;
}

std::string tuning_text(const TuningTable &table) {
  std::string text = std::string(kMagic) + std::to_string(kVersion) + "\n";
  const auto add = [&text](const std::string &field, char after) { text.append(field).push_back(after); };
  for (const auto &[key, measurements] : table)
    for (const auto &[kernels, measured] : measurements) {
      add(key, '\t');
      add(kernels, '\t');
      add(measured.version, '\t');
      add(to_text(measured.us), '\t');
      add(to_text(measured.spread_us), '\t');
      add(to_text(measured.workspace_bytes), '\t');
      add(measured.date, '\n');
    }
  return text;
}

std::string tuning_field(std::string text) {
  for (char &c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text.empty() ? "-" : text;
}

// After Howard Hinnant, "chrono-compatible low-level date algorithms", civil_from_days.
std::string date_text(int64_t seconds) {
  const int64_t days = seconds / 86400 + 719468; // since 0000-03-01
  const int64_t era = days / 146097, day_of_era = days % 146097;
  const int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month_from_march = (5 * day_of_year + 2) / 153;
  const int64_t day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
  const int64_t month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02d-%02d", static_cast<int>(year % 10000), static_cast<int>(month),
                static_cast<int>(day));
  return text;
}

} // namespace polyconv
