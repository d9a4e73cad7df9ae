// manual.cpp - the manual page, from the same table as --help.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.h>

#include "arguments/table.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// Text as man's macros take it: a '-' that is one, no command at the begin of a line.
std::string plain(const std::string &text) {
  std::string result;
  for (const char c : text) result += c == '-' ? "\\-" : c == '\\' ? "\\e" : std::string(1, c);
  return !result.empty() && (result[0] == '.' || result[0] == '\'') ? "\\&" + result : result;
}

std::string entry(const OptionRow &row, const std::string &title) {
  std::string text = ".TP\n.B " + plain(title);
  if (!row.type.empty() && !row.names.empty()) text += " \\fI" + plain(row.type) + "\\fR";
  text += "\n" + plain(row.help) + "\n";
  if (!row.values.empty()) text += "One of " + plain(join(row.values, ", ")) + ".\n";
  return text;
}

std::string examples(const std::string &command) {
  std::string text;
  for (const Example &example : examples_of(command))
    text += ".TP\n.B polyconv\\-bench " + plain(example.line) + "\n" + plain(example.meaning) + "\n";
  return text;
}

} // namespace

std::string manual_page() {
  std::string text = ".TH POLYCONV\\-BENCH 1 \"\" \"polyconv " + plain(polyconv_version()) + "\" \"User commands\"\n";
  text += ".SH NAME\npolyconv\\-bench \\- time, check, explain and report convolutions\n";
  text += ".SH SYNOPSIS\n.B polyconv\\-bench\n\\fICOMMAND\\fR [\\fIWORD\\fR...] [\\fIOPTION\\fR...]\n";
  text +=
      ".SH DESCRIPTION\nSays what the convolution library polyconv does on this machine, how fast, and whether it is "
      "right. A problem is one token, such as\n.BR fwd:n1,c64,k64,i56x56,f3x3,p1 .\n";
  text += ".SH EXAMPLES\n" + examples("");
  for (const CommandRow &command : command_table()) {
    text += ".SH \"" + plain(command.name) + "\"\n" + plain(command.help) + ".\n";
    text += examples(command.name);
    for (const OptionRow &row : command.positionals) text += entry(row, row.type);
    for (const OptionRow &row : command.options) text += entry(row, join(row.names, ", "));
  }
  text +=
      ".SH \"EXIT STATUS\"\n0 good, 1 a wrong result or a failure, 2 usage, 3 backend or device missing, 4 "
      "unsupported, 5 regression, 130 interrupted.\n";
  return text + ".SH \"SEE ALSO\"\ndocs/bench.md of polyconv has every command with examples.\n";
}

} // namespace polyconv::bench
