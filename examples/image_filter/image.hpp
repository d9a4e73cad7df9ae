// image.hpp - pictures in and out: binary PPM or PGM, PNG of every kind where libpng was there, and JPEG where libjpeg
// was are read; PNG, PPM and PGM are written. 8 or 16 bits a sample, grey or colour, with or without alpha.
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
  int64_t channels = 0;        // samples of a pixel: 1 grey, 2 grey and alpha, 3 red green blue, 4 with alpha
  int64_t bytes = 1;           // of a sample: 1, or 2 in the machine's own order
  std::vector<uint8_t> pixels; // row by row, samples of a pixel beside each other

  bool alpha() const { return channels % 2 == 0; }
  int64_t colours() const { return channels - (alpha() ? 1 : 0); }
  int64_t row_bytes() const { return width * channels * bytes; }
  int64_t samples() const { return width * height * channels; }
  int32_t sample(int64_t i) const; // by number
};

// An image of that size, filled with 0. Throws Failure, naming `path`, where this machine's memory could not hold it
// and its filtered copy: nothing has been read by then but the size.
Image sized_image(const std::string &path, int64_t width, int64_t height, int64_t channels, int64_t bytes);

// Throws Failure for a file that cannot be read, is truncated, damaged or of another format.
Image read_image(const std::string &path);

// What a file of that name is written as; throws Failure for a name that says none. PPM and PGM are one format, of
// which the picture's own colours choose.
enum class Format { kPng, kPnm };
Format format_of(const std::string &path);

// Writes beside `path` first and renames, so that `path` is either whole or untouched.
void write_image(const std::string &path, const Image &image);

// The formats (image_pnm.cpp, image_png.cpp, image_jpeg.cpp); `bytes` is the whole file.
Image read_pnm(const std::string &path, const std::string &bytes);
Image read_png(const std::string &path, const std::string &bytes);
Image read_jpeg(const std::string &path, const std::string &bytes);
// They write to that very path; false, with the reason, where they cannot.
bool encode_pnm(const std::string &path, const Image &image, std::string *reason);
bool encode_png(const std::string &path, const Image &image, std::string *reason);
