// commands.hpp - the commands of polyconv-bench. Each returns the exit code; Error ends it with another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "arguments/arguments.hpp"
#include "system/whole_file.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

int run_command(const Arguments &arguments);
int check_command(const Arguments &arguments);
int explain_command(const Arguments &arguments);
int tune_command(const Arguments &arguments);
int compare_command(const Arguments &arguments);
int plot_command(const Arguments &arguments);
int report_command(const Arguments &arguments);
int watch_command(const Arguments &arguments);
int import_command(const Arguments &arguments);
int replay_command(const Arguments &arguments);
int doctor_command();
int info_command(const Arguments &arguments);

// stdout, or the file of --out, which is refused where its ending says another format than those of `endings`: what is
// written would not be what its name says. With -o the name may be any; without an ending, or with one of plain text,
// it holds a table. A file takes its place, and that of the one before it, by finish.
class Output {
 public:
  Output(const Arguments &arguments, const std::vector<std::string> &endings) {
    const std::string &path = arguments.out_file;
    if (path.empty()) return;
    if (arguments.output.empty()) refuse_ending(path, endings);
    file_.emplace(path);
  }
  std::ostream &stream() { return file_ ? file_->stream() : std::cout; }

  // Error(kUsage) where not all could be written.
  void finish();

 private:
  static void refuse_ending(const std::string &path, const std::vector<std::string> &endings);

  std::optional<WholeFile> file_;
};

} // namespace polyconv::bench
