// cli.cpp - the command line: what is typed, what is wrong with it, help. Besides commands.cpp the only file that
// includes the option parser, because it is slow to compile.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <sstream>

#include "arguments/arguments.hpp"
#include "arguments/commands.hpp"
#include "arguments/table.hpp"
#include "system/terminal.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

const char *const kFooter =
    "polyconv-bench COMMAND --help has a command's options.\n"
    "Exit codes: 0 good, 1 wrong result, 2 usage, 3 backend or device missing, 4 unsupported, 5 regression, 130 "
    "interrupted.";

// "--bakend" of "--bakend=x": an option as it was typed.
std::string option_word(const std::string &word) {
  return word.substr(0, word.find('='));
}

std::vector<std::string> option_names(const CLI::App &command) {
  std::vector<std::string> names = {"--help"};
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// What is wrong with the line, in words, and what was probably meant.
std::string complaint(const CLI::App &app, const std::vector<std::string> &words, const CLI::ParseError &error) {
  const std::vector<CLI::App *> chosen = app.get_subcommands();
  if (chosen.empty()) {
    std::vector<std::string> commands;
    for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; }))
      commands.push_back(command->get_name());
    std::string sentence = "expected a command: " + join(commands, ", ");
    if (!words.empty()) sentence += did_you_mean(words.front(), commands);
    return sentence;
  }
  const std::vector<std::string> known = option_names(*chosen.front());
  for (const std::string &word : words) { // of an unknown option the parser would name the value too
    const std::string option = option_word(word);
    if (option.rfind("--", 0) != 0 || std::find(known.begin(), known.end(), option) != known.end()) continue;
    return chosen.front()->get_name() + " has no option " + option + did_you_mean(option, known);
  }
  return error.what();
}

// Commands by what one wants to do, as --help shows them; those that are not listed stand behind.
void group_commands(CLI::App &app) {
  static const std::pair<const char *, std::vector<const char *>> kTasks[] = {
      {"Measure", {"run", "check", "tune", "replay"}},
      {"Understand", {"explain", "info", "doctor"}},
      {"Read results", {"report", "compare", "watch", "plot"}},
      {"Bring along", {"import", "completion", "man"}}};
  for (const auto &[task, names] : kTasks)
    for (const char *name : names) app.get_subcommand(name)->group(task);
}

void build(CLI::App &app, Arguments &arguments) {
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("polyconv-bench ") + polyconv_version());
  app.footer(kFooter);
  add_commands(app, arguments);
  group_commands(app);
}

// Help with the examples of a command, or of the program, first.
std::string with_examples(const std::string &help, const std::string &command) {
  size_t widest = 0;
  for (const Example &example : examples_of(command)) widest = std::max(widest, example.line.size());
  std::string text = "Examples:\n";
  for (const Example &example : examples_of(command))
    text += "  polyconv-bench " + example.line + std::string(widest + 2 - example.line.size(), ' ') + example.meaning +
            "\n";
  const size_t usage = help.find("\nUsage:");
  if (usage == std::string::npos || examples_of(command).empty()) return help;
  const size_t end = help.find('\n', usage + 1) + 1;
  return help.substr(0, end) + "\n" + text + help.substr(end);
}

// Help in lines of the terminal's width; what is broken stands under the column of descriptions.
std::string fitted(const std::string &help, size_t columns) {
  constexpr size_t kColumn = 30; // where the parser begins descriptions
  if (columns < kColumn + 30) return help;
  std::string text;
  for (std::string line : split_lines(help)) {
    const size_t indent = line.size() > kColumn && line[0] == ' ' ? kColumn : 0;
    while (line.size() > columns) {
      const size_t blank = line.rfind(' ', columns);
      if (blank == std::string::npos || blank <= indent) break;
      text += line.substr(0, blank) + "\n";
      line = std::string(indent, ' ') + line.substr(blank + 1);
    }
    text += line + "\n";
  }
  return text;
}

// The words of "FORMAT:{table,markdown}", which the parser makes of an option that takes no others.
void take_type(const CLI::Option &option, OptionRow &row) {
  const std::string type = option.get_items_expected_max() == 0 ? "" : option.get_type_name();
  const size_t brace = type.find(":{");
  row.type = type.substr(0, brace);
  if (brace != std::string::npos) row.values = split(type.substr(brace + 2, type.size() - brace - 3), ',');
}

// Options may stand before the command too: the command goes first.
std::vector<std::string> with_command_first(int argc, char **argv, const CLI::App &app) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0].empty() || words[0][0] != '-' || words[0] == "--help" || words[0] == "-h") return words;
  const auto is_command = [&](const std::string &word) {
    const auto commands = app.get_subcommands([](const CLI::App *) { return true; });
    return std::any_of(commands.begin(), commands.end(), [&](const CLI::App *c) { return c->get_name() == word; });
  };
  const auto command = std::find_if(words.begin(), words.end(), is_command);
  if (command != words.end()) std::rotate(words.begin(), command, command + 1);
  return words;
}

} // namespace

int parse_arguments(int argc, char **argv, Arguments &arguments) {
  CLI::App app{"polyconv-bench: what the convolution library polyconv does on this machine, and how fast.",
               "polyconv-bench"};
  build(app, arguments);
  std::vector<std::string> words = with_command_first(argc, argv, app);
  const std::vector<std::string> typed = words;
  std::reverse(words.begin(), words.end()); // the parser takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::ParseError &error) {
    // Help and version come as errors with exit code 0; every other one is the caller's.
    if (error.get_exit_code() == 0) {
      std::ostringstream text;
      app.exit(error, text, text);
      const auto chosen = app.get_subcommands();
      const std::string command = chosen.empty() ? "" : chosen.front()->get_name();
      std::cout << fitted(with_examples(text.str(), command), stdout_columns()) << std::flush;
      return kGood;
    }
    const std::string sentence = complaint(app, typed, error);
    std::cerr << "polyconv-bench: " << sentence << (sentence.back() == '?' ? " See" : "; see")
              << " polyconv-bench --help\n";
    return kUsage;
  }
  arguments.command = app.get_subcommands().front()->get_name();
  return -1;
}

std::vector<CommandRow> command_table() {
  CLI::App app;
  Arguments unused;
  build(app, unused);
  std::vector<CommandRow> table;
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *) { return true; })) {
    CommandRow row = {command->get_name(), command->get_description(), {}, {}};
    for (const CLI::Option *option : command->get_options()) {
      OptionRow own = {{}, "", option->get_description(), {}};
      take_type(*option, own);
      for (const std::string &name : option->get_lnames()) own.names.push_back("--" + name);
      for (const std::string &name : option->get_snames()) own.names.push_back("-" + name);
      if (option->get_positional())
        row.positionals.push_back(own);
      else if (own.names.front() != "--help")
        row.options.push_back(own);
    }
    table.push_back(std::move(row));
  }
  return table;
}

} // namespace polyconv::bench
