// commands.cpp - what the commands of polyconv-bench share.
// SPDX-License-Identifier: Apache-2.0
#include "command/commands.hpp"

#include <algorithm>
#include <filesystem>

namespace polyconv::bench {

void Output::refuse_ending(const std::string &path, const std::vector<std::string> &endings) {
  const std::string ending = std::filesystem::path(path).extension().string();
  const bool plain = ending.empty() || ending == ".txt" || ending == ".log" || ending == ".out";
  if (plain || std::find(endings.begin(), endings.end(), ending) != endings.end()) return;
  throw Error(kUsage, "--out: '" + path + "' ends in " + ending + "; expected " + join(endings, ", ") + " or .txt" +
                          did_you_mean(ending, endings));
}

void Output::finish() {
  if (file_) return file_->keep();
  std::cout.flush();
  if (!std::cout) throw Error(kUsage, "the output could not be written");
}

} // namespace polyconv::bench
