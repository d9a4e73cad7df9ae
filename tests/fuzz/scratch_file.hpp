// scratch_file.hpp - one file of this process that a fuzz target fills anew for each input, for readers that take a
// path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace polyconv_fuzz {

class ScratchFile {
 public:
  // `name` is the file's own name: some readers decide by its extension.
  explicit ScratchFile(const std::string &name)
      : folder_(std::filesystem::temp_directory_path() / ("polyconv-fuzz-" + padded(::getpid()))),
        path_((folder_ / name).string()) {
    std::filesystem::create_directories(folder_);
  }
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ScratchFile(const ScratchFile &) = delete;
  ScratchFile &operator=(const ScratchFile &) = delete;

  const std::string &path() const { return path_; }
  std::string folder() const { return folder_.string(); }

  void write(const void *data, size_t size) {
    std::FILE *file = std::fopen(path_.c_str(), "wb");
    const bool whole = file != nullptr && (size == 0 || std::fwrite(data, 1, size, file) == size);
    if (file != nullptr) std::fclose(file);
    if (!whole) {
      std::fprintf(stderr, "the fuzz target cannot write %s\n", path_.c_str());
      std::abort();
    }
  }

 private:
  // Ten digits, so that a path is as long in each run: runs with a seed are to be alike.
  static std::string padded(int process) {
    const std::string digits = std::to_string(process);
    return std::string(digits.size() < 10 ? 10 - digits.size() : 0, '0') + digits;
  }

  std::filesystem::path folder_;
  std::string path_;
};

} // namespace polyconv_fuzz
