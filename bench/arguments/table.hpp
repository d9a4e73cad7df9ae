// table.hpp - the commands and options as data: what --help shows, the manual page and completion are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace polyconv::bench {

struct OptionRow {
  std::vector<std::string> names;  // "--out", "-o"; none of a positional
  std::string type, help;          // "FILE", "" of a flag; a sentence
  std::vector<std::string> values; // the words that it takes, where they are few
};

struct CommandRow {
  std::string name, help;
  std::vector<OptionRow> positionals, options;
};

// What one types behind the program's name, and what that does.
struct Example {
  std::string line, meaning;
};

// Examples of a command; of "" what people begin with.
std::vector<Example> examples_of(const std::string &command);

// Every command in the order of --help (cli.cpp).
std::vector<CommandRow> command_table();

// What may stand in the place of the last word, which is begun already, after the words before it: commands, options,
// their values, the names of suites, chains and files of bars, and within a token its fields and parts. None where a
// file name is wanted, which shells complete themselves.
std::vector<std::string> completions(const std::vector<std::string> &words);

// The script by which a shell asks for completions: "bash", "zsh", "fish". Error(kUsage) for another word.
std::string completion_script(const std::string &shell);

// The manual page in man's macros.
std::string manual_page();

} // namespace polyconv::bench
