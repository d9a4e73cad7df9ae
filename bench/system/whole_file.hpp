// whole_file.hpp - files that are written whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <string>

namespace polyconv::bench {

// A file that is written beside its path, as PATH.new, until it takes its place: what was there stays where the disk is
// full, and no reader sees half of the new one. What is no ordinary file (/dev/stdout) is written as it is.
class WholeFile {
 public:
  // Error(kUsage) naming the file and why.
  explicit WholeFile(const std::string &path);
  ~WholeFile(); // what has not taken its place goes
  WholeFile(const WholeFile &) = delete;
  WholeFile &operator=(const WholeFile &) = delete;

  std::ostream &stream() { return file_; }

  // Takes its place. Error(kUsage) naming the file and why not.
  void keep();

 private:
  [[noreturn]] void fail(const std::string &why);

  std::string path_, beside_;
  std::ofstream file_;
  bool open_ = false;
};

void write_whole(const std::string &path, const std::string &text);

} // namespace polyconv::bench
