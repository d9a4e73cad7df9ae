// image_pnm.cpp - binary PPM and PGM: a header and samples, of 16 bits the high byte first. They need no library, and
// hold no alpha.
// SPDX-License-Identifier: Apache-2.0
#include "image.hpp"

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

constexpr int64_t kLargestSide = int64_t{1} << 24;

// One number of a PPM header, after white space and comment lines; -1 where there is none.
int64_t header_number(const std::string &bytes, size_t &at) {
  while (at < bytes.size() && (std::isspace(static_cast<unsigned char>(bytes[at])) || bytes[at] == '#')) {
    if (bytes[at] == '#')
      while (at < bytes.size() && bytes[at] != '\n') ++at;
    else
      ++at;
  }
  if (at >= bytes.size() || !std::isdigit(static_cast<unsigned char>(bytes[at]))) return -1;
  int64_t number = 0;
  for (; at < bytes.size() && std::isdigit(static_cast<unsigned char>(bytes[at])); ++at)
    number = number <= kLargestSide ? number * 10 + (bytes[at] - '0') : number;
  return number;
}

} // namespace

Image read_pnm(const std::string &path, const std::string &bytes) {
  size_t at = 2;
  const int64_t width = header_number(bytes, at), height = header_number(bytes, at), top = header_number(bytes, at);
  if (width < 1 || height < 1 || width > kLargestSide || height > kLargestSide)
    throw Failure(kExitFailed, path + ": a PPM header without a width and height from 1 to 16777216");
  if (top != 255 && top != 65535)
    throw Failure(kExitFailed, path + ": largest value is " + std::to_string(top) +
                                   "; expected 255 or 65535, 8 or 16 bits a sample");
  const int64_t channels = bytes[1] == '6' ? 3 : 1, wide = top == 255 ? 1 : 2;
  const size_t size = static_cast<size_t>(width * height * channels * wide);
  ++at; // the one white space after the header
  if (at > bytes.size() || bytes.size() - at < size)
    throw Failure(kExitFailed, path + ": truncated: " + std::to_string(at > bytes.size() ? 0 : bytes.size() - at) +
                                   " bytes of pixels; expected " + std::to_string(size));
  Image image = sized_image(path, width, height, channels, wide);
  std::memcpy(image.pixels.data(), bytes.data() + at, size);
  for (size_t i = 0; wide == 2 && i < size; i += 2) { // the file has the high byte first
    const auto *pair = reinterpret_cast<const unsigned char *>(bytes.data() + at + i);
    const auto value = static_cast<uint16_t>(pair[0] << 8 | pair[1]);
    std::memcpy(image.pixels.data() + i, &value, 2);
  }
  return image;
}

bool encode_pnm(const std::string &path, const Image &image, std::string *reason) {
  if (image.alpha()) {
    *reason = "PPM and PGM hold no alpha; expected a PNG, or a picture without";
    return false;
  }
  std::FILE *file = std::fopen(path.c_str(), "wb");
  if (!file) {
    *reason = std::strerror(errno);
    return false;
  }
  bool good =
      std::fprintf(file, "P%d\n%lld %lld\n%d\n", image.channels == 3 ? 6 : 5, static_cast<long long>(image.width),
                   static_cast<long long>(image.height), image.bytes == 1 ? 255 : 65535) > 0;
  for (int64_t i = 0; good && i < image.samples(); ++i) {
    const int32_t sample = image.sample(i);
    if (image.bytes == 2) good = std::putc(sample >> 8, file) != EOF;
    good = good && std::putc(sample & 255, file) != EOF;
  }
  if (!good) *reason = std::strerror(errno);
  if (std::fclose(file) != 0 && good) {
    *reason = std::strerror(errno);
    good = false;
  }
  return good;
}
