// text.hpp - small questions about strings that every part of the bench asks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/printf.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../lib/base/near_word.hpp" // did_you_mean, for every sentence about an unknown word

namespace polyconv::bench {

// The exit codes of polyconv-bench.
enum Exit {
  kGood = 0,
  kWrong = 1,       // a wrong result, or a kernel or device that failed
  kUsage = 2,       // the command line or a file it names
  kMissing = 3,     // a backend or device is not on this machine
  kUnsupported = 4, // nobody takes the problem under these options
  kRegression = 5   // compare or --expect
};

// Ends the command with a sentence on stderr and an exit code.
class Error : public std::runtime_error {
 public:
  Error(int exit_code, const std::string &sentence) : std::runtime_error(sentence), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

POLYCONV_PRINTF(1, 2) std::string format(const char *pattern, ...);

std::string trim(const std::string &text);

// The parts between separators, trimmed; empty text has none.
std::vector<std::string> split(const std::string &text, char separator);

std::string join(const std::vector<std::string> &parts, const std::string &separator);

// '*' any run of characters, '?' one; several globs separated by commas.
bool glob_match(const std::string &globs, const std::string &name);

// The lines of a text, without a last empty one.
std::vector<std::string> split_lines(const std::string &text);

// The words of a POSIX shell's line: blanks divide, '…', "…" and \ keep what they hold, an unquoted # ends it.
// Error(kUsage) where a quote has no end.
std::vector<std::string> shell_words(const std::string &line);

// The lines of a text file without '\r'. Error(kUsage) when it cannot be read.
std::vector<std::string> read_lines(const std::string &path);

// A whole number or a real one, and nothing else; Error(kUsage) naming `what` otherwise.
int64_t parse_integer(const std::string &text, const std::string &what);
double parse_real(const std::string &text, const std::string &what);

// "64M", "1.5G", "4096": bytes in powers of 1024.
int64_t parse_bytes(const std::string &text, const std::string &what);

// 0 to 3600.
double parse_seconds(const std::string &text, const std::string &option);

// "5%" or "5": 0.05.
double parse_percent(const std::string &text, const std::string &what);

// For people: "12.3 us", "1.23 ms"; "64.0 MiB"; three digits that matter.
std::string show_time(double microseconds);
std::string show_bytes(double bytes);
std::string show_number(double value);

} // namespace polyconv::bench
