// import_command.cpp - `polyconv-bench import`: convolutions of other programs' logs and models as a suite.
// SPDX-License-Identifier: Apache-2.0
#include "command/commands.hpp"
#include "import/import.hpp"
#include "system/progress.hpp"
#include "system/whole_file.hpp"

namespace polyconv::bench {

namespace {

OpenSizes sizes_of(const std::vector<std::string> &options) {
  OpenSizes sizes;
  for (const std::string &option : options) {
    const size_t sign = option.rfind('=');
    if (sign == std::string::npos || sign == 0)
      throw Error(kUsage, "--size: '" + option + "' is not NAME=NUMBER, as in batch=1 or input@0=1");
    sizes.emplace_back(option.substr(0, sign),
                       parse_integer(option.substr(sign + 1), "--size " + option.substr(0, sign)));
  }
  return sizes;
}

} // namespace

int import_command(const Arguments &a) {
  const OpenSizes sizes = sizes_of(a.sizes);
  std::string text;
  Progress progress(a.result_files.size(), a.progress);
  for (const std::string &file : a.result_files) {
    progress.next("reading " + file);
    const Imported imported = import_file(file, sizes);
    progress.wipe();
    for (const std::string &warning : imported.warnings) std::cerr << "polyconv-bench: " << warning << "\n";
    text += suite_text(imported, file);
  }
  if (!a.out_file.empty()) {
    write_whole(a.out_file, text);
    return kGood;
  }
  std::cout << text;
  return kGood;
}

} // namespace polyconv::bench
