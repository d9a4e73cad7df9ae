// complete.cpp - what may stand where somebody presses the tab key.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "arguments/shells.hpp"
#include "arguments/table.hpp"
#include "system/machine.hpp"
#include "text/text.hpp"
#include "work/suite.hpp"

namespace polyconv::bench {

namespace {

using Words = std::vector<std::string>;

// Those that begin so.
Words beginning(const Words &words, const std::string &begin) {
  Words found;
  for (const std::string &word : words)
    if (word.rfind(begin, 0) == 0) found.push_back(word);
  return found;
}

const Words kDirections = {"fwd:", "bwd_d:", "bwd_w:", "tfwd:", "tbwd_d:", "tbwd_w:"};
const Words kFields = {"n", "c", "k", "g", "i", "f", "s", "p", "d", "o"};
const Words kParts = {"nchw", "nhwc", "kcrs",      "krsc",      "f64",      "f32",  "f16",
                      "bf16", "s8",   "u8-s8-s32", "u8-f32-u8", "pad=",     "flip", "separable",
                      "xz=",  "wz=",  "scale",     "bias",      "residual", "relu", "q="};

// Within a token: behind its last ',' a field that it has not yet, behind its second ':' and each further one a part.
Words token_words(const std::string &token) {
  const size_t colon = token.find(':');
  if (colon == std::string::npos) return beginning(kDirections, token);
  const size_t last = token.find_last_of(":,"), parts = token.find(':', colon + 1);
  const std::string before = token.substr(0, last + 1), begun = token.substr(last + 1);
  Words found;
  if (parts == std::string::npos) {
    for (const std::string &field : beginning(kFields, begun)) {
      const size_t at = token.find(':');
      const bool there = (token.substr(at, 1 + field.size()) == ":" + field && last != at) ||
                         token.substr(0, last + 1).find("," + field) != std::string::npos;
      if (!there) found.push_back(before + field);
    }
    return found;
  }
  for (const std::string &part : beginning(kParts, begun)) found.push_back(before + part);
  return found;
}

// The words that an option takes: those of the table, or names of what ships.
Words values_of(const OptionRow &option) {
  const auto is = [&](const char *name) {
    return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  };
  if (is("--suite") || is("--network")) return suite_names();
  if (is("--chain")) return chain_names();
  if (is("--expect")) return file_names(data_folder("expect"), ".csv");
  if (is("--dtype")) return {"f32", "f16", "bf16", "f64", "s8", "u8-f32-u8"};
  if (is("--layout")) return {"nchw", "nhwc", "nchw-nhwc", "nhwc-nchw"};
  if (is("--direction")) return {"fwd", "bwd_d", "bwd_w"};
  if (is("--math")) return {"strict", "fp32_emulated", "tf32", "fast"};
  if (is("--determinism")) return {"none", "run", "invariant", "identical"};
  if (is("--progress")) return {"auto", "always", "never"};
  return option.values;
}

// Of a list "a,b,c" the last one is completed.
Words list_words(const Words &values, const std::string &begun) {
  const size_t comma = begun.rfind(',');
  const std::string before = comma == std::string::npos ? "" : begun.substr(0, comma + 1);
  Words found;
  for (const std::string &value : beginning(values, begun.substr(before.size()))) found.push_back(before + value);
  return found;
}

} // namespace

std::vector<std::string> completions(const std::vector<std::string> &words) {
  const std::vector<CommandRow> table = command_table();
  const std::string last = words.empty() ? "" : words.back();
  const auto command =
      words.size() < 2 ? table.end() : std::find_if(table.begin(), table.end(), [&](const CommandRow &row) {
        return std::find(words.begin(), words.end() - 1, row.name) != words.end() - 1;
      });
  if (command == table.end()) {
    Words names = {"--help", "--version"};
    for (const CommandRow &row : table) names.push_back(row.name);
    return beginning(names, last);
  }
  const auto option_called = [&](const std::string &name) {
    return std::find_if(command->options.begin(), command->options.end(), [&](const OptionRow &row) {
      return std::find(row.names.begin(), row.names.end(), name) != row.names.end();
    });
  };
  const size_t sign = last.find('=');
  if (last.rfind("--", 0) == 0 && sign != std::string::npos) { // --suite=re
    const auto option = option_called(last.substr(0, sign));
    Words found;
    if (option != command->options.end())
      for (const std::string &value : list_words(values_of(*option), last.substr(sign + 1)))
        found.push_back(last.substr(0, sign + 1) + value);
    return found;
  }
  if (last.rfind('-', 0) == 0) {
    Words names = {"--help"};
    for (const OptionRow &row : command->options) names.insert(names.end(), row.names.begin(), row.names.end());
    return beginning(names, last);
  }
  const auto before = option_called(words[words.size() - 2]);
  if (before != command->options.end() && !before->type.empty()) return list_words(values_of(*before), last);
  for (const OptionRow &row : command->positionals) {
    if (row.type == "PROBLEM") return token_words(last);
    if (!row.values.empty()) return beginning(row.values, last);
  }
  return {};
}

std::string completion_script(const std::string &shell) {
  if (shell == "bash") return kBashCompletion;
  if (shell == "zsh") return kZshCompletion;
  if (shell == "fish") return kFishCompletion;
  throw Error(kUsage, "completion: '" + shell + "' is none of bash, zsh and fish");
}

} // namespace polyconv::bench
