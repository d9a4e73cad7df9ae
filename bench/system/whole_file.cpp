// whole_file.cpp - files that are written whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#include "system/whole_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// "" where everything is on its way to the disk; else why not.
std::string write_all(const std::string &path, const std::string &text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return "";
  return errno != 0 ? std::strerror(errno) : "it could not be opened";
}

} // namespace

void write_whole(const std::string &path, const std::string &text) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  const bool ordinary = kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular ||
                        kind == std::filesystem::file_type::none;
  const std::string beside = ordinary ? path + ".new" : path;
  std::string why = write_all(beside, text);
  if (why.empty() && ordinary) {
    std::filesystem::rename(beside, path, error);
    if (error) why = error.message();
  }
  if (why.empty()) return;
  if (ordinary) std::filesystem::remove(beside, error);
  throw Error(kUsage, "cannot write the file " + path + ": " + why);
}

} // namespace polyconv::bench
