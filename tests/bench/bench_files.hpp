// bench_files.hpp - a file that lives as long as a test needs it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string &text, const std::string &extension = ".csv")
      : path_(std::filesystem::temp_directory_path() /
              ("polyconv_bench_test_" + std::to_string(std::random_device()()) + extension)) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};
