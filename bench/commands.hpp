// commands.hpp - the commands of polyconv-bench. Each returns the exit code; Error ends it with another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <iostream>
#include <string>

#include "arguments.hpp"
#include "text.hpp"

namespace polyconv::bench {

int run_command(const Arguments &arguments);
int check_command(const Arguments &arguments);
int explain_command(const Arguments &arguments);
int compare_command(const Arguments &arguments);
int plot_command(const Arguments &arguments);
int info_command(const Arguments &arguments);

// stdout, or the file of --out.
class Output {
 public:
  explicit Output(const std::string &path) {
    if (path.empty()) return;
    file_.open(path);
    if (!file_) throw Error(kUsage, "cannot write the file " + path);
  }
  std::ostream &stream() { return file_.is_open() ? static_cast<std::ostream &>(file_) : std::cout; }

 private:
  std::ofstream file_;
};

} // namespace polyconv::bench
