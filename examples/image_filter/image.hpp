// image.hpp - 8-bit pictures in and out: PNG and binary PPM or PGM are read, PNG is written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

enum ExitCode { kExitGood = 0, kExitFailed = 1, kExitUsage = 2, kExitUnavailable = 3, kExitUnsupported = 4 };

// What ends the program: one sentence and an exit code.
class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string &sentence) : std::runtime_error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

struct Image {
  int64_t width = 0, height = 0;
  int64_t channels = 0; // 1 grey, 3 red green blue, interleaved
  std::vector<uint8_t> pixels;
};

// Throws Failure for a file that cannot be read, is truncated, or is neither 8-bit grey nor 8-bit RGB.
Image read_image(const std::string &path);

// Writes beside `path` first and renames, so that `path` is either whole or untouched.
void write_png(const std::string &path, const Image &image);
