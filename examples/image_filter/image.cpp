// image.cpp - see image.hpp. Which format a file has, its first bytes tell; which one is written, the name.
// SPDX-License-Identifier: Apache-2.0
#include "image.hpp"

#include <polyconv/polyconv.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

namespace {

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
  if (bytes.compare(0, 2, "P6") == 0 || bytes.compare(0, 2, "P5") == 0) return read_pnm(path, bytes);
  throw Failure(kExitFailed, path + ": neither PNG nor JPEG nor binary PPM (P6) or PGM (P5)");
}

Format format_of(const std::string &path) {
  const size_t dot = path.rfind('.');
  const std::string suffix = dot == std::string::npos ? "" : path.substr(dot);
  if (suffix == ".ppm" || suffix == ".pgm") return Format::kPnm;
#ifdef IMAGE_FILTER_PNG
  if (suffix == ".png") return Format::kPng;
  const char *const expected = "a name that ends in .png, .ppm or .pgm";
#else
  const char *const expected = "a name that ends in .ppm or .pgm, for this program was built without libpng";
#endif
  throw Failure(kExitUsage, "output is '" + path + "'; expected " + expected);
}

void write_image(const std::string &path, const Image &image) {
  const Format format = format_of(path);
  if (path.substr(path.rfind('.')) == ".pgm" && image.colours() == 3)
    throw Failure(kExitFailed, path + ": cannot be written: a PGM holds no colours; expected a name that ends in .ppm");
  const std::string part = path + ".part";
  std::string reason;
  if (!(format == Format::kPng ? encode_png : encode_pnm)(part, image, &reason)) {
    std::remove(part.c_str());
    throw Failure(kExitFailed, path + ": cannot be written: " + reason);
  }
  std::error_code error; // std::rename replaces no file on Windows
  std::filesystem::rename(part, path, error);
  if (error) {
    std::remove(part.c_str());
    throw Failure(kExitFailed, path + ": cannot be replaced");
  }
}
