// image.cpp - see image.hpp. PNG goes through libpng's simplified interface; PPM and PGM are a header and bytes.
// SPDX-License-Identifier: Apache-2.0
#include "image.hpp"

#include <png.h>

#include <cctype>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace {

constexpr int64_t kLargestSide = int64_t{1} << 24;

Image sized_image(int64_t width, int64_t height, int64_t channels) {
  Image image;
  image.width = width, image.height = height, image.channels = channels;
  image.pixels.resize(static_cast<size_t>(width * height * channels));
  return image;
}

// Frees what libpng holds for a png_image, on every way out.
struct PngImage : png_image {
  PngImage() : png_image() { version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(this); }
  PngImage(const PngImage &) = delete;
  PngImage &operator=(const PngImage &) = delete;
};

Image read_png(const std::string &path, const std::string &bytes) {
  PngImage png;
  if (!png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()))
    throw Failure(kExitFailed, path + ": not a PNG that can be read: " + png.message);
  if (png.format & PNG_FORMAT_FLAG_LINEAR)
    throw Failure(kExitFailed, path + ": 16 bits a channel; expected 8-bit grey or RGB");
  if (png.format & PNG_FORMAT_FLAG_ALPHA)
    throw Failure(kExitFailed, path + ": has transparency; expected 8-bit grey or RGB");
  const bool colour = png.format & PNG_FORMAT_FLAG_COLOR;
  png.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Image image = sized_image(png.width, png.height, colour ? 3 : 1);
  if (!png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr))
    throw Failure(kExitFailed, path + ": the PNG is damaged: " + png.message);
  return image;
}

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
  if (top != 255)
    throw Failure(kExitFailed, path + ": largest value is " + std::to_string(top) + "; expected 255, 8 bits a channel");
  const int64_t channels = bytes[1] == '6' ? 3 : 1;
  const size_t size = static_cast<size_t>(width * height * channels);
  ++at; // the one white space after the header
  if (at > bytes.size() || bytes.size() - at < size)
    throw Failure(kExitFailed, path + ": truncated: " + std::to_string(at > bytes.size() ? 0 : bytes.size() - at) +
                                   " bytes of pixels; expected " + std::to_string(size));
  Image image = sized_image(width, height, channels);
  std::memcpy(image.pixels.data(), bytes.data() + at, size);
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

} // namespace

Image read_image(const std::string &path) {
  const std::string bytes = read_bytes(path);
  if (bytes.compare(0, 4, "\x89PNG") == 0) return read_png(path, bytes);
  if (bytes.compare(0, 2, "P6") == 0 || bytes.compare(0, 2, "P5") == 0) return read_ppm(path, bytes);
  throw Failure(kExitFailed, path + ": neither PNG nor binary PPM (P6) or PGM (P5)");
}

void write_png(const std::string &path, const Image &image) {
  const std::string part = path + ".part";
  PngImage png;
  png.width = static_cast<png_uint_32>(image.width), png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  if (!png_image_write_to_file(&png, part.c_str(), 0, image.pixels.data(), 0, nullptr)) {
    std::remove(part.c_str());
    throw Failure(kExitFailed, path + ": cannot be written: " + png.message);
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    std::remove(part.c_str());
    throw Failure(kExitFailed, path + ": cannot be replaced");
  }
}
