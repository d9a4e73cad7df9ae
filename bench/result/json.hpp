// json.hpp - what is written as JSON, and the cache of ceilings. The JSON library is included by json.cpp and
// results.cpp alone, because it is slow to compile.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ceilings/ceilings.hpp"
#include "result/record.hpp"

namespace polyconv::bench {

struct Info;      // info.hpp
struct Candidate; // explain.hpp

// The text as a JSON string, with its quotes.
std::string json_string(const std::string &text);

// One line of JSONL, without the newline.
std::string json_line(const Record &record);

// The cache of ceilings, keyed by processor and number of processors. None where the file is missing or foreign.
std::optional<Ceilings> load_ceilings(const std::filesystem::path &file, const std::string &processor, int processors);
void save_ceilings(const std::filesystem::path &file, const Ceilings &ceilings);

std::string info_json(const Info &info);
std::string explanation_json(const std::string &token, const std::string &device, const std::string &text,
                             const std::vector<Candidate> &candidates);

} // namespace polyconv::bench
