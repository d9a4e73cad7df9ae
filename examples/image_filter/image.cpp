// image.cpp - see image.hpp. Which format a file has, its first bytes tell; PPM and PGM are a header and samples.
// SPDX-License-Identifier: Apache-2.0
#include "image.hpp"

#include <polyconv/polyconv.h>

#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

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

Image read_ppm(const std::string &path, const std::string &bytes) {
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

std::string read_bytes(const std::string &path) {
  try {
    std::ifstream file(path, std::ios::binary);
    file.exceptions(std::ios::failbit | std::ios::badbit);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  } catch (const std::ios_base::failure &) { // no such file, or a folder
    throw Failure(kExitFailed, path + ": cannot be read");
  }
}

// Bytes of memory of this machine; 0 where unknown.
int64_t machine_memory() {
  const polyconv_device *cpu = nullptr;
  polyconv_device_properties properties{};
  properties.struct_size = sizeof properties;
  const bool known = polyconv_device_find("cpu", &cpu) == POLYCONV_SUCCESS &&
                     polyconv_device_get_properties(cpu, &properties) == POLYCONV_SUCCESS;
  return known ? properties.memory_bytes : 0;
}

} // namespace

int32_t Image::sample(int64_t i) const {
  uint16_t wide = 0;
  if (bytes == 1) return pixels[static_cast<size_t>(i)];
  std::memcpy(&wide, pixels.data() + 2 * i, 2);
  return wide;
}

Image sized_image(const std::string &path, int64_t width, int64_t height, int64_t channels, int64_t bytes) {
  const double needed = 2.0 * static_cast<double>(width) * static_cast<double>(height) *
                        static_cast<double>(channels * bytes); // itself and its filtered copy
  const auto memory = static_cast<double>(machine_memory());
  if (memory > 0 && needed > 0.8 * memory) {
    char text[160];
    std::snprintf(
        text, sizeof text, ": %lld x %lld pixels take %.1f GiB, and as much again filtered; this machine has %.1f",
        static_cast<long long>(width), static_cast<long long>(height), needed / 2 / (1 << 30), memory / (1 << 30));
    throw Failure(kExitFailed, path + text);
  }
  Image image;
  image.width = width, image.height = height, image.channels = channels, image.bytes = bytes;
  image.pixels.resize(static_cast<size_t>(width * height * channels * bytes));
  return image;
}

Image read_image(const std::string &path) {
  const std::string bytes = read_bytes(path);
  if (bytes.compare(0, 4, "\x89PNG") == 0) return read_png(path, bytes);
  if (bytes.compare(0, 3, "\xFF\xD8\xFF") == 0) return read_jpeg(path, bytes);
  if (bytes.compare(0, 2, "P6") == 0 || bytes.compare(0, 2, "P5") == 0) return read_ppm(path, bytes);
  throw Failure(kExitFailed, path + ": neither PNG nor JPEG nor binary PPM (P6) or PGM (P5)");
}

void write_png(const std::string &path, const Image &image) {
  const std::string part = path + ".part";
  std::string reason;
  if (!encode_png(part, image, &reason)) {
    std::remove(part.c_str());
    throw Failure(kExitFailed, path + ": cannot be written: " + reason);
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    std::remove(part.c_str());
    throw Failure(kExitFailed, path + ": cannot be replaced");
  }
}
