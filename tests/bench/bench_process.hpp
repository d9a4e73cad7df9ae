// bench_process.hpp - tests that use polyconv-bench as a person does: run the binary, look at exit code and output.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench_files.hpp"

using Json = nlohmann::json;

struct Outcome {
  int code;
  std::string out, err;
};

inline std::string contents(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

// Runs the binary with its own cache folder; `setting` is put before it, as VARIABLE=value.
inline Outcome bench(const std::string &arguments, const std::string &setting = "") {
  const std::string binary = environment("POLYCONV_BENCH");
  REQUIRE_MESSAGE(!binary.empty(), "POLYCONV_BENCH must hold the path of polyconv-bench");
  const TemporaryFile out("", ".out"), err("", ".err");
  const std::string cache = environment("POLYCONV_BINARY_DIR") + "/tests/bench_cache";
  const std::string command = setting + " XDG_CACHE_HOME='" + cache + "' '" + binary + "' " + arguments + " >'" +
                              out.path() + "' 2>'" + err.path() + "'";
  const int status = std::system(command.c_str());
  return {status > 255 ? status / 256 : status, contents(out.path()), contents(err.path())};
}

inline std::vector<Json> lines_of(const std::string &text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

inline bool has(const std::string &text, const std::string &words) {
  return text.find(words) != std::string::npos;
}

inline constexpr const char *kQuick = " --min-time 0 --cache warm-only -o jsonl ";
inline constexpr const char *kSmall = "fwd:n1,c3,k4,i9x9,f3x3,p1";
