// json.hpp - everything that is written or read as JSON. The JSON library is included by json.cpp alone, because it
// is slow to compile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ceilings/ceilings.hpp"
#include "result/record.hpp"

namespace polyconv::bench {

struct Info;      // info.hpp
struct Candidate; // explain.hpp

// One line of JSONL, without the newline.
std::string json_line(const Record &record);

// One row of a result file, as it is compared.
struct Result {
  std::map<std::string, std::string> text; // strings; numbers as text; null left out
  std::optional<double> number(const std::string &field) const;
  std::string at(const std::string &field) const; // "" where null or absent
};

// Reads a JSONL file of `run`. Error(kUsage) naming file and line.
std::vector<Result> read_results(const std::string &path);

// The cache of ceilings, keyed by processor and number of processors. None where the file is missing or foreign.
std::optional<Ceilings> load_ceilings(const std::filesystem::path &file, const std::string &processor, int processors);
void save_ceilings(const std::filesystem::path &file, const Ceilings &ceilings);

std::string info_json(const Info &info);
std::string explanation_json(const std::string &token, const std::string &device, const std::string &text,
                             const std::vector<Candidate> &candidates);

} // namespace polyconv::bench
