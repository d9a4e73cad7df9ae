// whole_file.cpp - files that are written whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#include "system/whole_file.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

bool is_ordinary(const std::string &path) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(path, ignored).type();
  return kind == std::filesystem::file_type::not_found || kind == std::filesystem::file_type::regular ||
         kind == std::filesystem::file_type::none;
}

std::string words_of_errno() {
  return errno != 0 ? std::strerror(errno) : "the system does not say why";
}

} // namespace

WholeFile::WholeFile(const std::string &path) : path_(path), beside_(is_ordinary(path) ? path + ".new" : path) {
  errno = 0;
  file_.open(beside_, std::ios::binary);
  if (!file_) fail(words_of_errno());
  open_ = true;
}

WholeFile::~WholeFile() {
  if (!open_ || beside_ == path_) return;
  file_.close();
  std::error_code ignored;
  std::filesystem::remove(beside_, ignored);
}

void WholeFile::keep() {
  errno = 0;
  if (!file_) { // for long, maybe: the reason is asked for again
    file_.clear();
    file_ << '\n';
    file_.flush();
    fail(words_of_errno());
  }
  file_.close();
  if (!file_) fail(words_of_errno());
  if (beside_ != path_) {
    std::error_code error;
    std::filesystem::rename(beside_, path_, error);
    if (error) fail(error.message());
  }
  open_ = false;
}

void WholeFile::fail(const std::string &why) {
  throw Error(kUsage, "cannot write the file " + path_ + ": " + why);
}

void write_whole(const std::string &path, const std::string &text) {
  WholeFile file(path);
  file.stream() << text;
  file.keep();
}

} // namespace polyconv::bench
