// spread.cpp - the spread of each machine, kept for later comparisons: a line "0.041 AMD EPYC".
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include "judge/changes.hpp"
#include "system/machine.hpp"
#include "system/whole_file.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

std::filesystem::path spread_file() {
  const std::filesystem::path folder = cache_folder();
  return folder.empty() ? folder : folder / "spread.txt";
}

// Every machine's, in the file's order; lines that are none are left out.
std::vector<std::pair<std::string, double>> read_spreads() {
  std::vector<std::pair<std::string, double>> spreads;
  std::error_code ignored;
  if (spread_file().empty() || !std::filesystem::exists(spread_file(), ignored)) return spreads;
  for (const std::string &line : read_lines(spread_file().string())) {
    const size_t blank = line.find(' ');
    if (blank == std::string::npos) continue;
    try {
      const double spread = parse_real(line.substr(0, blank), "a spread");
      if (spread >= 0) spreads.emplace_back(line.substr(blank + 1), spread);
    } catch (const Error &) {
      continue;
    }
  }
  return spreads;
}

} // namespace

std::optional<double> known_spread(const std::string &device_name) {
  for (const auto &[name, spread] : read_spreads())
    if (name == device_name) return spread;
  return std::nullopt;
}

void keep_spread(const std::string &device_name, double spread) {
  if (spread_file().empty())
    throw Error(kUsage, "the spread cannot be kept: neither XDG_CACHE_HOME nor HOME says where");
  std::string text;
  for (const auto &[name, other] : read_spreads())
    if (name != device_name) text += format("%.4f ", other) + name + "\n";
  text += format("%.4f ", spread) + device_name + "\n";
  std::error_code ignored;
  std::filesystem::create_directories(spread_file().parent_path(), ignored);
  write_whole(spread_file().string(), text);
}

} // namespace polyconv::bench
